#!/usr/bin/env python3
"""Hogwild training with Passel beside the same training with torch.multiprocessing.

Both run in turn on an otherwise idle machine, three times each; medians count.
Prints a table and writes it to build/bench/bench.json.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from measure import (
    DATA,
    anonymous_mb,
    children_of,
    events,
    first_steps,
    machine,
    write_results,
)

ROOT = Path(__file__).resolve().parents[2]
PEER = Path(__file__).with_name("torch_mp_hogwild.py")
POLL_SECONDS = 0.25


def fail(what: str, code: int, log: str) -> None:
    sys.exit(f"bench: {what} ended with {code}. Its last lines:\n" + "\n".join(log.splitlines()[-20:]))


def run_passel(program: Path, batch_size: int, workers: int, samples: int) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        run, log = Path(folder) / "run", Path(folder) / "log"
        command = [
            program, "train", "--data", DATA, "--out", run, "--workers", workers, "--batch-size", batch_size,
            "--max-tickets", samples // batch_size, "--hidden-size", 128,
            "--optimizer", "adam", "--lr", 0.002, "--clip-norm", 1, "--seed", 1, "--quiet",
        ]  # fmt: skip
        memory = 0.0
        with log.open("w") as output:
            start = time.time()
            process = subprocess.Popen(map(str, command), stdout=output, stderr=output)
            while True:
                try:
                    process.wait(timeout=POLL_SECONDS)
                    break
                except subprocess.TimeoutExpired:
                    if len(first_steps(events(run))) == workers:
                        memory = max([memory, *map(anonymous_mb, children_of(process.pid))])
        if process.returncode != 0:
            fail("passel", process.returncode, log.read_text())
        return {
            "samples_per_second": events(run)[-1]["samples_per_second"],
            "startup_seconds": max(first_steps(events(run)).values()) - start,
            "worker_anonymous_mb": memory,
        }


def run_peer(batch_size: int, workers: int, samples: int) -> dict:
    command = [
        sys.executable, PEER, "--batch-size", batch_size, "--workers", workers, "--samples", samples,
    ]  # fmt: skip
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        fail(PEER.name, done.returncode, done.stderr)
    return json.loads(done.stdout)


def medians(runs: list[dict]) -> dict:
    return {key: median(run[key] for run in runs) for key in runs[0]}


def measure(args) -> dict[tuple[int, int], tuple[dict, dict]]:
    """(batch size, workers) -> medians of Passel and of the peer."""
    measured = {}
    for batch_size, workers in ((64, 2), (64, 1), (16, 2), (16, 1)):
        passel, peer = [], []
        for repeat in range(args.repeats):
            print(f"batch size {batch_size}, {workers} workers, run {repeat + 1} of {args.repeats}",
                  file=sys.stderr)  # fmt: skip
            passel.append(run_passel(args.program, batch_size, workers, args.samples))
            peer.append(run_peer(batch_size, workers, args.samples))
        measured[batch_size, workers] = medians(passel), medians(peer)
    return measured


def results_of(measured, repeats: int) -> list[dict]:
    here = machine()

    def result(name: str, unit: str, value: float, peer_value: float, less_is_better=False) -> dict:
        ratio = peer_value / value if less_is_better else value / peer_value
        return {
            "name": name, "value": value, "unit": unit, "peer": "torch.multiprocessing",
            "peer_value": peer_value, "ratio": ratio, "samples": repeats, "machine": here,
        }  # fmt: skip

    def pair(key: str, batch_size: int = 64, workers: int = 2) -> tuple[float, float]:
        passel, peer = measured[batch_size, workers]
        return passel[key], peer[key]

    speed = "samples_per_second"
    results = [
        result(f"hogwild_b{batch_size}_w{workers}", "samples/s", *pair(speed, batch_size, workers))
        for batch_size, workers in measured
    ]
    scaling = [two / one for two, one in zip(pair(speed), pair(speed, workers=1))]
    results.append(result("hogwild_scaling_w2", "times", *scaling))
    results.append(result("startup", "s", *pair("startup_seconds"), less_is_better=True))
    results.append(result("worker_memory", "MB", *pair("worker_anonymous_mb"), less_is_better=True))
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/src/passel")
    parser.add_argument("--quick", action="store_true", help="short runs, once each: a smoke test")
    args = parser.parse_args()
    # Less than an epoch, so that neither side stops for an evaluation in between.
    args.samples, args.repeats = (12800, 1) if args.quick else (57600, 3)
    if not args.program.exists():
        sys.exit(f"bench: expected the program at {args.program}. Run 'make build' first.")
    write_results(results_of(measure(args), args.repeats), ROOT / "build/bench/bench.json")


if __name__ == "__main__":
    main()
