#!/usr/bin/env python3
"""The peer: the same Hogwild training, written with torch.multiprocessing.

As pytorch/examples' mnist_hogwild does it: spawned processes share the model's
parameters, each has an optimiser of its own and steps without locks. Images lie
in shared memory, normalised beforehand; a worker only picks its batches' rows.

Prints one JSON object:
    samples_per_second   from the moment all workers have done a step to the last step of all
    startup_seconds      from the start of this process to the first step of the last worker
    worker_anonymous_mb  the largest worker's anonymous memory while training
"""

import argparse
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "python"))

import torch
import torch.multiprocessing as mp
from torch.nn import functional as F
from twin import Classifier, read_images, read_labels

from measure import DATA, anonymous_mb, process_age

HIDDEN = 128


def train(rank, model, images, labels, args, all_ready, times):
    torch.set_num_threads(1)
    torch.manual_seed(args.seed + rank)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def step(rows):
        optimizer.zero_grad()
        x = images[rows].transpose(0, 1)
        F.cross_entropy(model(x), labels[rows]).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    count = args.samples // args.workers // args.batch_size
    batches = torch.cat([
        torch.randperm(len(labels)) for _ in range(1 + (count + 1) * args.batch_size // len(labels))
    ]).split(args.batch_size)  # fmt: skip
    step(batches[0])
    times[rank, 0] = time.monotonic()
    all_ready.wait()
    times[rank, 1] = time.monotonic()
    for rows in batches[1 : count + 1]:
        step(rows)
    times[rank, 2] = time.monotonic()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--samples", type=int, default=60000, help="of all workers together")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    start = time.monotonic() - process_age()

    images = read_images(DATA / "train-images-idx3-ubyte.gz").share_memory_()
    labels = read_labels(DATA / "train-labels-idx1-ubyte.gz").share_memory_()
    model = Classifier(images.shape[2], HIDDEN, 10).share_memory()
    times = torch.zeros(args.workers, 3, dtype=torch.double).share_memory_()
    context = mp.get_context("spawn")
    all_ready = context.Barrier(args.workers)
    workers = [
        context.Process(target=train, args=(rank, model, images, labels, args, all_ready, times))
        for rank in range(args.workers)
    ]
    for worker in workers:
        worker.start()
    memory = 0.0
    while any(worker.is_alive() for worker in workers):
        for worker in workers:
            worker.join(timeout=0.25)
            if times[:, 1].all():
                memory = max(memory, anonymous_mb(worker.pid))
    if any(worker.exitcode for worker in workers):
        sys.exit("a worker failed; its message stands above")

    samples = args.samples // args.workers // args.batch_size * args.batch_size * args.workers
    first, ready, done = times[:, 0].max(), times[:, 1].min(), times[:, 2].max()
    json.dump(
        {
            "samples_per_second": samples / (done - ready).item(),
            "startup_seconds": first.item() - start,
            "worker_anonymous_mb": memory,
        },
        sys.stdout,
    )
    print()


if __name__ == "__main__":
    main()
