#include <algorithm>
#include <array>
#include <new>

#include "passel/train/errors.h"
#include "passel/train/input_file.h"
#include "passel/train/safetensors.h"
#include "safetensors_checksum.h"
#include "safetensors_header.h"

namespace passel::train {
namespace {

constexpr std::align_val_t kAlignment{64};

std::string read_header(InputFile& file) {
  std::array<std::byte, kLengthBytes> length_bytes{};
  if (file.read(length_bytes) < kLengthBytes) {
    throw DataError("expected a safetensors file, but it has only " + std::to_string(file.size()) +
                    " bytes");
  }
  const std::uint64_t length = decode_length(length_bytes);
  const std::uint64_t most = std::min(kMaxHeaderBytes, file.size() - kLengthBytes);
  if (length < 2 || length > most) {
    throw DataError("the header claims " + std::to_string(length) + " bytes, expected 2 to " +
                    std::to_string(most) + "; not a safetensors file, or truncated");
  }
  std::string header(length, '\0');
  if (file.read(std::as_writable_bytes(std::span(header))) < length) {
    throw DataError("the file shrank while it was read");
  }
  return header;
}

bool says_there_are_none(const Metadata& metadata) {
  const auto kind = metadata.find(std::string(kChecksumPrefix));
  return kind != metadata.end() && kind->second == kNoChecksums;
}

/// Throws unless all checksums are there and right. False: the writer left none.
bool verify(const Metadata& metadata, const std::string& header,
            const std::vector<TensorView>& tensors) {
  const auto is_checksum = [](const auto& item) { return item.first.starts_with(kChecksumPrefix); };
  const auto stated = std::count_if(metadata.begin(), metadata.end(), is_checksum);
  if (stated == 0 || (stated == 1 && says_there_are_none(metadata))) {
    return false;
  }
  const auto expect = [&metadata](const std::string& key, std::string_view actual) {
    const auto found = metadata.find(key);
    if (found == metadata.end() || found->second != actual) {
      throw DataError(
          (found == metadata.end()
               ? key + " is missing"
               : key + " is \"" + found->second + "\", expected \"" + std::string(actual) + "\"") +
          "; the file is damaged, or was changed by another program");
    }
  };
  expect(std::string(kChecksumPrefix), kChecksumKind);
  expect(std::string(kHeaderChecksum), header_checksum(header));
  for (const TensorView& tensor : tensors) {
    expect(std::string(kTensorChecksum) + tensor.name, checksum(tensor.bytes));
  }
  if (static_cast<std::size_t>(stated) != tensors.size() + 2) {
    throw DataError("there are checksums of tensors that are not there");
  }
  return true;
}

}  // namespace

void SafetensorsFile::FreeAligned::operator()(std::byte* bytes) const noexcept {
  ::operator delete(bytes, kAlignment);
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  InputFile input(path);
  try {
    const std::string text = read_header(input);
    const std::uint64_t data_bytes = input.size() - kLengthBytes - text.size();
    SafetensorsHeader header = parse_header(text, data_bytes);

    SafetensorsFile file;
    file.path_ = path;
    file.data_.reset(static_cast<std::byte*>(::operator new(data_bytes, kAlignment)));
    const std::span<std::byte> data(file.data_.get(), data_bytes);
    if (input.read(data) < data_bytes) {
      throw DataError("the file shrank while it was read");
    }
    for (SafetensorsHeader::Entry& entry : header.entries) {
      file.tensors_.push_back({std::move(entry.name), entry.dtype, std::move(entry.shape),
                               data.subspan(entry.begin, entry.end - entry.begin)});
    }
    file.says_no_checksums_ = says_there_are_none(header.metadata);
    file.has_checksums_ = verify(header.metadata, text, file.tensors_);
    std::erase_if(header.metadata,
                  [](const auto& item) { return item.first.starts_with(kChecksumPrefix); });
    file.metadata_ = std::move(header.metadata);
    return file;
  } catch (const ReadError&) {
    throw;
  } catch (const DataError& error) {
    input.fail(error.what());
  } catch (const std::bad_alloc&) {
    input.fail_to_read("its " + std::to_string(input.size()) + " bytes do not fit into memory");
  }
}

const TensorView* SafetensorsFile::find(std::string_view name) const noexcept {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [name](const TensorView& tensor) { return tensor.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

const TensorView& SafetensorsFile::at(std::string_view name) const {
  if (const TensorView* tensor = find(name)) {
    return *tensor;
  }
  std::string names;
  for (const TensorView& tensor : tensors_) {
    names += (names.empty() ? "" : ", ") + tensor.name;
  }
  throw DataError(path_.string() + ": there is no tensor \"" + std::string(name) + "\"; it has " +
                  (names.empty() ? "none" : names));
}

}  // namespace passel::train
