"""Just in time: builds the operators on the first call, then takes them from torch's cache.
Those for CUDA tensors come with pip only.

    sys.path += ["kernels/python", "kernels/python/cpp_extension"]
    import jit

    jit.load()
    import passel
"""

from torch.utils import cpp_extension

from kernel_sources import CFLAGS, INCLUDE_DIRS, LIBRARIES, SOURCES


def load(**options) -> None:
    """Puts the operators into torch.ops.passel; options go to torch.utils.cpp_extension.load."""
    cpp_extension.load(
        name="passel_ops",
        sources=SOURCES,
        extra_include_paths=INCLUDE_DIRS,
        extra_cflags=CFLAGS,
        extra_ldflags=[f"-l{library}" for library in LIBRARIES],
        is_python_module=False,
        **options,
    )
