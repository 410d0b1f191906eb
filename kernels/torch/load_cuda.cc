#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "lltm_ops.h"
#include "passel/kernels_torch/cuda.h"

namespace passel {
namespace {

constexpr const char* kLibrary = "libpassel_cuda.so";

std::vector<std::string> places() {
  if (const char* named = std::getenv("PASSEL_CUDA_LIBRARY")) return {named};
  std::error_code unknown;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
  std::vector<std::string> found;
  for (const auto& place : {folder / kLibrary, folder / ".." / "lib" / kLibrary}) {
    if (std::filesystem::exists(place, unknown)) found.push_back(place.string());
  }
  found.emplace_back(kLibrary);
  return found;
}

}  // namespace

bool cuda_kernels_loaded() {
  return detail::has_cuda_kernels();
}

void load_cuda_kernels(const std::string& path) {
  if (cuda_kernels_loaded()) return;
  std::string reasons;
  for (const std::string& place : path.empty() ? places() : std::vector{path}) {
    // Global, as torch's libraries are when a program is linked to them.
    if (dlopen(place.c_str(), RTLD_NOW | RTLD_GLOBAL) != nullptr) return;
    reasons += std::string("\n  ") + dlerror();
  }
  throw std::runtime_error(
      "The CUDA kernels could not be loaded. Expected libpassel_cuda.so, built where a CUDA "
      "toolkit "
      "is found, and the CUDA libraries of torch that it was built with (all packages of "
      "requirements/full.txt). The loader says:" +
      reasons);
}

}  // namespace passel
