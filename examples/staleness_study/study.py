#!/usr/bin/env python3
"""What staleness costs in learning, and what gives it back: `passel train` over modes and seeds.

    examples/staleness_study/study.py --passel build/release/src/passel --out study
    examples/staleness_study/study.py --passel build/release/src/passel --out quick \\
        --problems adding --seeds 2 --tickets 200

Prints a table for each problem: the median and the range over the seeds of the training loss at
equal samples (when all tickets are done) and at equal time (when the fastest run was done). Writes
study.json, with every run, and one SVG for each problem. Needs no other package.

Run it on an idle machine: the loss at equal time is worth what the machine's quiet is worth.
"""

import argparse
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import chart

# The last part of a run, in events, over which the loss is averaged: one interval is too noisy.
SHARE = 0.1
EVENTS = 100


@dataclass(frozen=True)
class Variant:
    """A way to train. `family` names the update rule: compare within it."""

    name: str
    family: str
    options: tuple[str, ...]


ADAM = ("--optimizer", "adam", "--lr", "0.003")
SGD = ("--optimizer", "sgd", "--lr", "0.05", "--momentum", "0.9")
SERIAL = ("--mode", "ordered", "--staleness", "0", "--workers", "1")


# "ordered N": with staleness N.
def ordered(staleness: int, *more: str) -> tuple[str, ...]:
    return ("--mode", "ordered", "--staleness", str(staleness), *more)


VARIANTS = [
    Variant("serial", "adam", ADAM + SERIAL),
    Variant("sync", "adam", (*ADAM, "--mode", "sync", "--shards", "2")),
    Variant("hogwild", "adam", (*ADAM, "--mode", "hogwild")),
    *(Variant(f"ordered {n}", "adam", ADAM + ordered(n)) for n in (1, 3, 7)),
    Variant("ordered 3, staleness-lr 0.5", "adam", ADAM + ordered(3, "--staleness-lr", "0.5")),
    Variant("ordered 3, staleness-lr 1", "adam", ADAM + ordered(3, "--staleness-lr", "1")),
    Variant("ordered 3, compensation 1", "adam", ADAM + ordered(3, "--delay-compensation", "1")),
    Variant("ordered 3, compensation 10", "adam", ADAM + ordered(3, "--delay-compensation", "10")),
    Variant("sgd serial", "sgd", SGD + SERIAL),
    Variant("sgd ordered 3", "sgd", SGD + ordered(3)),
    Variant("sgd ordered 3, staleness-lr 1", "sgd", SGD + ordered(3, "--staleness-lr", "1")),
    Variant("sgd ordered 3, compensation 1", "sgd", SGD + ordered(3, "--delay-compensation", "1")),
    Variant("sgd ordered 3, corrected", "sgd", SGD + ordered(3, "--momentum-correction")),
]

PROBLEMS = {
    "adding": ("--dataset", "adding", "--hidden-size", "64", "--batch-size", "32"),
    "fashion-mnist": ("--dataset", "fashion-mnist", "--hidden-size", "128", "--batch-size", "64"),
}
TICKETS = {"adding": 2500, "fashion-mnist": 3750}


@dataclass(frozen=True)
class Run:
    """One finished run: (seconds, loss) of each interval, counted from its first ready worker."""

    curve: list[tuple[float, float]]
    summary: dict

    def loss_at(self, seconds: float) -> float:
        """Mean over the newest intervals then, SHARE of a whole run's."""
        seen = [loss for at, loss in self.curve if at <= seconds] or [self.curve[0][1]]
        return statistics.fmean(seen[-max(1, round(SHARE * len(self.curve))) :])

    @property
    def seconds(self) -> float:
        return self.curve[-1][0]

    @property
    def score(self) -> float:
        """On the test set: accuracy, or the loss."""
        return self.summary.get("test_accuracy", self.summary.get("test_loss"))


def command(passel: Path, problem: str, variant: Variant, args: argparse.Namespace) -> list[str]:
    tickets = args.tickets or TICKETS[problem]
    line = [str(passel), "train", *PROBLEMS[problem], *variant.options]
    if "--workers" not in variant.options:
        line += ["--workers", str(args.workers)]
    if problem == "adding":
        line += ["--adding-steps", str(args.adding_steps)]
    line += ["--epochs", "100000", "--max-tickets", str(tickets), "--quiet"]
    return line + ["--log-interval", str(max(1, tickets // EVENTS))]


def read_run(folder: Path) -> Run:
    events = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    start = next(e["time"] for e in events if e["event"] == "worker" and e["state"] == "ready")
    curve = [(e["time"] - start, e["loss"]) for e in events if e["event"] == "train"]
    return Run(curve, events[-1])


def train(line: list[str], folder: Path, seed: int) -> Run | None:
    """None where the run failed, as one that diverges does; its reason is printed."""
    done = subprocess.run(
        [*line, "--seed", str(seed), "--out", str(folder)], capture_output=True, text=True
    )
    if done.returncode == 0:
        return read_run(folder)
    if done.returncode == 1:
        print(f"{folder.name}: {done.stderr.strip()}", file=sys.stderr)
        return None
    raise SystemExit(f"{' '.join(line)}: exit code {done.returncode}: {done.stderr.strip()}")


def study(problem: str, args: argparse.Namespace) -> dict[str, list[Run | None]]:
    """Seed by seed, so that what disturbs the machine for a while disturbs all variants."""
    runs: dict[str, list[Run | None]] = {variant.name: [] for variant in VARIANTS}
    for seed in range(1, args.seeds + 1):
        for number, variant in enumerate(VARIANTS):
            folder = args.out / problem / f"{number:02}-seed{seed}"
            line = command(args.passel, problem, variant, args)
            runs[variant.name].append(train(line, folder, seed))
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return runs


def row(variant: Variant, runs: list[Run | None], seconds: float) -> dict:
    finished = [run for run in runs if run]
    return {
        "name": variant.name,
        "family": variant.family,
        "options": list(variant.options),
        "failed": len(runs) - len(finished),
        "at_equal_samples": [run.loss_at(run.seconds) for run in finished],
        "at_equal_time": [run.loss_at(seconds) for run in finished],
        "score": [run.score for run in finished],
        "seconds": [run.seconds for run in finished],
        "staleness_mean": [run.summary["staleness_mean"] for run in finished],
        "implied_momentum": [run.summary["implied_momentum"] for run in finished],
    }


def spread(values: list[float]) -> str:
    if not values:
        return "-"
    return f"{statistics.median(values):.4f} [{min(values):.4f}, {max(values):.4f}]"


def print_table(problem: str, rows: list[dict], seconds: float, args: argparse.Namespace) -> None:
    tickets = args.tickets or TICKETS[problem]
    print(f"\n{problem}: {tickets} tickets, {args.seeds} seeds, {args.workers} workers")
    print(f"{'':<31}{'loss at equal samples':<28}{f'loss after {seconds:.1f} s':<28}"
          f"{'test score':<12}{'seconds':<9}failed")  # fmt: skip
    for line in rows:
        score = f"{statistics.median(line['score']):.4f}" if line["score"] else "-"
        took = f"{statistics.median(line['seconds']):.1f}" if line["seconds"] else "-"
        print(f"{line['name']:<31}{spread(line['at_equal_samples']):<28}"
              f"{spread(line['at_equal_time']):<28}{score:<12}{took:<9}"
              f"{line['failed']}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passel", type=Path, required=True, help="the program")
    parser.add_argument("--out", type=Path, required=True, help="folder, new or empty")
    parser.add_argument("--problems", default="adding,fashion-mnist", help="default: %(default)s")
    parser.add_argument("--seeds", type=int, default=5, help="default: %(default)s")
    parser.add_argument("--tickets", type=int, default=0, help=f"a run; default: {TICKETS}")
    parser.add_argument("--workers", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--adding-steps", type=int, default=50, help="default: %(default)s")
    args = parser.parse_args()
    problems = args.problems.split(",")
    if unknown := set(problems) - set(PROBLEMS):
        known = ", ".join(PROBLEMS)
        parser.error(f"--problems: expected some of {known}, got {', '.join(sorted(unknown))}")
    if args.out.exists() and any(args.out.iterdir()):
        parser.error(f"--out: expected a new or empty folder, got {args.out}")

    args.out.mkdir(parents=True, exist_ok=True)
    result = {}
    for problem in problems:
        runs = study(problem, args)
        times = [run.seconds for of_variant in runs.values() for run in of_variant if run]
        if not times:
            raise SystemExit(f"{problem}: every run failed")
        rows = [row(variant, runs[variant.name], min(times)) for variant in VARIANTS]
        print_table(problem, rows, min(times), args)
        result[problem] = {"equal_time_seconds": min(times), "seeds": args.seeds, "rows": rows}
        (args.out / f"{problem}.svg").write_text(chart.draw(problem, rows, min(times)))
        (args.out / "study.json").write_text(json.dumps(result, indent=2) + "\n")
    print(f"\nwritten to {args.out}")


if __name__ == "__main__":
    main()
