#include "passel/train/idx_images.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "data/expect_error.h"
#include "data/idx_files.h"
#include "data/temporary_folder.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

using passel::testing::expect_error;
using passel::testing::ImageSet;
using passel::testing::TemporaryFolder;
using passel::testing::write_file;

struct Batch {
  std::vector<float> x;
  std::vector<std::int64_t> labels;

  bool operator==(const Batch&) const = default;
};

Batch fill(const Dataset& data, Split split, const std::vector<std::int64_t>& indices) {
  Batch batch;
  const SampleShape shape = data.shape();
  batch.x.resize(static_cast<std::size_t>(shape.steps * shape.features) * indices.size());
  batch.labels.resize(indices.size());
  data.fill(split, indices, batch.x.data(), {.labels = batch.labels.data()});
  return batch;
}

class Images : public ::testing::Test {
 protected:
  /// A plain set with one file replaced.
  void write_with(const std::string& name, const passel::testing::Bytes& bytes) {
    set_.compressed = false;
    set_.write(folder_.path());
    write_file(folder_ / name, bytes);
  }

  TemporaryFolder folder_;
  ImageSet set_{.rows = 5, .columns = 3, .train = 30, .test = 12};
};

TEST_F(Images, GiveRowsAsStepsTimeMajorAndNormalised) {
  set_.write(folder_.path());
  IdxImages data(folder_.path());
  data.load();
  const std::vector<std::int64_t> indices{11, 0, 7, 7};
  const Batch batch = fill(data, Split::kTest, indices);
  for (std::uint32_t row = 0; row < 5; ++row) {
    for (std::size_t i = 0; i < 4; ++i) {
      const auto sample = static_cast<std::uint32_t>(indices[i]);
      EXPECT_EQ(batch.labels[i], set_.label(sample));
      for (std::uint32_t column = 0; column < 3; ++column) {
        const double expected = (set_.pixel(sample, row, column) / 255.0 - 0.2860) / 0.3530;
        EXPECT_NEAR(batch.x[(row * 4 + i) * 3 + column], expected, 1e-6);
      }
    }
  }
}

TEST_F(Images, AreToldFromOthersByAFingerprintOfPixelsAndLabels) {
  const auto fingerprint = [&] {
    IdxImages data(folder_.path());
    data.load();
    return data.fingerprint();
  };
  set_.write(folder_.path());
  const std::string before = fingerprint();
  EXPECT_EQ(before.size(), 16U);
  EXPECT_EQ(fingerprint(), before);
  passel::testing::Bytes labels = set_.labels(30);
  labels.back() ^= 1;
  write_with("train-labels-idx1-ubyte", labels);
  EXPECT_NE(fingerprint(), before);
  passel::testing::Bytes pixels = set_.images(30);
  write_with("train-images-idx3-ubyte", pixels);
  EXPECT_EQ(fingerprint(), before);
  pixels.back() ^= 1;
  write_with("train-images-idx3-ubyte", pixels);
  EXPECT_NE(fingerprint(), before);
}

TEST_F(Images, MayBeFilledByManyThreads) {
  set_.write(folder_.path());
  IdxImages data(folder_.path());
  data.load();
  const Batch expected = fill(data, Split::kTrain, {1, 2, 3, 29});
  std::vector<Batch> batches(4);
  {
    std::vector<std::jthread> threads;
    for (Batch& batch : batches) {
      threads.emplace_back([&] { batch = fill(data, Split::kTrain, {1, 2, 3, 29}); });
    }
  }
  for (const Batch& batch : batches) {
    EXPECT_EQ(batch, expected);
  }
}

TEST_F(Images, RefuseIndicesOutsideAndUseBeforeLoading) {
  set_.write(folder_.path());
  IdxImages data(folder_.path());
  expect_error<std::logic_error>([&] { fill(data, Split::kTrain, {0}); }, {"load()"});
  data.load();
  expect_error<std::out_of_range>([&] { fill(data, Split::kTest, {12}); }, {"sample 12"});
  expect_error<std::out_of_range>([&] { fill(data, Split::kTest, {-1}); }, {"sample -1"});
  float x = 0;
  expect_error<std::logic_error>([&] { data.fill(Split::kTest, {}, &x, {}); }, {"labels"});
}

TEST_F(Images, MustBeAsManyAsTheirLabels) {
  write_with("train-labels-idx1-ubyte", set_.labels(29));
  expect_error<DataError>([&] { IdxImages{folder_.path()}; },
                          {"train-images-idx3-ubyte", "30 images", "29 labels"});
}

TEST_F(Images, MustHaveLabelsBelowTen) {
  passel::testing::Bytes labels = set_.labels(12);
  labels[8 + 5] = 10;
  write_with("t10k-labels-idx1-ubyte", labels);
  IdxImages data(folder_.path());
  expect_error<DataError>([&] { data.load(); },
                          {"t10k-labels-idx1-ubyte", "label 10", "sample 5", "0 to 9"});
}

TEST_F(Images, MustBeOfOneSizeInTrainingAndTest) {
  write_with("t10k-images-idx3-ubyte", ImageSet{.rows = 3, .columns = 5}.images(12));
  expect_error<DataError>([&] { IdxImages{folder_.path()}; }, {"5 x 3", "3 x 5"});
}

TEST_F(Images, ReportDamageThatShowsOnlyWhileLoading) {
  passel::testing::Bytes images = passel::testing::gzip(set_.images(12));
  images[images.size() - 6] ^= 0xff;
  set_.write(folder_.path());
  write_file(folder_ / "t10k-images-idx3-ubyte.gz", images);
  IdxImages data(folder_.path());
  expect_error<DataError>([&] { data.load(); }, {"t10k-images-idx3-ubyte.gz", "gzip"});
}

TEST(FashionMnist, LoadsFromTheDebianPackage) {
  if (!std::filesystem::exists(kFashionMnistDirectory)) {
    FAIL() << "the package dataset-fashion-mnist, which scripts/setup installs, is missing";
  }
  const auto start = std::chrono::steady_clock::now();
  const auto data = open_dataset({});
  data->load();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  RecordProperty("load_seconds", std::to_string(seconds.count()));

  EXPECT_EQ(data->shape(), (SampleShape{28, 28, 10}));
  ASSERT_EQ(data->train_size(), 60'000);
  ASSERT_EQ(data->test_size(), 10'000);
  std::vector<std::int64_t> all(60'000);
  std::vector<int> of_class(10);
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<std::int64_t>(i);
  }
  const Batch batch = fill(*data, Split::kTrain, all);
  for (const std::int64_t label : batch.labels) {
    ++of_class[static_cast<std::size_t>(label)];
  }
  EXPECT_EQ(of_class, std::vector<int>(10, 6000));
  double sum = 0;
  double squares = 0;
  for (const float value : batch.x) {
    sum += value;
    squares += double{value} * value;
  }
  const auto count = static_cast<double>(batch.x.size());
  EXPECT_NEAR(sum / count, 0.0, 2e-3);  // normalised by the set's own mean and deviation
  EXPECT_NEAR(squares / count, 1.0, 2e-3);
}

}  // namespace
}  // namespace passel::train
