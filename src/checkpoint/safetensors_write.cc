#include <algorithm>
#include <set>

#include "passel/train/atomic_file.h"
#include "passel/train/errors.h"
#include "passel/train/safetensors.h"
#include "safetensors_checksum.h"
#include "safetensors_header.h"

namespace passel::train {
namespace {

void check(std::span<const TensorView> tensors, const Metadata& metadata) {
  std::set<std::string_view> names{"__metadata__"};
  for (const TensorView& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      throw UsageError("the tensor name \"" + tensor.name + "\" occurs twice or is reserved");
    }
    const auto expected = tensor_bytes(tensor.dtype, tensor.shape);
    if (!expected) {
      throw UsageError("tensor \"" + tensor.name + "\" has a shape that cannot be");
    }
    if (tensor.bytes.size() != *expected) {
      throw UsageError("tensor \"" + tensor.name + "\" needs " + std::to_string(*expected) +
                       " bytes for its shape, but has " + std::to_string(tensor.bytes.size()));
    }
  }
  for (const auto& [key, value] : metadata) {
    if (key.starts_with(kChecksumPrefix)) {
      throw UsageError("the metadata key \"" + key + "\" is reserved for checksums");
    }
  }
}

/// Larger elements first, so that each tensor is aligned to its elements without holes.
std::vector<const TensorView*> in_file_order(std::span<const TensorView> tensors) {
  std::vector<const TensorView*> order;
  for (const TensorView& tensor : tensors) {
    order.push_back(&tensor);
  }
  std::stable_sort(order.begin(), order.end(), [](const TensorView* a, const TensorView* b) {
    return dtype_size(a->dtype) > dtype_size(b->dtype);
  });
  return order;
}

SafetensorsHeader describe(const std::vector<const TensorView*>& order, const Metadata& metadata) {
  SafetensorsHeader header{{}, metadata};
  header.metadata.emplace(kChecksumPrefix, kChecksumKind);
  header.metadata.emplace(kHeaderChecksum, kNoChecksum);
  std::uint64_t at = 0;
  for (const TensorView* tensor : order) {
    header.metadata.emplace(std::string(kTensorChecksum) + tensor->name, checksum(tensor->bytes));
    header.entries.push_back(
        {tensor->name, tensor->dtype, tensor->shape, at, at + tensor->bytes.size()});
    at += tensor->bytes.size();
  }
  return header;
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const TensorView> tensors,
                       const Metadata& metadata) {
  check(tensors, metadata);
  const std::vector<const TensorView*> order = in_file_order(tensors);
  std::string header = encode_header(describe(order, metadata));
  seal_header(header);
  if (header.size() > kMaxHeaderBytes) {
    throw UsageError("names, shapes and metadata of the tensors are more than 100 MB");
  }
  const auto length = encode_length(header.size());
  std::vector<std::span<const std::byte>> parts{length, std::as_bytes(std::span(header))};
  for (const TensorView* tensor : order) {
    parts.push_back(tensor->bytes);
  }
  write_atomically(path, parts);
}

}  // namespace passel::train
