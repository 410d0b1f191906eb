// The JSON part of a safetensors file: refused with a DataError, or tensors that cover the data.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>

#include "checkpoint/safetensors_header.h"
#include "passel/train/errors.h"

namespace {

using namespace passel::train;

void check(bool right) {
  if (!right) std::abort();
}

bool same(const SafetensorsHeader& a, const SafetensorsHeader& b) {
  if (a.metadata != b.metadata || a.entries.size() != b.entries.size()) return false;
  for (std::size_t i = 0; i < a.entries.size(); ++i) {
    const auto& x = a.entries[i];
    const auto& y = b.entries[i];
    if (x.name != y.name || x.dtype != y.dtype || x.shape != y.shape || x.begin != y.begin ||
        x.end != y.end) {
      return false;
    }
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  const std::uint64_t data_bytes = input.ConsumeBool() ? input.ConsumeIntegral<std::uint64_t>()
                                                       : input.ConsumeIntegral<std::uint8_t>();
  const std::string json = input.ConsumeRemainingBytesAsString();
  try {
    const SafetensorsHeader header = parse_header(json, data_bytes);
    std::uint64_t covered = 0;
    for (const auto& entry : header.entries) {
      check(entry.begin == covered && entry.end >= entry.begin);
      check(tensor_bytes(entry.dtype, entry.shape) == entry.end - entry.begin);
      covered = entry.end;
    }
    check(covered == data_bytes);
    check(same(header, parse_header(encode_header(header), data_bytes)));
  } catch (const DataError&) {
    // What is refused may be anything.
  }
  return 0;
}
