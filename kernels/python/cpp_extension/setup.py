"""Ahead of time, the classic way: python setup.py build_ext --inplace, or install.

Builds the library of operators with torch.utils.cpp_extension, as PyTorch's C++
extension tutorial does, and that of CUDA kernels where torch has CUDA and its toolkit
is found; PASSEL_CUDA=ON or OFF in the environment says so. `pip install
./kernels/python` does the same with CMake.
"""

import os
from pathlib import Path

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension, CUDAExtension

import kernel_sources as kernels

PACKAGE = os.path.relpath(Path(__file__).resolve().parents[1] / "passel")

extensions = [
    CppExtension(
        "passel._ops",
        kernels.SOURCES,
        include_dirs=kernels.INCLUDE_DIRS,
        libraries=kernels.LIBRARIES,
        extra_compile_args={"cxx": kernels.CFLAGS},
    )
]
if kernels.prepares_cuda():
    extensions.append(
        CUDAExtension(
            "passel._cuda",
            kernels.CUDA_SOURCES,
            include_dirs=kernels.CUDA_INCLUDE_DIRS,
            libraries=kernels.LIBRARIES,
            extra_compile_args={"cxx": kernels.CUDA_CFLAGS, "nvcc": kernels.NVCC_FLAGS},
            extra_link_args=kernels.CUDA_LDFLAGS,
        )
    )

setup(
    name="passel",
    version="0.1.0",
    packages=["passel"],
    package_dir={"passel": PACKAGE},
    ext_modules=extensions,
    cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True)},
)
