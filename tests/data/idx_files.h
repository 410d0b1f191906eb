#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

// Writes IDX files, sound ones and others. Needs nothing but zlib.
namespace passel::testing {

using Bytes = std::vector<std::uint8_t>;

inline void write_file(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  if (!file.flush()) {
    throw std::runtime_error("cannot write " + path.string());
  }
}

inline Bytes read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::runtime_error("cannot read " + path.string());
  }
  return {std::istreambuf_iterator<char>(file), {}};
}

/// {0, 0, type, rank} and the big-endian sizes.
inline Bytes idx_header(const std::vector<std::uint32_t>& sizes, std::uint8_t type = 0x08) {
  Bytes header{0, 0, type, static_cast<std::uint8_t>(sizes.size())};
  for (const std::uint32_t size : sizes) {
    for (const int shift : {24, 16, 8, 0}) {
      header.push_back(static_cast<std::uint8_t>(size >> shift));
    }
  }
  return header;
}

inline Bytes idx_file(const std::vector<std::uint32_t>& sizes, const Bytes& elements) {
  Bytes file = idx_header(sizes);
  file.insert(file.end(), elements.begin(), elements.end());
  return file;
}

/// One gzip member.
inline Bytes gzip(const Bytes& content) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2 failed");
  }
  Bytes out(deflateBound(&stream, content.size()));
  stream.next_in = const_cast<Bytef*>(content.data());
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) {
    throw std::runtime_error("deflate failed");
  }
  return out;
}

/// A small set of images [n, rows, columns] whose ten classes differ in the place of a bright
/// patch, so that a model can learn them.
struct ImageSet {
  std::uint32_t rows = 8;
  std::uint32_t columns = 8;
  std::uint32_t train = 200;
  std::uint32_t test = 50;
  bool compressed = true;
  std::uint8_t bright = 200;

  std::uint8_t label(std::uint32_t sample) const {
    return static_cast<std::uint8_t>((sample * 7 + sample / 10) % 10);
  }

  std::uint8_t pixel(std::uint32_t sample, std::uint32_t row, std::uint32_t column) const {
    const std::uint32_t place = row * columns + column;
    const bool patch = place * 10 / (rows * columns) == label(sample);
    const std::uint32_t noise = ((sample + 1) * 2654435761U ^ place * 40503U) >> 7 & 31U;
    return static_cast<std::uint8_t>((patch ? bright : 0) + noise);
  }

  Bytes images(std::uint32_t count) const {
    Bytes pixels;
    for (std::uint32_t sample = 0; sample < count; ++sample) {
      for (std::uint32_t place = 0; place < rows * columns; ++place) {
        pixels.push_back(pixel(sample, place / columns, place % columns));
      }
    }
    return idx_file({count, rows, columns}, pixels);
  }

  Bytes labels(std::uint32_t count) const {
    Bytes classes;
    for (std::uint32_t sample = 0; sample < count; ++sample) {
      classes.push_back(label(sample));
    }
    return idx_file({count}, classes);
  }

  /// Writes the four files under the names of the MNIST family.
  void write(const std::filesystem::path& folder) const {
    const auto put = [&](const std::string& name, const Bytes& bytes) {
      write_file(folder / (compressed ? name + ".gz" : name), compressed ? gzip(bytes) : bytes);
    };
    put("train-images-idx3-ubyte", images(train));
    put("train-labels-idx1-ubyte", labels(train));
    put("t10k-images-idx3-ubyte", images(test));
    put("t10k-labels-idx1-ubyte", labels(test));
  }
};

}  // namespace passel::testing
