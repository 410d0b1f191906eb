#include "byte_source.h"

#include <algorithm>
#include <limits>

namespace passel::train {
namespace {

constexpr std::size_t kBufferBytes = 256 << 10;
constexpr std::uint64_t kBestDeflateRatio = 1032;  // zlib's technical notes
constexpr int kGzipOnly = 15 + 16;                 // window bits; +16: gzip wrapper expected

}  // namespace

ByteSource::ByteSource(const std::filesystem::path& path) : file_(path), buffer_(kBufferBytes) {
  refill();
  if (pending_.size() >= 2 && pending_[0] == 0x1f && pending_[1] == 0x8b) {
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) {
      fail("zlib could not be started (out of memory?)");
    }
    compressed_ = true;
    stream_.next_in = pending_.data();
    stream_.avail_in = static_cast<uInt>(pending_.size());
  }
}

ByteSource::~ByteSource() {
  if (compressed_) {
    inflateEnd(&stream_);
  }
}

std::uint64_t ByteSource::max_content() const noexcept {
  return compressed_ ? file_.size() * kBestDeflateRatio : file_.size();
}

bool ByteSource::refill() {
  pending_ = std::span(buffer_).first(file_.read(std::as_writable_bytes(std::span(buffer_))));
  return !pending_.empty();
}

std::size_t ByteSource::read(std::span<std::uint8_t> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    const std::span<std::uint8_t> rest = out.subspan(done);
    const std::size_t got = compressed_ ? inflate_into(rest) : read_plain(rest);
    if (got == 0) {
      break;
    }
    done += got;
  }
  return done;
}

std::size_t ByteSource::read_plain(std::span<std::uint8_t> out) {
  if (pending_.empty() && !refill()) {
    return 0;
  }
  const std::size_t count = std::min(out.size(), pending_.size());
  std::copy_n(pending_.begin(), count, out.begin());
  pending_ = pending_.subspan(count);
  return count;
}

std::size_t ByteSource::inflate_into(std::span<std::uint8_t> out) {
  const auto wanted =
      static_cast<uInt>(std::min<std::size_t>(out.size(), std::numeric_limits<uInt>::max()));
  stream_.next_out = out.data();
  stream_.avail_out = wanted;
  while (stream_.avail_out == wanted && prepare_input()) {
    const int result = inflate(&stream_, Z_NO_FLUSH);
    if (result == Z_STREAM_END) {
      member_open_ = false;
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      fail(std::string("the gzip stream is damaged (") +
           (stream_.msg != nullptr ? stream_.msg : "no reason given") + "): fetch the file again");
    }
  }
  return wanted - stream_.avail_out;
}

/// Sees to it that inflate has input, of a new member where one has ended. False: no more content.
bool ByteSource::prepare_input() {
  if (stream_.avail_in == 0) {
    if (!refill()) {
      if (member_open_) {
        fail("the gzip stream breaks off after " + std::to_string(file_.size()) +
             " bytes; the file is truncated: fetch it again");
      }
      return false;
    }
    stream_.next_in = pending_.data();
    stream_.avail_in = static_cast<uInt>(pending_.size());
  }
  if (!member_open_) {
    inflateReset(&stream_);
    member_open_ = true;
  }
  return true;
}

}  // namespace passel::train
