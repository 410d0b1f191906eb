// The whole reader of safetensors and of checkpoints, on files that are made up and on a sound one
// that is damaged: what is accepted is whole and says what its bytes say.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "checkpoint/safetensors_checksum.h"
#include "checkpoint/safetensors_header.h"
#include "fuzz_folder.h"
#include "passel/train/checkpoint_store.h"
#include "passel/train/errors.h"

namespace {

using namespace passel::train;
using passel::testing::check;

const passel::testing::FuzzFolder folder;
const std::filesystem::path path = folder / "file.safetensors";

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string content_of(const SafetensorsFile& file) {
  std::string content;
  for (const auto& [key, value] : file.metadata()) content += key + '=' + value + '\n';
  for (const TensorView& tensor : file.tensors()) {
    content += tensor.name + ' ' + std::string(dtype_name(tensor.dtype));
    for (const std::int64_t size : tensor.shape) content += ' ' + std::to_string(size);
    content += text_of(tensor.bytes);
  }
  return content;
}

struct Sound {
  std::string bytes;
  std::string content;
};

const Sound& sound() {
  static const Sound made = [] {
    std::vector<float> values(12);
    std::iota(values.begin(), values.end(), 1.0F);
    CheckpointStore store(folder / "checkpoints");
    const auto saved =
        store.save({.ticket = 7, .epoch = 1, .score = 0.5, .path = {}},
                   std::vector<TensorView>{
                       {"w", DType::kF32, {3, 4}, std::as_bytes(std::span(values))},
                       {"u", DType::kU8, {5}, std::as_bytes(std::span(values)).subspan(1, 5)}},
                   {{"config", "{}"}});
    return Sound{passel::testing::read_file(saved), content_of(open_checkpoint(saved))};
  }();
  return made;
}

/// Header and data of the fuzzer, the length before them right or not, and checksums made right
/// where the header has room for them.
std::string made_up(FuzzedDataProvider& input) {
  const std::size_t header_size = input.ConsumeIntegralInRange<std::size_t>(0, 2000);
  const bool right_length = input.ConsumeBool();
  const auto wrong_length = input.ConsumeIntegral<std::uint64_t>();
  std::string header = input.ConsumeBytesAsString(header_size);
  if (!header_checksum(header).empty() && input.ConsumeBool()) seal_header(header);
  const auto length = encode_length(right_length ? header.size() : wrong_length);
  return text_of(length) + header + input.ConsumeRemainingBytesAsString();
}

std::string damaged(FuzzedDataProvider& input) {
  std::string bytes = sound().bytes;
  while (input.remaining_bytes() > 0 && !bytes.empty()) {
    const auto at = input.ConsumeIntegralInRange<std::size_t>(0, bytes.size() - 1);
    switch (input.ConsumeIntegralInRange(0, 3)) {
      case 0:
        bytes[at] = input.ConsumeIntegral<char>();
        break;
      case 1:
        bytes.erase(at, input.ConsumeIntegralInRange<std::size_t>(1, 80));
        break;
      case 2:
        bytes.insert(at, input.ConsumeRandomLengthString(40));
        break;
      default:
        bytes.resize(at);
    }
  }
  return bytes;
}

void check_covers(const SafetensorsFile& file, const std::string& bytes) {
  std::string data;
  for (const TensorView& tensor : file.tensors()) {
    check(tensor_bytes(tensor.dtype, tensor.shape) == tensor.bytes.size());
    data += text_of(tensor.bytes);
    check(file.find(tensor.name) == &tensor);
  }
  check(bytes.ends_with(data));
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  check(kLengthBytes + length + data.size() == bytes.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  const bool is_damaged = input.ConsumeBool();
  const std::string bytes = is_damaged ? damaged(input) : made_up(input);
  passel::testing::write_file(path, bytes);
  try {
    const SafetensorsFile file = SafetensorsFile::open(path);
    check_covers(file, bytes);
    if (is_damaged) check(content_of(file) == sound().content && bytes == sound().bytes);
    check(checkpoint_info(open_checkpoint(path)).ticket >= 0);
  } catch (const DataError& error) {
    check(std::string_view(error.what()).starts_with(path.c_str()));
    check(!is_damaged || bytes != sound().bytes);
  }
  return 0;
}
