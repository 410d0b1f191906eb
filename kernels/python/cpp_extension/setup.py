"""Ahead of time, the classic way: python setup.py build_ext --inplace, or install.

Builds the library of operators with torch.utils.cpp_extension, as PyTorch's C++
extension tutorial does. `pip install ./kernels/python` does the same with CMake.
"""

import os
from pathlib import Path

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

from kernel_sources import CFLAGS, INCLUDE_DIRS, LIBRARIES, SOURCES

PACKAGE = os.path.relpath(Path(__file__).resolve().parents[1] / "passel")

setup(
    name="passel",
    version="0.1.0",
    packages=["passel"],
    package_dir={"passel": PACKAGE},
    ext_modules=[
        CppExtension(
            "passel._ops",
            SOURCES,
            include_dirs=INCLUDE_DIRS,
            libraries=LIBRARIES,
            extra_compile_args={"cxx": CFLAGS},
        )
    ],
    cmdclass={"build_ext": BuildExtension.with_options(no_python_abi_suffix=True)},
)
