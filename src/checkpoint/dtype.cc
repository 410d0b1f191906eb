#include <array>
#include <utility>

#include "passel/train/safetensors.h"

namespace passel::train {
namespace {

// In the order of DType.
constexpr std::array<std::pair<std::string_view, std::size_t>, 13> kTypes{{
    {"BOOL", 1},
    {"U8", 1},
    {"I8", 1},
    {"U16", 2},
    {"I16", 2},
    {"F16", 2},
    {"BF16", 2},
    {"U32", 4},
    {"I32", 4},
    {"F32", 4},
    {"U64", 8},
    {"I64", 8},
    {"F64", 8},
}};
static_assert(kTypes.size() == static_cast<std::size_t>(DType::kF64) + 1);

}  // namespace

std::size_t dtype_size(DType dtype) noexcept {
  return kTypes[static_cast<std::size_t>(dtype)].second;
}

std::string_view dtype_name(DType dtype) noexcept {
  return kTypes[static_cast<std::size_t>(dtype)].first;
}

std::optional<DType> dtype_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].first == name) {
      return static_cast<DType>(i);
    }
  }
  return std::nullopt;
}

}  // namespace passel::train
