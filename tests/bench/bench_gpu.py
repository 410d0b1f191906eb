#!/usr/bin/env python3
"""The LLTM on a GPU: microseconds a step, beside the composed cell and cuDNN's LSTM.

Forward and backward apart, with launches one by one and as CUDA graphs. Beside each
figure stand two floors: what the best kernel could reach on this device (gpu_floors.py),
and what two launches a step cost however little they do, as measured. Prints a table and
writes it to build/bench/bench-gpu.json. Without a GPU it says so and measures nothing.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import torch
from gpu_floors import Device, Work, floor_microseconds
from measure import write_results

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/kernels_python"), str(ROOT / "kernels/python")]

STEPS = 28
STATES = (128, 512, 1024)
BATCHES = (16, 64)
PRECISIONS = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16}
LAUNCHES_A_STEP = 2  # a product and a pointwise kernel
CHAIN = 1000
PEERS = {
    "composed": "torch's operators and autograd",
    "lstm": "torch.nn.LSTM (cuDNN), 4 gates for 3",
}


def ours(x, cell):
    hidden, _, _ = torch.ops.passel.lltm(x, *cell)
    return hidden


def composed_cell(x, cell):
    import composed

    return composed.lltm(x, *cell)[0]


def sides(precision: str, batch: int, state: int):
    """Name and function from x [T, B, I] to hidden states; I = S."""
    options = {"device": "cuda", "dtype": PRECISIONS[precision]}

    def uniform(*shape):
        tensor = torch.empty(*shape, **options).uniform_(-(state**-0.5), state**-0.5)
        return tensor.requires_grad_()

    zeros = torch.zeros(batch, state, **options)
    cell = (uniform(3 * state, 2 * state), uniform(3 * state), zeros, zeros)
    lstm = torch.nn.LSTM(state, state, **options)
    yield "passel", lambda x: ours(x, cell)
    yield "composed", lambda x: composed_cell(x, cell)
    yield "lstm", lambda x: lstm(x)[0]


def microseconds_a_step(function, x, rounds: int, repeats: int) -> tuple[float, float]:
    """Of forward and backward: the least of `rounds` means over `repeats` runs."""
    seed = torch.randn_like(function(x))

    def run():
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        marks[0].record()
        out = function(x)
        marks[1].record()
        out.backward(seed)
        marks[2].record()
        return marks

    for _ in range(5):
        run()
    best = [float("inf")] * 2
    for _ in range(rounds):
        torch.cuda.synchronize()
        runs = [run() for _ in range(repeats)]
        torch.cuda.synchronize()
        for part in range(2):
            total = sum(marks[part].elapsed_time(marks[part + 1]) for marks in runs)
            best[part] = min(best[part], total / repeats * 1e3 / STEPS)
    return best[0], best[1]


def microseconds_a_launch(rounds: int, as_graph: bool) -> float:
    """From the end of a kernel that does nothing to that of the next one in its stream."""
    one = torch.zeros(1, device="cuda")

    def chain():
        for _ in range(CHAIN):
            one.add_(1)

    chain()
    run = chain
    if as_graph:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            chain()
        run = graph.replay
    best = float("inf")
    for _ in range(rounds + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        best = min(best, begin.elapsed_time(end) * 1e3 / CHAIN)
    return best


def measure(rounds: int, repeats: int) -> list[dict]:
    """All sides at all sizes in this process, whose environment says whether as graphs."""
    results = []
    for precision in PRECISIONS:
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        for state in STATES:
            for batch in BATCHES:
                torch.manual_seed(1)
                x = torch.randn(STEPS, batch, state, device="cuda", dtype=PRECISIONS[precision])
                x.requires_grad_()
                for side, function in sides(precision, batch, state):
                    forward, backward = microseconds_a_step(function, x, rounds, repeats)
                    results.append(
                        {"side": side, "state": state, "batch": batch, "precision": precision,
                         "forward": forward, "backward": backward}
                    )  # fmt: skip
    return results


def measured_apart(args, graphs: str) -> dict:
    """In a process of its own: whether graphs are used is settled when it starts."""
    command = [sys.executable, __file__, "--measure", "--build", args.build]
    command += ["--quick"] if args.quick else []
    environment = {**os.environ, "PASSEL_CUDA_GRAPHS": graphs}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"bench-gpu: the measurement with PASSEL_CUDA_GRAPHS={graphs} failed")
    return json.loads(done.stdout)


def floor_of(device: Device, one: dict, part: str) -> float:
    return floor_microseconds(
        device,
        Work(batch=one["batch"], input=one["state"], state=one["state"], steps=STEPS,
             precision=one["precision"], backward=part == "backward"),
    )  # fmt: skip


def rows(measured: dict, suffix: str, samples: int, device: Device, machine: str) -> list[dict]:
    values = {
        (one["side"], f"s{one['state']}_b{one['batch']}_{one['precision']}"): one
        for one in measured["results"]
    }
    made = []
    for (side, shape), one in values.items():
        if side != "passel":
            continue
        for peer, description in PEERS.items():
            for part in ("forward", "backward"):
                theirs = values[peer, shape][part]
                made.append(
                    {
                        "name": f"lltm_gpu_{part}_{shape}{suffix}_vs_{peer}",
                        "floor": floor_of(device, one, part),
                        "floor_of_launches": LAUNCHES_A_STEP * measured["launch"],
                        "value": one[part],
                        "unit": "us a step",
                        "peer": description,
                        "peer_value": theirs,
                        "ratio": theirs / one[part],
                        "samples": samples,
                        "machine": machine,
                    }
                )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--quick", action="store_true", help="briefly, to see that all runs")
    parser.add_argument("--json", type=Path, default=ROOT / "build/bench/bench-gpu.json")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("bench-gpu: skipped: no GPU")
        return
    rounds, repeats = (1, 2) if args.quick else (7, 30)
    if args.measure:
        torch.ops.load_library(str(args.build / "kernels/python/libpassel_ops.so"))
        torch.ops.load_library(str(next(args.build.glob("lib*/libpassel_cuda.so"))))
        as_graph = os.environ["PASSEL_CUDA_GRAPHS"] == "1"
        launch = microseconds_a_launch(rounds, as_graph)
        print(json.dumps({"launch": launch, "results": measure(rounds, repeats)}))
        return
    device = Device.of(torch.cuda.get_device_properties(0))
    machine = f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    results = rows(measured_apart(args, "0"), "", rounds, device, machine)
    results += rows(measured_apart(args, "1"), "_graph", rounds, device, machine)
    write_results(results, args.json)


if __name__ == "__main__":
    main()
