#!/usr/bin/env python3
"""Training on a GPU: samples/s of 1, 2 and 4 workers on one device.

Beside each figure stand the CPU's with as many workers, one worker's, and that of the same
training on batches that lie on the device already: what the copies of batches leave of the
speed. All sides run in turn. Prints a table and writes it to build/bench/bench-gpu-training.json.
Without a GPU it says so and measures nothing.
"""

import argparse
import gzip
import struct
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

from measure import DATA, machine, write_results
from steady import measure_steady

ROOT = Path(__file__).resolve().parents[2]
MODES = ("hogwild", "ordered")
STATES = (128, 512)
WORKERS = (1, 2, 4)
BATCH = 64
NO_GPU = "expected a GPU to compute on"
CPU = "the CPU, as many workers"
RESIDENT = "batches that lie on the device"
ONE = "one worker"


def without_a_gpu(program: Path) -> str:
    """What the program says where it finds no GPU; nothing where it computes on one."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            program, "train", "--dataset", "adding", "--device", "cuda", "--workers", "1",
            "--max-tickets", "1", "--quiet", "--out", f"{folder}/run",
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 2 and NO_GPU in done.stderr:
        return done.stderr.strip()
    if done.returncode != 0:
        sys.exit(f"bench-gpu-training: {program} ended with {done.returncode}:\n{done.stderr}")
    return ""


def read_idx(name: str) -> tuple[tuple[int, ...], bytes]:
    """Sizes and elements."""
    data = gzip.decompress((DATA / f"{name}.gz").read_bytes())
    rank = data[3]
    return struct.unpack(f">{rank}I", data[4 : 4 + 4 * rank]), data[4 + 4 * rank :]


def write_data(folder: Path, times: int) -> None:
    """Fashion-MNIST, so often in a file that a run does not come to the end of an epoch."""
    for part in ("train", "t10k"):
        for kind in ("images-idx3", "labels-idx1"):
            name = f"{part}-{kind}-ubyte"
            sizes, elements = read_idx(name)
            repeats = times if part == "train" else 1
            header = struct.pack(f">{1 + len(sizes)}I", 0x800 + len(sizes), repeats * sizes[0], *sizes[1:])
            (folder / name).write_bytes(header + repeats * elements)


def command(program: Path, data: Path, device: str, mode: str, state: int, workers: int) -> list:
    return [
        program, "train", "--data", data, "--device", device, "--mode", mode, "--hidden-size", state,
        "--workers", workers, "--batch-size", BATCH, "--epochs", 1000, "--log-interval", 10,
        "--optimizer", "adam", "--lr", 0.002, "--clip-norm", 1, "--seed", 1,
    ]  # fmt: skip


class Measurement:
    """Samples/s of each side in each round, by (mode, state, workers)."""

    def __init__(self, args, data: Path):
        self.args, self.data = args, data
        self.speeds = defaultdict(lambda: defaultdict(list))
        self.notes = {}

    def round(self) -> None:
        for mode in MODES:
            for state in self.args.states:
                for workers in self.args.workers:
                    self.case(mode, state, workers)

    def case(self, mode: str, state: int, workers: int) -> None:
        print(f"{mode}, state {state}, workers {workers}", file=sys.stderr)
        sides = {"gpu": self.args.program, "resident": self.args.resident, "cpu": self.args.program}
        for side, program in sides.items():
            device = "cpu" if side == "cpu" else "cuda"
            words = command(program, self.data, device, mode, state, workers)
            seen = measure_steady(words, workers, self.args.seconds)
            self.speeds[mode, state, workers][side].append(BATCH * seen.tickets_a_second)
            if side == "gpu":
                self.notes[workers] = "; ".join(seen.notes)


def rows(speeds: dict, notes: dict, here: str) -> list[dict]:
    """A ratio is the median of those of runs of one round."""
    made = []

    def row(name: str, workers: int, ours: list[float], peer: str, theirs: list[float]) -> None:
        made.append({
            "name": f"train_gpu_{name}", "value": median(ours), "unit": "samples/s", "peer": peer,
            "peer_value": median(theirs), "ratio": median(a / b for a, b in zip(ours, theirs)),
            "samples": len(ours), "machine": f"{notes[workers]}; {here}",
        })  # fmt: skip

    for (mode, state, workers), sides in speeds.items():
        case = f"{mode}_b{BATCH}_s{state}_w{workers}"
        row(case, workers, sides["gpu"], CPU, sides["cpu"])
        row(f"copies_{case}", workers, sides["gpu"], RESIDENT, sides["resident"])
        if workers > 1 and (mode, state, 1) in speeds:
            row(f"scaling_{case}", workers, sides["gpu"], ONE, speeds[mode, state, 1]["gpu"])
    return made


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/src/passel")
    parser.add_argument("--resident", type=Path, metavar="PROGRAM",
                        help="the one with batches on the device, if it is not beside the other")  # fmt: skip
    parser.add_argument("--states", type=int, nargs="+", default=STATES, metavar="S", help="hidden units")
    parser.add_argument("--workers", type=int, nargs="+", default=WORKERS, metavar="N")
    parser.add_argument("--rounds", type=int, default=3, metavar="N")
    parser.add_argument("--seconds", type=float, default=3, help="how long each run is looked at")
    parser.add_argument("--quick", action="store_true", help="briefly, to see that all runs")
    parser.add_argument("--json", type=Path, default=ROOT / "build/bench/bench-gpu-training.json")
    args = parser.parse_args()
    if args.quick:
        args.states, args.workers, args.rounds, args.seconds = (128,), (1, 2), 1, 0.1
    args.resident = args.resident or args.program.with_name("passel_on_resident_batches")
    return args


def main() -> None:
    args = arguments()
    missing = [str(program) for program in (args.program, args.resident) if not program.exists()]
    if missing:
        sys.exit(f"bench-gpu-training: expected {' and '.join(missing)}. Run 'make gpu-check'.")
    reason = without_a_gpu(args.program)
    if reason:
        print(f"bench-gpu-training: skipped: no GPU: {reason}")
        return
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder), 1 if args.quick else 8)
        measurement = Measurement(args, Path(folder))
        for _ in range(args.rounds):
            measurement.round()
    write_results(rows(measurement.speeds, measurement.notes, machine()), args.json)


if __name__ == "__main__":
    main()
