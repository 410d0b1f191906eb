#include "passel/train/export_pt.h"

#include <ATen/core/Dict.h>
#include <ATen/core/ivalue.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <span>
#include <string>

#include "passel/train/atomic_file.h"

namespace passel::train {
namespace {

using Bytes = std::vector<char>;

void append(Bytes& bytes, const void* data, std::size_t size) {
  const auto* first = static_cast<const char*>(data);
  bytes.insert(bytes.end(), first, first + size);
}

}  // namespace

// torch::save and torch::pickle_save tag their containers with a global that
// weights_only=True refuses. A Pickler without tags writes a plain dict.
void export_pt(const std::filesystem::path& path, const std::vector<shm::NamedTensor>& tensors) {
  c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
  for (const auto& [name, tensor] : tensors) dict.insert(name, tensor.detach().contiguous());

  Bytes pickle;
  std::vector<at::Tensor> stored;
  torch::jit::Pickler pickler(
      [&](const char* data, std::size_t size) { append(pickle, data, size); }, nullptr, nullptr,
      nullptr,
      [&](const at::Tensor& tensor) {
        stored.push_back(tensor);
        return std::to_string(stored.size() - 1);
      },
      /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(dict);
  pickler.stop();

  Bytes archive;
  caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, std::size_t size) {
    append(archive, data, size);
    return size;
  });
  for (std::size_t i = 0; i < stored.size(); ++i) {
    writer.writeRecord("data/" + std::to_string(i), stored[i].const_data_ptr(), stored[i].nbytes());
  }
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  writer.writeEndOfFile();
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(archive))};
  write_atomically(path, parts);
}

}  // namespace passel::train
