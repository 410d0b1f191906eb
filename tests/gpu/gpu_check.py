#!/usr/bin/env python3
"""Runs all that needs a GPU: the tests, compute-sanitizer and the benchmarks.

Without a GPU each test says that it was skipped, and the exit code is 0.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import torch

HERE = Path(__file__).resolve().parent
SANITIZER_TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
# The kernels on arrays of their exact sizes; torch's allocator would hide overruns.
SANITIZED = "--gtest_filter=PointwiseOnGpu*:BlockOnGpu*-*MoreRows*"
# Under these torch cannot share its memory, or not everywhere. Passel's has to be shared all the
# same, by processes that compute with torch.
ALLOCATORS = {
    "torch's segments expandable": {"PYTORCH_ALLOC_CONF": "expandable_segments:True"},
    "torch's caching off": {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
}
# Of the tests of training: those with kills, and those of every mode.
UNDER_ALLOCATORS = ["-k", "killed", "-k", "every_mode"]


def libraries(build: Path) -> tuple[Path, Path]:
    (cuda,) = build.glob("lib*/libpassel_cuda.so")
    return cuda, build / "kernels/python/libpassel_ops.so"


def steps(build: Path):
    """Name, command and environment of each step."""
    cuda, ops = libraries(build)
    program = build / "tests/gpu/gpu_test"
    python_tests = [sys.executable, HERE / "ops_on_gpu_test.py", cuda, ops]
    for graphs in ("0", "1"):
        environment = {"PASSEL_CUDA_GRAPHS": graphs}
        yield f"tests in C++, graphs {graphs}", [program, cuda], environment
        yield f"tests in Python, graphs {graphs}", python_tests, environment
    yield "tests of sharing", [build / "tests/shm_cuda/shm_cuda_real_test"], {}
    train, passel = [sys.executable, HERE / "train_on_gpu_test.py"], build / "src/passel"
    yield "tests of training", [*train, passel], {}
    for name, environment in ALLOCATORS.items():
        yield f"tests of training, {name}", [*train, *UNDER_ALLOCATORS, passel], environment
    sanitizer = shutil.which("compute-sanitizer")
    for tool in SANITIZER_TOOLS:
        name = f"compute-sanitizer {tool}"
        if sanitizer is None:
            yield f"{name}: not installed", None, {}
        else:
            options = ["--tool", tool, "--error-exitcode", "9"]
            yield name, [sanitizer, *options, program, cuda, SANITIZED], {}
    bench = HERE.parent / "bench"
    yield "benchmark", [sys.executable, bench / "bench_gpu.py", "--build", build], {}
    training = [sys.executable, bench / "bench_gpu_training.py", "--program", passel]
    yield "benchmark of training", training, {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=HERE.parents[1] / "build/release")
    parser.add_argument("--only", default="", metavar="WORDS", help="steps whose names begin so")
    args = parser.parse_args()
    build = args.build.resolve()
    chosen = [step for step in steps(build) if step[0].startswith(args.only)]
    if not chosen:
        names = "\n  ".join(name for name, _, _ in steps(build))
        parser.error(f"--only: expected how one of these begins, got {args.only!r}:\n  {names}")

    has_gpu = torch.cuda.is_available()
    print(f"gpu-check: {torch.cuda.get_device_name() if has_gpu else 'no GPU here'}", flush=True)
    failed = []
    for name, command, environment in chosen:
        print(f"\n== {name}", flush=True)
        tests = name.startswith("tests")
        if command is None or not (has_gpu or tests):
            print(f"skipped: {'no GPU' if not has_gpu else 'compute-sanitizer is not installed'}")
            continue
        if subprocess.run(command, env={**os.environ, **environment}, check=False).returncode != 0:
            failed.append(name)
    print(f"\ngpu-check: {'failed: ' + ', '.join(failed) if failed else 'no failure'}"
          f"{'' if has_gpu else ', but nothing ran: no GPU'}")  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
