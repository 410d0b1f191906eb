#include "passel/train/dataset.h"

#include "passel/train/adding_problem.h"
#include "passel/train/adding_stream.h"
#include "passel/train/errors.h"
#include "passel/train/idx_images.h"

namespace passel::train {

std::unique_ptr<Dataset> open_dataset(const DatasetOptions& options) {
  if (options.name == "fashion-mnist") {
    return std::make_unique<IdxImages>(options.directory.empty() ? kFashionMnistDirectory
                                                                 : options.directory);
  }
  if (options.name == "adding") {
    return std::make_unique<AddingProblem>(options.seed, options.adding_steps, options.adding_train,
                                           options.adding_test);
  }
  if (options.name == "adding-stream") {
    return std::make_unique<AddingStream>(options.seed, options.adding_steps,
                                          options.document_windows, options.adding_train,
                                          options.adding_test);
  }
  throw UsageError("unknown data set \"" + options.name +
                   "\"; expected \"fashion-mnist\", \"adding\" or \"adding-stream\"");
}

}  // namespace passel::train
