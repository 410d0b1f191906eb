"""Just in time: builds the operators on the first call, then takes them from torch's cache.

    sys.path += ["kernels/python", "kernels/python/cpp_extension"]
    import jit

    jit.load()
    import passel

Those for CUDA tensors are built, too, where torch has CUDA and its toolkit is found;
PASSEL_CUDA=ON or OFF in the environment says so.
"""

from torch.utils import cpp_extension

import kernel_sources as kernels


LIBRARIES = [f"-l{library}" for library in kernels.LIBRARIES]


def load(**options) -> None:
    """Puts the operators into torch.ops.passel; options go to torch.utils.cpp_extension.load."""
    cpp_extension.load(
        name="passel_ops",
        sources=kernels.SOURCES,
        extra_include_paths=kernels.INCLUDE_DIRS,
        extra_cflags=kernels.CFLAGS,
        extra_ldflags=LIBRARIES,
        is_python_module=False,
        **options,
    )
    if kernels.prepares_cuda():
        cpp_extension.load(
            name="passel_cuda",
            sources=kernels.CUDA_SOURCES,
            extra_include_paths=kernels.CUDA_INCLUDE_DIRS,
            extra_cflags=kernels.CUDA_CFLAGS,
            extra_cuda_cflags=kernels.NVCC_FLAGS,
            extra_ldflags=LIBRARIES + kernels.CUDA_LDFLAGS,
            is_python_module=False,
            **options,
        )
