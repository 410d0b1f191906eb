"""Loads the operators of a build folder, then the Python package beside its sources.

The last argument of each test program here is the path of libpassel_ops.so.
"""

import sys
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[2]

torch.ops.load_library(sys.argv.pop())
sys.path.insert(0, str(ROOT / "kernels" / "python"))
