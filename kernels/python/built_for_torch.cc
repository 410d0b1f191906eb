#include <torch/library.h>
#include <torch/version.h>

#include <string>

// A library of operators works with the torch that it was compiled for. The
// Python package looks at this before it lets anyone call the others.
TORCH_LIBRARY_FRAGMENT(passel, library) {
  library.def("built_for_torch() -> str", [] { return std::string(TORCH_VERSION); });
}
