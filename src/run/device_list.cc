#include "passel/train/device_list.h"

#include <algorithm>
#include <charconv>

namespace passel::train {

std::optional<std::vector<int>> device_list(std::string_view device) {
  constexpr std::string_view kNumbered = "cuda:";
  if (device == "cpu") return std::vector<int>{};
  if (device == "cuda") return std::vector<int>{0};
  if (!device.starts_with(kNumbered)) return std::nullopt;
  std::vector<int> ordinals;
  const char* at = device.data() + kNumbered.size();
  const char* const end = device.data() + device.size();
  for (bool more = true; more;) {
    int ordinal = -1;
    const auto [stop, error] = std::from_chars(at, end, ordinal);
    if (error != std::errc() || ordinal < 0 || *at == '-') return std::nullopt;
    if (std::ranges::find(ordinals, ordinal) != ordinals.end()) return std::nullopt;
    ordinals.push_back(ordinal);
    more = stop != end;
    if (more && *stop != ',') return std::nullopt;
    at = stop + 1;
  }
  return ordinals;
}

}  // namespace passel::train
