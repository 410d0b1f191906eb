#!/usr/bin/env python3
"""Passel's queues, tensors and processes beside those of others.

Peers are torch.multiprocessing, faster-fifo and Boost's message_queue. All run in
turn on an otherwise idle machine, three times each; medians count. Prints a table
and writes it to build/bench/bench-shm.json.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

from measure import machine, write_results

ROOT = Path(__file__).resolve().parents[2]
PEERS = Path(__file__).with_name("torch_mp_queues.py")
TIMEOUT_SECONDS = 300

SIMPLE_QUEUE = "torch.multiprocessing SimpleQueue"
QUEUE = "torch.multiprocessing Queue"
PROCESS = "torch.multiprocessing Process"
FASTER_FIFO = "faster-fifo, get_many"
BOOST = "boost::interprocess::message_queue"
ONE_PROCESS = "filling and summing in one process"

# A measurement is (side, name): of the program, or of PEERS.
PROGRAM, PYTHON = "program", "python"


def row(name: str, peer: str, peer_measurement: tuple[str, str], measurement: str | None = None):
    """name in the results, Passel's measurement, the peer's name and measurement."""
    return name, (PROGRAM, measurement or name), peer, peer_measurement


ROWS = [
    row("tensor_handles", SIMPLE_QUEUE, (PYTHON, "tensor_handles_simple_queue")),
    row("tensor_handles_vs_queue", QUEUE, (PYTHON, "tensor_handles_queue"), "tensor_handles"),
    row("tensor_handles_lent", SIMPLE_QUEUE, (PYTHON, "tensor_handles_simple_queue")),
    row("messages_64", SIMPLE_QUEUE, (PYTHON, "messages_64_p1_simple_queue"), "messages_64_p1"),
    row("messages_64_vs_faster_fifo", FASTER_FIFO, (PYTHON, "messages_64_p1_faster_fifo"), "messages_64_p1"),
    row("messages_64_vs_boost", BOOST, (PROGRAM, "boost_mq_64"), "messages_64_p1"),
    row("messages_128", SIMPLE_QUEUE, (PYTHON, "messages_128_p1_simple_queue")),
    *(row(f"messages_64_p{n}", SIMPLE_QUEUE, (PYTHON, f"messages_64_p{n}_simple_queue")) for n in (1, 2, 3, 4)),
    row("round_trip", SIMPLE_QUEUE, (PYTHON, "round_trip_simple_queue")),
    row("round_trip_asleep", SIMPLE_QUEUE, (PYTHON, "round_trip_simple_queue")),
    row("handover_1mib", SIMPLE_QUEUE, (PYTHON, "handover_1mib_simple_queue")),
    row("handover_64kib", SIMPLE_QUEUE, (PYTHON, "handover_64kib_simple_queue")),
    row("handover_1mib_vs_local", ONE_PROCESS, (PROGRAM, "local_1mib"), "handover_1mib"),
    row("handover_64kib_vs_local", ONE_PROCESS, (PROGRAM, "local_64kib"), "handover_64kib"),
    row("spawn_first_op", PROCESS, (PYTHON, "spawn_first_op")),
    row("spawn_first_op_4gib", PROCESS, (PYTHON, "spawn_first_op_4gib")),
    row("respawn", PROCESS, (PYTHON, "respawn")),
]  # fmt: skip
LESS_IS_BETTER = ("s", "us")


def run(side: str, name: str, args) -> dict:
    if side == PROGRAM:
        command = [args.program, name, "--seconds", args.seconds]
    else:
        command = [sys.executable, PEERS, name, "--scale", args.scale]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS
    )
    if done.returncode != 0:
        sys.exit(f"bench-shm: {name} ended with {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def measure(args) -> dict[tuple[str, str], tuple[float, str]]:
    """measurement -> median and unit."""
    # Each once a round, Passel's next to its peer's.
    wanted = list(dict.fromkeys(m for _, ours, _, theirs in ROWS for m in (ours, theirs)))
    values: dict[tuple[str, str], list[dict]] = {measurement: [] for measurement in wanted}
    for repeat in range(args.repeats):
        for side, name in wanted:
            print(f"run {repeat + 1} of {args.repeats}: {name}", file=sys.stderr)
            values[side, name].append(run(side, name, args))
    return {
        measurement: (median(one["value"] for one in runs), runs[0]["unit"])
        for measurement, runs in values.items()
    }


def results_of(measured, repeats: int) -> list[dict]:
    here = machine()
    results = []
    for name, ours, peer, theirs in ROWS:
        (value, unit), (peer_value, _) = measured[ours], measured[theirs]
        ratio = peer_value / value if unit in LESS_IS_BETTER else value / peer_value
        results.append({
            "name": name, "value": value, "unit": unit, "peer": peer, "peer_value": peer_value,
            "ratio": ratio, "samples": repeats, "machine": here,
        })  # fmt: skip
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--program", type=Path, default=ROOT / "build/release/tests/bench/shm_bench"
    )
    parser.add_argument("--quick", action="store_true", help="short runs, once each: a smoke test")
    args = parser.parse_args()
    args.seconds, args.scale, args.repeats = (0.05, 0.02, 1) if args.quick else (1, 1, 3)
    if not args.program.exists():
        sys.exit(f"bench-shm: expected the program at {args.program}. Run 'make bench-shm'.")
    write_results(results_of(measure(args), args.repeats), ROOT / "build/bench/bench-shm.json")


if __name__ == "__main__":
    main()
