"""Finds the operators and loads them into torch.ops.passel, once."""

import warnings
from pathlib import Path
from typing import Callable, Optional

import torch

PACKAGE = Path(__file__).parent
BUILD_IT = "Build it for this torch: pip install ./kernels/python in Passel's folder."


def are_loaded() -> bool:
    return hasattr(torch.ops.passel, "lltm_forward")


def load() -> None:
    """Loads the libraries that lie in this package, unless the operators are there
    already, by torch.ops.load_library() or torch.utils.cpp_extension.load()."""
    if not are_loaded():
        libraries = [*PACKAGE.glob("libpassel_ops.so"), *PACKAGE.glob("_ops*.so")]
        if not libraries:
            raise ImportError(f"expected passel's library of operators in {PACKAGE}, found none. {BUILD_IT}")
        try:
            torch.ops.load_library(libraries[0])
        except OSError as error:
            raise ImportError(
                f"torch {torch.__version__} cannot load {libraries[0]}: {error}. {BUILD_IT}"
            ) from error
    check_version(torch.ops.passel.built_for_torch(), torch.__version__)
    if not has_cuda_kernels():
        load_cuda_kernels(cuda_library(PACKAGE, torch.version.cuda))


def check_version(built_for: str, running: str) -> None:
    """A library fits the torch releases that share major and minor number with its own."""
    if built_for.split(".")[:2] != running.split(".")[:2]:
        raise ImportError(f"passel was built for torch {built_for}, but this is torch {running}. {BUILD_IT}")


def has_cuda_kernels() -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key("passel::lltm_forward", "CUDA")


def cuda_library(folder: Path, torch_cuda: Optional[str]) -> Optional[Path]:
    """The kernels for CUDA tensors, if there are any and this torch has CUDA.

    torch_cuda is torch.version.cuda. Whether there is a GPU is not asked: the answer
    would start the driver in every process that imports this package.
    """
    if torch_cuda is None:
        return None
    return next(iter([*folder.glob("libpassel_cuda.so"), *folder.glob("_cuda*.so")]), None)


def load_cuda_kernels(
    library: Optional[Path], load_library: Callable[[Path], None] = torch.ops.load_library
) -> None:
    """Without them CUDA tensors get the same cell in torch's operators, so a library
    that cannot be loaded is a warning."""
    if library is None:
        return
    try:
        load_library(library)
    except OSError as error:
        warnings.warn(
            f"passel's CUDA kernels were not loaded, so CUDA tensors get the slower form in torch's "
            f"operators: torch {torch.__version__} with CUDA {torch.version.cuda} cannot load {library}: "
            f"{error}. {BUILD_IT}",
            RuntimeWarning,
            stacklevel=2,
        )
