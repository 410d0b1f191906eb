"""Finds the operators and loads them into torch.ops.passel, once."""

from pathlib import Path

import torch

BUILD_IT = "Build it for this torch: pip install ./kernels/python in Passel's folder."


def are_loaded() -> bool:
    return hasattr(torch.ops.passel, "lltm_forward")


def load() -> None:
    """Loads the library that lies in this package, unless the operators are there
    already, by torch.ops.load_library() or torch.utils.cpp_extension.load()."""
    if not are_loaded():
        folder = Path(__file__).parent
        libraries = [*folder.glob("libpassel_ops.so"), *folder.glob("_ops*.so")]
        if not libraries:
            raise ImportError(f"expected passel's library of operators in {folder}, found none. {BUILD_IT}")
        try:
            torch.ops.load_library(libraries[0])
        except OSError as error:
            raise ImportError(
                f"torch {torch.__version__} cannot load {libraries[0]}: {error}. {BUILD_IT}"
            ) from error
    check_version(torch.ops.passel.built_for_torch(), torch.__version__)


def check_version(built_for: str, running: str) -> None:
    """A library fits the torch releases that share major and minor number with its own."""
    if built_for.split(".")[:2] != running.split(".")[:2]:
        raise ImportError(f"passel was built for torch {built_for}, but this is torch {running}. {BUILD_IT}")
