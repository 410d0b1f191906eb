#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "passel/train/dataset.h"
#include "passel/train/idx.h"

namespace passel::train {

/// Images and labels of the MNIST family, of any size rows x columns: a sample is the sequence of
/// an image's rows, so steps = rows and features = columns. Pixels are normalised as
/// (v / 255 - 0.2860) / 0.3530, the mean and deviation of Fashion-MNIST's training set.
/// Xiao, Rasul, Vollgraf: "Fashion-MNIST", arXiv:1708.07747.
class IdxImages final : public Dataset {
 public:
  static constexpr std::int64_t kClasses = 10;

  /// Opens {train,t10k}-images-idx3-ubyte[.gz] and {train,t10k}-labels-idx1-ubyte[.gz].
  explicit IdxImages(const std::filesystem::path& directory);

  SampleShape shape() const noexcept override;
  std::int64_t train_size() const noexcept override { return halves_[0].images.sizes()[0]; }
  std::int64_t test_size() const noexcept override { return halves_[1].images.sizes()[0]; }
  void load() override;
  std::string fingerprint() const override { return halves_[0].hash; }
  void fill(Split split, std::span<const std::int64_t> indices, float* x,
            Targets targets) const override;

 private:
  struct Half {
    Half(const std::filesystem::path& directory, std::string_view prefix);
    void load();

    IdxFile images;
    IdxFile labels;
    std::vector<std::uint8_t> pixels;   // [n, rows, columns]
    std::vector<std::uint8_t> classes;  // [n]
    std::string hash;                   // of both
  };

  std::array<Half, 2> halves_;
};

}  // namespace passel::train
