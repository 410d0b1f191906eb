#pragma once

#include <algorithm>
#include <cstdint>

#include "lltm_layout.h"
#include "passel/kernels/linear_loss.h"

namespace passel::kernels {

/// Parts of `packed`, as offsets in elements. Padding columns are zero.
///
///   output panels  [C / (3 units)][S][3 units]: W transposed, for y
///   input panels   [S / (3 units)][C][3 units]: W, for dL/dx
///   bias           [C]
class LinearPackedLayout {
 public:
  LinearPackedLayout(const LinearShape& shape, std::int64_t units) noexcept
      : output_stride_(shape.input * 3 * units),
        input_stride_(shape.output * 3 * units),
        input_panels_(divide_up(shape.output, 3 * units) * output_stride_),
        bias_(input_panels_ + divide_up(shape.input, 3 * units) * input_stride_),
        size_(bias_ + shape.output) {}

  std::int64_t output_stride() const { return output_stride_; }
  std::int64_t input_stride() const { return input_stride_; }
  std::int64_t input_panels() const { return input_panels_; }
  std::int64_t bias() const { return bias_; }
  std::int64_t size() const { return size_; }

 private:
  std::int64_t output_stride_;
  std::int64_t input_stride_;
  std::int64_t input_panels_;
  std::int64_t bias_;
  std::int64_t size_;
};

/// Parts of the backward pass's workspace, as offsets in elements.
///
///   scaled gradient [B, C], panels of x [S / (3 units)][chunk][3 units]
class LinearBackwardLayout {
 public:
  explicit LinearBackwardLayout(const LinearShape& shape) noexcept
      : chunk_rows_(std::min(shape.batch, kChunkRows)),
        panels_(shape.batch * shape.output),
        size_(panels_ + divide_up(shape.input, 3 * kMostUnits) * 3 * kMostUnits * chunk_rows_) {}

  std::int64_t chunk_rows() const { return chunk_rows_; }
  std::int64_t panels() const { return panels_; }
  std::int64_t size() const { return size_; }

 private:
  std::int64_t chunk_rows_;
  std::int64_t panels_;
  std::int64_t size_;
};

/// Fills `packed` (LinearPackedLayout) from one reading of the live weights; the
/// transposed panels are made from the copy, so both show the same snapshot.
void pack_linear(const LinearShape& shape, const float* weight, const float* bias, float* packed);
void pack_linear(const LinearShape& shape, const double* weight, const double* bias,
                 double* packed);

}  // namespace passel::kernels
