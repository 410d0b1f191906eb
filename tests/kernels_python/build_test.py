#!/usr/bin/env python3
"""Builds and installs the Python package in one of its three ways, then uses it.

usage: build_test.py pip|setup|jit [--cuda]

With --cuda the kernels for CUDA tensors are built, too, for one architecture. Runs in
an environment of its own, which sees this interpreter's packages. ccache is used where
it is installed.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "kernels" / "python"
USE_IT = """
import torch, passel
x = torch.randn(3, 2, 4)
output, (h, c) = passel.LLTM(4, 6)(x)
output.sum().backward()
loaded = [line.split()[-1] for line in open("/proc/self/maps") if "passel_ops" in line or "_ops.so" in line]
print("kernels for CUDA:", torch._C._dispatch_has_kernel_for_dispatch_key("passel::lltm_forward", "CUDA"))
print("works:", passel.__file__, sorted(set(loaded)))
"""
CUDA = "ON" if "--cuda" in sys.argv else "OFF"


def environment() -> dict[str, str]:
    variables = dict(os.environ)
    if ccache := shutil.which("ccache"):
        variables |= {
            "CXX": f"{ccache} c++",
            "CMAKE_CXX_COMPILER_LAUNCHER": ccache,
            "CCACHE_NOHASHDIR": "1",
        }
        if nvcc := shutil.which("nvcc"):
            variables["PYTORCH_NVCC"] = f"{ccache} {nvcc}"
        variables["TORCH_DONT_CHECK_COMPILER_ABI"] = "ON"  # it would look at ccache
    variables |= {"PASSEL_CUDA": CUDA, "TORCH_CUDA_ARCH_LIST": "9.0"}
    variables.setdefault("MAX_JOBS", "2")
    return variables


def run(*command, **options) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env=environment() | options.pop("variables", {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )
    print(done.stdout)
    if done.returncode:
        sys.exit(f"{command} ended with {done.returncode}")
    return done.stdout


def make_python(folder: Path) -> Path:
    """A python of its own that sees the packages of this one."""
    venv.create(folder, with_pip=False)
    site_packages = next(folder.glob("lib/python3*/site-packages"))
    outer = [path for path in sys.path if path.endswith("site-packages")]
    (site_packages / "outer.pth").write_text("\n".join(outer) + "\n")
    return folder / "bin" / "python"


def build_with_pip(folder: Path) -> str:
    python = make_python(folder / "env")
    run(
        python, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index",
        "--disable-pip-version-check", "--verbose",
        "--config-settings", f"build-dir={folder / 'build'}",
        "--config-settings", "cmake.define.PASSEL_CUDA_ARCHITECTURES=90-real", PACKAGE,
        variables={"CXX": "c++"},
    )  # fmt: skip
    return run(python, "-c", USE_IT, cwd=folder)


def build_with_setup(folder: Path) -> str:
    run(
        sys.executable, "setup.py", "-q",
        "egg_info", "--egg-base", folder,
        "build", "--build-base", folder / "build", "--build-lib", folder / "out",
        cwd=PACKAGE / "cpp_extension",
    )  # fmt: skip
    return run(sys.executable, "-c", USE_IT, cwd=folder / "out")


def build_just_in_time(folder: Path) -> str:
    paths = os.pathsep.join((str(PACKAGE), str(PACKAGE / "cpp_extension")))
    return run(
        sys.executable, "-c", "import jit\njit.load(verbose=True)\n" + USE_IT,
        cwd=folder, variables={"PYTHONPATH": paths, "TORCH_EXTENSIONS_DIR": str(folder / "cache")},
    )  # fmt: skip


def main() -> None:
    ways = {"pip": build_with_pip, "setup": build_with_setup, "jit": build_just_in_time}
    if len(sys.argv) < 2 or sys.argv[1] not in ways or sys.argv[2:] not in ([], ["--cuda"]):
        sys.exit(__doc__)
    if sys.argv[1] == "pip" and not importlib.util.find_spec("scikit_build_core"):
        sys.exit("expected scikit-build-core in this Python, which 'make test' installs; it is missing")
    with tempfile.TemporaryDirectory() as name:
        said = ways[sys.argv[1]](Path(name).resolve())
        used = said.rpartition("works:")[2]
        if name not in used:
            sys.exit(f"expected a library below {name} to be used, got {used}")
        if f"kernels for CUDA: {CUDA == 'ON'}" not in said:
            sys.exit(f"expected kernels for CUDA to be loaded: {CUDA}")


if __name__ == "__main__":
    main()
