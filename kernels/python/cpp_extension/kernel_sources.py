"""What torch.utils.cpp_extension needs to build Passel's operators."""

import os
import re
import subprocess
from pathlib import Path
from typing import Optional

import torch
from torch.utils.cpp_extension import CUDA_HOME

KERNELS = Path(__file__).resolve().parents[2]


def sources(*patterns: str) -> list[str]:
    return sorted(str(path) for pattern in patterns for path in KERNELS.glob(pattern))


def folders(*names: str) -> list[str]:
    return [str(KERNELS / name) for name in names]


# Modules for C++ programs are no operators.
SOURCES = [path for path in sources("*.cc", "torch/*.cc", "python/*.cc") if not path.endswith("_module.cc")]
INCLUDE_DIRS = folders(".", "include", "torch/include")
# The same bits on every machine depend on it that nothing else is fused.
CFLAGS = ["-std=c++20", "-O3", "-ffp-contract=off"]
LIBRARIES = ["hwy"]

# A library of its own. What it shares with the one above is in torch: its copies of
# Passel's functions stay hidden.
CUDA_SOURCES = sources("isa.cc", "lltm_pack.cc", "torch/lltm_checks.cc", "torch/cuda/*.cc", "cuda/lltm_*.cu")
CUDA_INCLUDE_DIRS = INCLUDE_DIRS + folders("torch", "cuda", "cuda/include")
CUDA_CFLAGS = [*CFLAGS, "-fvisibility=hidden", "-fvisibility-inlines-hidden"]
NVCC_FLAGS = ["-std=c++20", "-O3", "-Xcompiler=-fvisibility=hidden"]
CUDA_LDFLAGS = ["-Wl,-z,defs"]
CUDA_ARCHITECTURES = "7.5;8.0;8.6;8.9;9.0+PTX"


def toolkit_version(cuda_home: Optional[str] = CUDA_HOME) -> Optional[str]:
    """Of the CUDA toolkit in this folder, as in "13.0"; None where there is none."""
    try:
        said = subprocess.check_output([Path(cuda_home or "none", "bin", "nvcc"), "--version"], text=True)
    except OSError:
        return None
    found = re.search(r"release (\d+\.\d+)", said)
    return found and found[1]


def why_no_cuda(torch_cuda: Optional[str], toolkit: Optional[str]) -> Optional[str]:
    """Why kernels for CUDA tensors cannot be built, or None. torch_cuda is torch.version.cuda."""
    if torch_cuda is None:
        return "this torch has no CUDA"
    if toolkit is None:
        return "no CUDA toolkit was found: set CUDA_HOME, or put nvcc on PATH"
    if toolkit.split(".")[0] != torch_cuda.split(".")[0]:
        return f"the CUDA toolkit is {toolkit}, that of this torch {torch_cuda}"
    return None


def builds_cuda(setting: Optional[str], why_not: Optional[str]) -> bool:
    """Whether kernels for CUDA tensors are built, by the environment's PASSEL_CUDA:
    ON, OFF, or AUTO for where they can be."""
    if setting not in (None, "", "AUTO", "ON", "OFF"):
        raise ValueError(f"expected PASSEL_CUDA to be AUTO, ON or OFF, got {setting!r}")
    if setting == "ON" and why_not:
        raise ValueError(f"PASSEL_CUDA is ON, but {why_not}")
    return setting != "OFF" and why_not is None


def prepares_cuda() -> bool:
    """builds_cuda() here and now. If so, TORCH_CUDA_ARCH_LIST is set, which torch can
    do without only where there is a GPU."""
    builds = builds_cuda(os.environ.get("PASSEL_CUDA"), why_no_cuda(torch.version.cuda, toolkit_version()))
    if builds and torch.cuda.device_count() == 0:
        os.environ.setdefault("TORCH_CUDA_ARCH_LIST", CUDA_ARCHITECTURES)
    return builds
