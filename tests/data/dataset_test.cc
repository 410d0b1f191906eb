#include "passel/train/dataset.h"

#include <gtest/gtest.h>

#include "data/expect_error.h"
#include "data/idx_files.h"
#include "data/temporary_folder.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

TEST(OpenDataset, KnowsTheAddingProblem) {
  const auto data = open_dataset({.name = "adding", .adding_steps = 30, .adding_train = 500});
  EXPECT_EQ(data->shape(), (SampleShape{30, 2, 0}));
  EXPECT_EQ(data->size(Split::kTrain), 500);
  EXPECT_EQ(data->size(Split::kTest), 2000);
}

TEST(OpenDataset, KnowsTheAddingStream) {
  const auto data =
      open_dataset({.name = "adding-stream", .adding_steps = 30, .adding_train = 500});
  EXPECT_EQ(data->shape(), (SampleShape{30, 2, 0}));
  EXPECT_EQ(data->size(Split::kTrain), 500);
  EXPECT_TRUE(data->begins_document(Split::kTrain, 0));
}

TEST(OpenDataset, KnowsSizesAndShapeOfImagesBeforeLoading) {
  const passel::testing::TemporaryFolder folder;
  passel::testing::ImageSet{.rows = 6, .columns = 3, .train = 40, .test = 20}.write(folder.path());
  const auto data = open_dataset({.name = "fashion-mnist", .directory = folder.path()});
  EXPECT_EQ(data->shape(), (SampleShape{6, 3, 10}));
  EXPECT_EQ(data->train_size(), 40);
  EXPECT_EQ(data->test_size(), 20);
}

TEST(OpenDataset, ListsTheNamesItKnows) {
  passel::testing::expect_error<UsageError>([] { open_dataset({.name = "mnist"}); },
                                            {"\"mnist\"", "fashion-mnist", "adding"});
}

}  // namespace
}  // namespace passel::train
