#pragma once

#include <cstdint>
#include <vector>

#include "passel/train/dataset.h"

namespace passel::testing {

/// Some samples of a data set whose steps have two features and whose targets are one value.
struct FilledBatch {
  std::vector<float> x;  // [steps, samples, 2]
  std::vector<float> y;  // [samples]
};

inline FilledBatch fill(const train::Dataset& data, train::Split split,
                        const std::vector<std::int64_t>& indices) {
  FilledBatch batch;
  batch.x.resize(static_cast<std::size_t>(data.shape().steps) * indices.size() * 2);
  batch.y.resize(indices.size());
  data.fill(split, indices, batch.x.data(), {.values = batch.y.data()});
  return batch;
}

}  // namespace passel::testing
