#include "passel/train/idx_images.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <future>
#include <stdexcept>
#include <string>

#include "passel/train/errors.h"

namespace passel::train {
namespace {

constexpr float kMean = 0.2860F;
constexpr float kDeviation = 0.3530F;

IdxFile open_in(const std::filesystem::path& directory, std::string_view prefix,
                std::string_view suffix, int rank) {
  return IdxFile::open(find_idx_file(directory, std::string(prefix) + std::string(suffix)), rank);
}

void normalise(const std::uint8_t* pixels, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = (static_cast<float>(pixels[i]) / 255.0F - kMean) / kDeviation;
  }
}

}  // namespace

IdxImages::Half::Half(const std::filesystem::path& directory, std::string_view prefix)
    : images(open_in(directory, prefix, "-images-idx3-ubyte", 3)),
      labels(open_in(directory, prefix, "-labels-idx1-ubyte", 1)) {
  if (images.sizes()[0] != labels.sizes()[0]) {
    throw DataError(images.path().string() + " holds " + std::to_string(images.sizes()[0]) +
                    " images, but " + labels.path().string() + " holds " +
                    std::to_string(labels.sizes()[0]) + " labels; they must be as many");
  }
}

void IdxImages::Half::load() {
  classes = labels.read();
  const auto wrong =
      std::find_if(classes.begin(), classes.end(), [](std::uint8_t c) { return c >= kClasses; });
  if (wrong != classes.end()) {
    throw DataError(labels.path().string() + ": label " + std::to_string(*wrong) + " of sample " +
                    std::to_string(wrong - classes.begin()) + " is not from 0 to " +
                    std::to_string(kClasses - 1));
  }
  pixels = images.read();
  const auto seed = XXH3_64bits(classes.data(), classes.size());
  hash = fmt::format("{:016x}", XXH3_64bits_withSeed(pixels.data(), pixels.size(), seed));
}

IdxImages::IdxImages(const std::filesystem::path& directory)
    : halves_{Half(directory, "train"), Half(directory, "t10k")} {
  const auto& train = halves_[0].images;
  const auto& test = halves_[1].images;
  if (!std::equal(train.sizes().begin() + 1, train.sizes().end(), test.sizes().begin() + 1)) {
    const auto text = [](const IdxFile& file) {
      return std::to_string(file.sizes()[1]) + " x " + std::to_string(file.sizes()[2]);
    };
    throw DataError(train.path().string() + " holds images of " + text(train) + ", but " +
                    test.path().string() + " of " + text(test) + "; both must be of one size");
  }
}

SampleShape IdxImages::shape() const noexcept {
  const auto& sizes = halves_[0].images.sizes();
  return {sizes[1], sizes[2], kClasses};
}

void IdxImages::load() {
  // Deferred where no thread can be had.
  auto test = std::async(std::launch::async | std::launch::deferred, [this] { halves_[1].load(); });
  halves_[0].load();
  test.get();
}

void IdxImages::fill(Split split, std::span<const std::int64_t> indices, float* x,
                     Targets targets) const {
  const Half& half = halves_[split == Split::kTrain ? 0 : 1];
  if (half.pixels.empty() || targets.labels == nullptr) {
    throw std::logic_error(half.pixels.empty() ? "fill() needs a load() before it"
                                               : "images have labels: set Targets::labels");
  }
  const auto [steps, features, classes] = shape();
  const auto n = static_cast<std::int64_t>(indices.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t index = indices[static_cast<std::size_t>(i)];
    if (index < 0 || index >= size(split)) {
      throw std::out_of_range("sample " + std::to_string(index) + " is not one of the " +
                              std::to_string(size(split)) + " of " + half.images.path().string());
    }
    const std::uint8_t* image = half.pixels.data() + index * steps * features;
    for (std::int64_t step = 0; step < steps; ++step) {
      normalise(image + step * features, features, x + (step * n + i) * features);
    }
    targets.labels[i] = half.classes[static_cast<std::size_t>(index)];
  }
}

}  // namespace passel::train
