#!/usr/bin/env python3
"""The peers of shm_bench: the same work with torch.multiprocessing and faster-fifo.

As their documentation shows it: spawned processes, bytes and tensors through
queues, one compute thread a process. Prints one JSON object: value and unit.
"""

import argparse
import json
import mmap
import sys
import time

import torch
import torch.multiprocessing as mp

CONTEXT = mp.get_context("spawn")
PATIENCE_SECONDS = 60


def make_queue(kind: str):
    if kind == "faster_fifo":
        import faster_fifo
        import faster_fifo_reduction  # noqa: F401  lets a queue be passed to a process

        return faster_fifo.Queue(max_size_bytes=1 << 20)
    # Bounded as Passel's queues are; the simple queue has the capacity of a pipe.
    return CONTEXT.SimpleQueue() if kind == "simple_queue" else CONTEXT.Queue(1024)


def start(function, *args):
    process = CONTEXT.Process(target=function, args=args, daemon=True)
    process.start()
    return process


def one_thread() -> None:
    torch.set_num_threads(1)


# Messages: producers to this process.


def send_messages(queue, kind, size, count, all_ready):
    one_thread()
    message = b"x" * size
    all_ready.wait()
    if kind == "faster_fifo":
        for _ in range(count):
            queue.put(message, timeout=PATIENCE_SECONDS)
    else:
        for _ in range(count):
            queue.put(message)


def messages(kind: str, size: int, producers: int, count: int) -> float:
    queue, all_ready = make_queue(kind), CONTEXT.Barrier(producers)
    each = count // producers
    workers = [
        start(send_messages, queue, kind, size, each, all_ready) for _ in range(producers)
    ]
    # faster-fifo's fast way: all that is there at once.
    many = (lambda: len(queue.get_many(timeout=PATIENCE_SECONDS))) if kind == "faster_fifo" else None
    received = many() if many else bool(queue.get())
    first, begin = received, time.perf_counter()
    while received < each * producers:
        if many:
            received += many()
        else:
            queue.get()
            received += 1
    elapsed = time.perf_counter() - begin
    for worker in workers:
        worker.join()
    return (received - first) / elapsed


# Tensor handles: this process to a worker.


def receive_tensors(queue, count, results):
    one_thread()
    tensor = queue.get()
    begin = time.perf_counter()
    for _ in range(count - 1):
        del tensor
        tensor = queue.get()
    results.put((count - 1) / (time.perf_counter() - begin))


def tensor_handles(kind: str, count: int) -> float:
    queue, results = make_queue(kind), CONTEXT.SimpleQueue()
    tensor = torch.ones(100).share_memory_()
    worker = start(receive_tensors, queue, count, results)
    for _ in range(count):
        queue.put(tensor)
    value = results.get()
    worker.join()
    return value


# A message there and back.


def echo(pings, pongs):
    while message := pings.get():
        pongs.put(message)


def round_trip(kind: str, count: int) -> float:
    pings, pongs = make_queue(kind), make_queue(kind)
    worker = start(echo, pings, pongs)

    def trip():
        pings.put(b"x" * 64)
        pongs.get()

    trip()
    begin = time.perf_counter()
    for _ in range(count):
        trip()
    elapsed = time.perf_counter() - begin
    pings.put(b"")
    worker.join()
    return elapsed / count * 1e6


# Batches: a worker fills them, this process sums them.

SOURCE_BYTES = 8 << 20


def fill_batches(queue, size, count, finished):
    one_thread()
    source, at = torch.ones(SOURCE_BYTES // 4), 0
    for _ in range(count):
        batch = torch.empty(size // 4)
        batch.copy_(source[at : at + size // 4])
        at = (at + size // 4) % len(source)
        queue.put(batch)
        del batch
    # Whoever sends a tensor must live until it has arrived.
    finished.get()


def handover(kind: str, size: int, count: int) -> float:
    queue, finished = make_queue(kind), CONTEXT.SimpleQueue()
    worker = start(fill_batches, queue, size, count, finished)

    def take():
        if queue.get().sum().item() != size // 4:
            sys.exit("a batch has other values than it was filled with")

    take()
    begin = time.perf_counter()
    for _ in range(count - 1):
        take()
    elapsed = time.perf_counter() - begin
    finished.put(None)
    worker.join()
    return (count - 1) * size / elapsed / 1e9


# Processes.


def first_operation(results, finished):
    one_thread()
    results.put(torch.ones(16) + 1)
    finished.get()


def await_result(results) -> None:
    if results.get().sum().item() != 32:
        sys.exit("wrong result")


def spawn(gigabytes: int) -> float:
    # Anonymous memory of this process, each page touched.
    ballast = mmap.mmap(-1, max(gigabytes, 1) << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if gigabytes:
        torch.frombuffer(ballast, dtype=torch.uint8).fill_(1)
    results, finished = CONTEXT.SimpleQueue(), CONTEXT.SimpleQueue()
    begin = time.perf_counter()
    worker = start(first_operation, results, finished)
    await_result(results)
    elapsed = time.perf_counter() - begin
    finished.put(None)
    worker.join()
    return elapsed


def respawn() -> float:
    results, finished = CONTEXT.SimpleQueue(), CONTEXT.SimpleQueue()
    worker = start(first_operation, results, finished)
    await_result(results)
    # A process killed while it waits in a queue leaves that queue locked for ever.
    finished = CONTEXT.SimpleQueue()
    begin = time.perf_counter()
    worker.kill()
    worker.join()
    worker = start(first_operation, results, finished)
    await_result(results)
    elapsed = time.perf_counter() - begin
    finished.put(None)
    worker.join()
    return elapsed


def measurements(scale: float) -> dict:
    def count(full: int) -> int:
        return max(10, int(full * scale))

    table = {
        "spawn_first_op": ("s", lambda: spawn(0)),
        "spawn_first_op_4gib": ("s", lambda: spawn(4)),
        "respawn": ("s", respawn),
    }
    for kind in ("simple_queue", "queue", "faster_fifo"):
        for size in (64, 128):
            for producers in (1, 2, 3, 4):
                table[f"messages_{size}_p{producers}_{kind}"] = (
                    "messages/s",
                    lambda k=kind, s=size, p=producers: messages(k, s, p, count(200_000)),
                )
    for kind in ("simple_queue", "queue"):
        table[f"tensor_handles_{kind}"] = (
            "handles/s",
            lambda k=kind: tensor_handles(k, count(3000)),
        )
        table[f"round_trip_{kind}"] = ("us", lambda k=kind: round_trip(k, count(20_000)))
        for name, size in (("1mib", 1 << 20), ("64kib", 64 << 10)):
            table[f"handover_{name}_{kind}"] = (
                "GB/s",
                lambda k=kind, s=size: handover(k, s, count(2000)),
            )
    return table


def main() -> None:
    table = measurements(1)
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sorted(table), metavar="NAME", help=" ".join(sorted(table)))
    parser.add_argument("--scale", type=float, default=1, help="of how much is sent")
    args = parser.parse_args()
    one_thread()
    unit, run = measurements(args.scale)[args.name]
    print(json.dumps({"value": run(), "unit": unit}))


if __name__ == "__main__":
    main()
