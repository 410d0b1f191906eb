#!/usr/bin/env python3
"""The LLTM's kernels as fractions of the FMA peak, beside what libtorch offers.

One process a run measures Passel and its peers in turn on one thread; a second run
has Passel on AVX2. Prints a table and writes it to build/bench/bench-kernels.json.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from measure import machine, write_results

ROOT = Path(__file__).resolve().parents[2]
OURS = "passel"
PEERS = {
    "composed": "ATen operators and autograd",
    "tutorial": "ATen operators, backward by hand",
    "lstm": "torch::nn::LSTM, as many FLOPs",
    "at::mm": "at::mm",
}
FIRST_PEERS = ("composed", "at::mm")  # whose rows have the plain names


def run(program: Path, isa: str, options: list[str]) -> dict:
    environment = {**os.environ, "PASSEL_ISA": isa, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [program, *options], stdout=subprocess.PIPE, text=True, check=False, env=environment
    )
    if done.returncode != 0:
        sys.exit(f"bench-kernels: {program.name} ended with {done.returncode}")
    return json.loads(done.stdout)


def row_name(result: dict, part: str, peer: str, suffix: str) -> str:
    """lltm_t28_..., lltm_forward_t28_..., lltm_t28_..._vs_lstm, mm_f1_t28_..."""
    kind = result["kind"]
    if part in ("forward", "backward"):
        kind += f"_{part}"
    vs = "" if peer in FIRST_PEERS else f"_vs_{peer}"
    return f"{kind}_{result['shape']}{vs}{suffix}"


def rows(measured: dict, suffix: str = "") -> list[dict]:
    """A row for each part of what Passel computes and each peer that computes the same."""
    here, made = machine(), []
    for ours in (one for one in measured["results"] if one["side"] == OURS):
        for theirs in measured["results"]:
            same = all(ours[key] == theirs[key] for key in ("shape", "kind"))
            if not same or theirs["side"] == OURS:
                continue
            for part, peer_part in zip(ours["parts"], theirs["parts"]):
                # Forward is the same whichever gradients are asked for afterwards.
                if ours["kind"] == "lltm_nodx" and part["part"] == "forward":
                    continue
                row = {
                    "name": row_name(ours, part["part"], theirs["side"], suffix),
                    "value": part["fraction"],
                    "unit": "of FMA peak",
                    "peer": PEERS[theirs["side"]],
                    "peer_value": peer_part["fraction"],
                    "ratio": part["fraction"] / peer_part["fraction"],
                    "samples": measured["rounds"],
                    "machine": here,
                    "isa": measured["isa"],
                    "peak_gflops": ours["peak_flops_per_second"] / 1e9,
                    "memory_gb_per_s": measured["memory_bytes_per_second"] / 1e9,
                    "l2_gb_per_s": measured["l2_bytes_per_second"] / 1e9,
                    "microseconds": part["seconds"] * 1e6,
                    "peer_microseconds": peer_part["seconds"] * 1e6,
                    "flops_per_byte": part["flops"] / part["bytes"],
                }
                if "cycles" in ours and part["part"] in ("training", "product"):
                    row |= {key: ours[key] for key in ("cycles", "instructions")}
                made.append(row)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--program", type=Path, default=ROOT / "build/release/tests/bench/kernels_bench"
    )
    parser.add_argument("--quick", action="store_true", help="seconds, to see that all runs")
    parser.add_argument(
        "--json", type=Path, default=ROOT / "build/bench/bench-kernels.json", help="file to write"
    )
    args = parser.parse_args()
    if not args.program.exists():
        sys.exit(f"bench-kernels: expected {args.program}. Run 'make bench-kernels'.")
    quick = ["--quick"] if args.quick else []
    widest = run(args.program, "", quick)
    results = rows(widest)
    if widest["isa"] == "avx512":
        results += rows(run(args.program, "avx2", [*quick, "--brief"]), "_avx2")
    write_results(results, args.json)
    print(
        f"FMA peak {results[0]['peak_gflops']:.1f} GFLOP/s, reads from memory "
        f"{results[0]['memory_gb_per_s']:.1f} GB/s, from L2 {results[0]['l2_gb_per_s']:.1f} GB/s"
    )
    if widest["counters_missing"]:
        print(f"cycles and instructions are missing ({widest['counters_missing']})")


if __name__ == "__main__":
    main()
