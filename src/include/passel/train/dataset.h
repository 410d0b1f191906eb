#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace passel::train {

/// What one sample looks like: a sequence [steps, features] and a target.
struct SampleShape {
  std::int64_t steps = 0;
  std::int64_t features = 0;
  std::int64_t classes = 0;  ///< 0: the target is one real number; else labels in [0, classes)

  bool operator==(const SampleShape&) const = default;
};

enum class Split : std::uint8_t { kTrain, kTest };

/// Where fill() writes targets; the one that fits the shape's `classes` is used and must be set.
struct Targets {
  std::int64_t* labels = nullptr;  ///< [n], classification
  float* values = nullptr;         ///< [n], regression
};

/// A set of samples in this process's memory. Opening it checks what can be checked cheaply (names,
/// headers, sizes), so that shared memory can be laid out before load() has run.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  virtual SampleShape shape() const noexcept = 0;
  virtual std::int64_t train_size() const noexcept = 0;
  virtual std::int64_t test_size() const noexcept = 0;
  std::int64_t size(Split split) const noexcept {
    return split == Split::kTrain ? train_size() : test_size();
  }

  /// Reads everything; may take long. Call once, before fill(). Throws DataError.
  virtual void load() = 0;

  /// After load(): 16 hex digits over all that a run is trained on, to tell other data of the same
  /// form. Empty: the configuration says all of it.
  virtual std::string fingerprint() const { return {}; }

  /// Writes the samples named by `indices` [n] to `x` [steps, n, features], time-major and
  /// contiguous, and their targets [n]. After load() any number of threads may call it at once.
  /// Throws std::out_of_range for an index outside the split, std::logic_error before load().
  virtual void fill(Split split, std::span<const std::int64_t> indices, float* x,
                    Targets targets) const = 0;

  /// Of a data set that is one long sequence cut into samples (windows): whether the sample has
  /// nothing to do with the one before it. After load() from any number of threads; throws as
  /// fill() does.
  virtual bool begins_document(Split /*split*/, std::int64_t /*index*/) const { return true; }
};

/// Where the Debian package dataset-fashion-mnist puts its files.
inline constexpr const char* kFashionMnistDirectory = "/usr/share/datasets/fashion-mnist";

struct DatasetOptions {
  std::string name = "fashion-mnist";    ///< "fashion-mnist", "adding" or "adding-stream"
  std::filesystem::path directory = {};  ///< of IDX files; empty: kFashionMnistDirectory
  std::uint64_t seed = 0;                ///< of generated data
  std::int64_t adding_steps = 50;        ///< length of a sequence or window, at least 2
  std::int64_t adding_train = 20000;     ///< sequences or windows
  std::int64_t adding_test = 2000;
  std::int64_t document_windows = 8;  ///< of the stream, in the mean
};

/// Opens the named data set without loading it. Throws UsageError for an unknown name or a size
/// that makes no sense, DataError where a file is missing or its header is wrong.
std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options);

}  // namespace passel::train
