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

constexpr const char* kVariable = "PASSEL_CUDA_LIBRARY";

std::vector<std::string> places(const std::string& library) {
  std::error_code unknown;
  const auto folder = std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
  std::vector<std::string> found;
  for (const auto& place : {folder / library, folder / ".." / "lib" / library}) {
    if (std::filesystem::exists(place, unknown)) found.push_back(place.string());
  }
  found.push_back(library);
  return found;
}

void* open_one_of(const std::vector<std::string>& files, const std::string& library) {
  std::string reasons;
  for (const std::string& file : files) {
    // Global, as torch's libraries are when a program is linked to them.
    if (void* const opened = dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL)) return opened;
    reasons += std::string("\n  ") + dlerror();
  }
  const char* const named = std::getenv(kVariable);
  throw std::runtime_error(
      "The CUDA kernels could not be loaded. Expected " + library +
      ", built where a CUDA toolkit is found, and the CUDA libraries of torch that it was built "
      "with (all packages of requirements/full.txt)" +
      (named == nullptr ? "" : ", got " + std::string(kVariable) + "=" + named) +
      ". The loader says:" + reasons);
}

}  // namespace

bool cuda_kernels_loaded() {
  return detail::has_cuda_kernels();
}

void load_cuda_kernels(const std::string& path) {
  if (cuda_kernels_loaded()) return;
  const char* const named = std::getenv(kVariable);
  if (!path.empty()) {
    open_one_of({path}, kLibrary);
  } else if (named != nullptr) {
    open_one_of({named}, kLibrary);
  } else {
    open_one_of(places(kLibrary), kLibrary);
  }
}

void* load_cuda_library(const std::string& name) {
  std::vector<std::string> files = places(name);
  if (const char* const named = std::getenv(kVariable)) {
    files.insert(files.begin(), std::filesystem::path(named).replace_filename(name).string());
  }
  return open_one_of(files, name);
}

}  // namespace passel
