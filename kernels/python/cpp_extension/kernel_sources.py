"""What torch.utils.cpp_extension needs to build Passel's operators."""

from pathlib import Path

KERNELS = Path(__file__).resolve().parents[2]

# Modules for C++ programs are no operators.
SOURCES = sorted(
    str(path)
    for path in [*KERNELS.glob("*.cc"), *KERNELS.glob("torch/*.cc"), *KERNELS.glob("python/*.cc")]
    if not path.name.endswith("_module.cc")
)
INCLUDE_DIRS = [str(KERNELS / folder) for folder in (".", "include", "torch/include")]
# The same bits on every machine depend on it that nothing else is fused.
CFLAGS = ["-std=c++20", "-O3", "-ffp-contract=off"]
LIBRARIES = ["hwy"]
