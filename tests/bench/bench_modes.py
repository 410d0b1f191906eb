#!/usr/bin/env python3
"""Training in the modes whose result repeats, beside training in mode hogwild.

All modes run in turn on an otherwise idle machine, five times each. Prints a table
and writes it to build/bench/bench-modes.json.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from measure import DATA, machine, write_results

ROOT = Path(__file__).resolve().parents[2]
PEER = "hogwild"
MODES = ("ordered", "sync", "recorded")


def command(program: Path, mode: str, batch_size: int, workers: int, samples: int) -> list[str]:
    words = [
        program, "train", "--data", DATA, "--mode", mode, "--workers", workers,
        "--batch-size", batch_size,
        "--max-tickets", samples // batch_size, "--hidden-size", 128,
        "--optimizer", "adam", "--lr", 0.002, "--clip-norm", 1, "--seed", 1, "--quiet",
    ]  # fmt: skip
    if mode == "sync":
        words += ["--shards", workers]
    return list(map(str, words))


def known(program: Path, mode: str) -> bool:
    words = [program, "train", "--mode", mode, "--print-config"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def samples_per_second(words: list[str]) -> float:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        done = subprocess.run(
            [*words, "--out", run], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            sys.exit(f"bench-modes: {' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        lines = (run / "metrics.jsonl").read_text().splitlines()
    return json.loads(lines[-1])["samples_per_second"]


def measure(args, modes: list[str]) -> dict[tuple[int, int], dict[str, list[float]]]:
    """(batch size, workers) -> samples/s of each mode in each round."""
    measured = {}
    for batch_size, workers in args.cases:
        speeds: dict[str, list[float]] = {mode: [] for mode in (PEER, *modes)}
        for repeat in range(args.repeats):
            print(f"batch size {batch_size}, {workers} workers, run {repeat + 1} of {args.repeats}",
                  file=sys.stderr)  # fmt: skip
            for mode, found in speeds.items():
                words = command(args.program, mode, batch_size, workers, args.samples)
                found.append(samples_per_second(words))
        measured[batch_size, workers] = speeds
    return measured


def results_of(measured, modes: list[str], repeats: int) -> list[dict]:
    """The ratio is the median of those of runs that followed each other."""
    here, results = machine(), []
    for mode in modes:
        for (batch_size, workers), speeds in measured.items():
            pairs = list(zip(speeds[mode], speeds[PEER]))
            results.append({
                "name": f"{mode}_b{batch_size}_w{workers}", "value": median(speeds[mode]),
                "unit": "samples/s", "peer": PEER, "peer_value": median(speeds[PEER]),
                "ratio": median(ours / theirs for ours, theirs in pairs), "samples": repeats,
                "machine": here,
            })  # fmt: skip
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/src/passel")
    parser.add_argument("--quick", action="store_true", help="short runs, once each: a smoke test")
    parser.add_argument(
        "--workers", type=int, nargs="+", default=[2, 1, 4], metavar="N", help="numbers of workers"
    )
    parser.add_argument(
        "--json", type=Path, default=ROOT / "build/bench/bench-modes.json", help="file to write"
    )
    args = parser.parse_args()
    # Less than an epoch, so that no side stops for an evaluation in between.
    args.samples, args.repeats = (1280, 1) if args.quick else (57600, 5)
    args.cases = [(64, 2)]
    if not args.quick:
        args.cases = [(batch_size, workers) for workers in args.workers for batch_size in (16, 64)]
    if not args.program.exists():
        sys.exit(f"bench-modes: expected the program at {args.program}. Run 'make bench-modes'.")
    modes = [mode for mode in MODES if known(args.program, mode)]
    write_results(results_of(measure(args, modes), modes, args.repeats), args.json)


if __name__ == "__main__":
    main()
