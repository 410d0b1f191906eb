#!/usr/bin/env python3
"""Loads and stores in the machine code of the kernels: instructions_test.py LIBPASSEL_CUDA

Needs cuobjdump, from the toolkit or from Triton, which comes with torch.
"""

import importlib.util
import re
import shutil
import subprocess
import sys
import unittest
from collections import defaultdict
from pathlib import Path

LIBRARY = sys.argv.pop()
MOVE = re.compile(r"\b(?:LDG|STG)\.E(?:\.(?:EL|EF|CONSTANT|STRONG|GPU))*(?:\.(64|128|U16|U8))?")


def cuobjdump() -> str:
    if found := shutil.which("cuobjdump"):
        return found
    triton = Path(importlib.util.find_spec("triton").origin).parent
    return str(triton / "backends/nvidia/bin/cuobjdump")


def moves() -> dict[str, set[str]]:
    """Widths in bits of the loads and stores of each kernel, by its mangled name."""
    dump = subprocess.run(
        [cuobjdump(), "-sass", "-arch", "sm_90", LIBRARY],
        stdout=subprocess.PIPE, text=True, check=True,
    ).stdout  # fmt: skip
    widths, name = defaultdict(set), ""
    for line in dump.splitlines():
        if "Function :" in line:
            name = line.split()[-1]
        elif move := MOVE.search(line):
            widths[name].add(move[1] or "32")
    return widths


class Instructions(unittest.TestCase):
    def test_groups_are_read_and_written_sixteen_bytes_at_a_time(self):
        vectors = {name: found for name, found in moves().items() if "kernelILi1E" not in name}
        self.assertEqual(len(vectors), 8)
        for name, found in vectors.items():
            half = "float16" in name.lower()  # four of them are 8 bytes
            self.assertEqual(found, {"128", "64"} if half else {"128"}, name)


if __name__ == "__main__":
    unittest.main()
