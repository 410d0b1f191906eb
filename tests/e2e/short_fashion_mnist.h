#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>

#include "data/idx_files.h"
#include "passel/train/config.h"
#include "passel/train/idx.h"

namespace passel::testing {

/// Writes the first images of Fashion-MNIST as a data set of their own, in the same files. The
/// whole one comes with the package dataset-fashion-mnist; throws where it is not installed.
inline void write_short_fashion_mnist(const std::filesystem::path& folder, std::uint32_t train,
                                      std::uint32_t test) {
  const std::filesystem::path whole = train::Config{}.data;
  const auto shorten = [&](const std::string& name, int rank, std::uint32_t count) {
    const auto file = train::IdxFile::open(train::find_idx_file(whole, name), rank);
    std::vector<std::uint32_t> sizes(file.sizes().begin(), file.sizes().end());
    if (sizes[0] < count) throw std::runtime_error("too few images in " + file.path().string());
    Bytes elements = file.read();
    elements.resize(elements.size() / sizes[0] * count);
    sizes[0] = count;
    write_file(folder / name, idx_file(sizes, elements));
  };
  shorten("train-images-idx3-ubyte", 3, train);
  shorten("train-labels-idx1-ubyte", 1, train);
  shorten("t10k-images-idx3-ubyte", 3, test);
  shorten("t10k-labels-idx1-ubyte", 1, test);
}

}  // namespace passel::testing
