#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace passel::kernels {

/// Sizes of a fully connected layer y = x W' + b, the head of a network. Each may
/// be zero.
///
/// Letters below: B batch, S input, C output. All arrays are dense, the last axis
/// fastest, aligned for their element type, and do not overlap.
struct LinearShape {
  std::int64_t batch;
  std::int64_t input;
  std::int64_t output;
};

/// Arrays of linear_forward(); the caller owns all of them.
template <typename T>
struct LinearForward {
  const T* x;       ///< [B, S]
  const T* weight;  ///< [C, S]; read exactly once
  const T* bias;    ///< [C]; read exactly once
  T* output;        ///< [B, C] out
  T* packed;        ///< [linear_packed_size(shape)] out: the weights used, for linear_backward()
};

/// Arrays of linear_backward(); the caller owns all of them. Every gradient is
/// overwritten, not added to.
template <typename T>
struct LinearBackward {
  const T* x;            ///< [B, S], as in forward; read for grad_weight only
  const T* packed;       ///< [linear_packed_size(shape)], from forward; read for grad_x only
  const T* grad_output;  ///< [B, C] dL/dy, but for the factor `scale`: a loss's slopes
  T scale;               ///< dL/dloss; 1 where grad_output is complete
  T* grad_x;             ///< [B, S] out, or nullptr if not wanted
  T* grad_weight;        ///< [C, S] out, or nullptr if not wanted
  T* grad_bias;          ///< [C] out, or nullptr if not wanted
  T* workspace;          ///< [linear_backward_workspace(shape)], contents do not matter
};

/// Elements of `packed` and `workspace`. They depend on the shape alone, not on
/// the element type or the machine.
std::size_t linear_packed_size(const LinearShape& shape) noexcept;
std::size_t linear_backward_workspace(const LinearShape& shape) noexcept;

/// Runs the layer on the calling thread.
///
/// Other processes may write `weight` and `bias` meanwhile: each element is read
/// once, into `packed`, and linear_backward() differentiates that snapshot.
/// Each output element is one chain of fused multiply-adds over the inputs, begun
/// at the bias, so AVX2, AVX-512 and NEON give the same bits, and so does any split
/// of the batch. Allocates nothing. Threads may call it at once on other outputs.
/// NaN and infinities propagate.
void linear_forward(const LinearShape& shape, const LinearForward<float>& arrays) noexcept;
void linear_forward(const LinearShape& shape, const LinearForward<double>& arrays) noexcept;

/// Gradients of a loss whose derivatives by the outputs are given. Same promises
/// as linear_forward(), but grad_weight and grad_bias are sums over the batch, so
/// adding up those of a split batch can differ in the last bits.
void linear_backward(const LinearShape& shape, const LinearBackward<float>& arrays) noexcept;
void linear_backward(const LinearShape& shape, const LinearBackward<double>& arrays) noexcept;

/// Arrays of cross_entropy() for B samples of C classes; the caller owns them.
template <typename T>
struct CrossEntropy {
  const T* logits;             ///< [B, C]
  const std::int64_t* target;  ///< [B], each in [0, C); read exactly once
  T* slopes;                   ///< [B, C] out: dloss/dlogits, or nullptr if not wanted; may be
                               ///< `logits` itself
  T* loss;                     ///< [1] out
};

/// Mean over the batch of -log(softmax(logits)[target]), as
/// torch.nn.functional.cross_entropy with its defaults, but that a target of -100
/// is out of range like any other. NaN for B = 0.
///
/// Returns the number of the first row whose target is out of [0, C), if there is
/// one; slopes and loss are then unspecified. The largest logit of a row is
/// subtracted first, so no finite logit overflows. The losses of the rows are added
/// up in double; the order of all additions depends on B and C alone, so every
/// instruction set gives the same bits. A NaN or +infinity among the logits makes
/// its row's slopes and the loss NaN. Allocates nothing.
std::optional<std::int64_t> cross_entropy(std::int64_t batch, std::int64_t classes,
                                          const CrossEntropy<float>& arrays) noexcept;
std::optional<std::int64_t> cross_entropy(std::int64_t batch, std::int64_t classes,
                                          const CrossEntropy<double>& arrays) noexcept;

/// Arrays of squared_error() for N values; the caller owns them.
template <typename T>
struct SquaredError {
  const T* output;  ///< [N]
  const T* target;  ///< [N]
  T* slopes;        ///< [N] out: dloss/doutput, or nullptr if not wanted; may be `output` itself
  T* loss;          ///< [1] out
};

/// Mean of (output - target)^2, as torch.nn.functional.mse_loss. NaN for N = 0.
/// Added up in double in an order that depends on N alone. Allocates nothing.
void squared_error(std::int64_t count, const SquaredError<float>& arrays) noexcept;
void squared_error(std::int64_t count, const SquaredError<double>& arrays) noexcept;

}  // namespace passel::kernels
