#!/usr/bin/env python3
"""Checks the rules between layers that the compiler cannot check.

usage: layering.py ROOT

Prints FILE:LINE: RULE, one a line, and exits with 1 if there is any.
"""

import re
import sys
from pathlib import Path

FOLDERS = ("shm", "kernels", "src", "examples", "tests")
TORCH_FREE = ("shm", "kernels", "tests/shm", "tests/shm_cuda", "tests/kernels")
CODE = (".h", ".cc", ".cu")
LINE_LIMIT = 400
SLEEP_LIMIT_MS = 10

TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/|^passel/(shm_torch|kernels_torch|train)/")
CUDA = re.compile(r"^(cuda_runtime|driver_types|c10/cuda/|ATen/cuda/|passel/(shm_cuda|kernels_cuda)/)")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
RELAXED = re.compile(r"\bmemory_order(_|::)relaxed\b")
SLEEP = re.compile(r"\b(sleep_for|sleep_until|nanosleep|usleep|sleep)\s*\((.*)")
DURATION = re.compile(r"\b(seconds|milliseconds|microseconds|nanoseconds)\b|(?<=\d)(s|ms|us|ns)\b")
IN_MS = {
    "s": 1e3, "ms": 1, "us": 1e-3, "ns": 1e-6,
    "seconds": 1e3, "milliseconds": 1, "microseconds": 1e-3, "nanoseconds": 1e-6,
}  # fmt: skip


def within(path: str, *folders: str) -> bool:
    return any(path.startswith(folder + "/") for folder in folders)


def is_torch_free(path: str) -> bool:
    return within(path, *TORCH_FREE) and not within(
        path, "shm/torch", "kernels/torch", "kernels/python"
    )


def may_be_relaxed(path: str) -> bool:
    """shm/ has the algorithms, kernels/update.cc all the intended races."""
    return within(path, "shm") or path == "kernels/update.cc"


def sleep_ms(name: str, arguments: str) -> float:
    """The longest that the call can sleep; infinite where the line does not tell."""
    numbers = [float(n) for n in re.findall(r"\d+(?:\.\d+)?", arguments.replace("'", ""))]
    unit = DURATION.search(arguments)
    if name == "usleep" and numbers:
        return max(numbers) * 1e-3
    if name == "sleep" and numbers:  # seconds, in C and in Python's time.sleep
        return max(numbers) * 1e3
    if not numbers or not unit or name in ("nanosleep", "sleep_until"):
        return float("inf")
    return max(numbers) * IN_MS[unit[0]]


def check_include(path: str, target: str):
    if target.startswith("../"):
        yield "include by the layer's include path, not through ../"
    if target == "torch/torch.h" and path.endswith(".h"):
        yield "no torch/torch.h in headers: it costs every includer 16 s"
    if is_torch_free(path) and TORCH.search(target):
        yield f"this layer is free of torch, but includes {target}"
    if within(path, "shm") and target.startswith(("passel/kernels", "passel/train")):
        yield f"shm stands below {target}"
    if within(path, "src") and not within(path, "src/device/cuda") and CUDA.search(target):
        yield f"of the trainer only src/device/cuda knows CUDA, but this includes {target}"
    if within(path, "src/device") and target.startswith("passel/train"):
        yield f"src/device stands below {target}"
    if within(path, "kernels") and target.startswith(("passel/shm", "passel/train")):
        yield f"kernels stand beside or below {target}"


def check_line(path: str, line: str):
    if path.endswith(CODE):
        if include := INCLUDE.match(line):
            yield from check_include(path, include[1])
        line = line.split("//")[0]
        if RELAXED.search(line) and not may_be_relaxed(path):
            yield "relaxed atomics belong in shm/ and kernels/update.cc"
    if within(path, "tests") and (sleep := SLEEP.search(line)):
        if sleep_ms(sleep[1], sleep[2]) > SLEEP_LIMIT_MS:
            yield f"wait for an event with a deadline, not by a sleep over {SLEEP_LIMIT_MS} ms"


def check_file(root: Path, file: Path):
    path = file.relative_to(root).as_posix()
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        for rule in check_line(path, line):
            yield f"{path}:{number}: {rule}"
    if path.endswith(CODE) and len(lines) > LINE_LIMIT:
        yield f"{path}:{len(lines)}: a file has at most {LINE_LIMIT} lines"


def check_tree(root: Path) -> list[str]:
    files = [
        file
        for folder in FOLDERS
        for file in sorted((root / folder).rglob("*"))
        if file.suffix in (*CODE, ".py") and file.parent.name != "layering"
    ]
    if not files:
        return [f"{root}: expected a source tree with {', '.join(FOLDERS)}, found no source file"]
    return [violation for file in files for violation in check_file(root, file)]


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    violations = check_tree(Path(sys.argv[1]).resolve())
    print("\n".join(violations) if violations else "layering: no violation")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
