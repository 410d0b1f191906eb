#pragma once

#include <string>

namespace passel {

/// Loads libpassel_cuda.so and with it torch's own CUDA libraries, which a program that
/// trains on the CPU does without. From then on CUDA tensors get the kernels of that
/// library; before, the LLTM in ATen's operators, if torch's CUDA libraries are there.
/// Needs no GPU and makes no context. Does nothing when called again.
///
/// To be called before anything asks torch whether there is CUDA (at::hasCUDA(),
/// manual_seed()): torch remembers the answer.
///
/// The library is looked for at `path`, or if that is empty at PASSEL_CUDA_LIBRARY, in
/// the folder of the program, in ../lib beside it, and where the loader looks. Throws
/// std::runtime_error that names the places and the loader's reason.
void load_cuda_kernels(const std::string& path = {});

/// Loads another library of Passel's that stands beside libpassel_cuda.so, after that. Looked for
/// in the folders where that is; throws as above.
/// @return what dlopen() gave
void* load_cuda_library(const std::string& name);

/// Whether the library is loaded, by whatever way (torch.ops.load_library() too).
bool cuda_kernels_loaded();

}  // namespace passel
