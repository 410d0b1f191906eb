#include "products.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/zeros.h>

#include <memory>
#include <stdexcept>

#include "passel/kernels/linear_loss.h"
#include "passel/kernels/lltm.h"

namespace bench {
namespace {
using at::Tensor;

Tensor numbers(at::IntArrayRef sizes) {
  return at::rand(sizes, at::kFloat) - 0.5;
}

/// `count` equal products of one kind by both sides.
struct Product {
  std::string kind;
  std::int64_t count;
  Tensor left, right;  // as at::mm takes them
  Tensor ours, theirs;
  std::function<void()> run_ours;
};

Contestant contestant(const Product& p, const std::string& side, std::function<void()> run) {
  const Work work = product_work(p.count, p.left.size(0), p.left.size(1), p.right.size(1));
  return {.kind = p.kind, .side = side, .parts = {{"product", work, std::move(run)}}};
}

void add(std::vector<Contestant>& all, const Product& p) {
  const auto run_theirs = [p] {
    Tensor out = p.theirs;
    for (std::int64_t i = 0; i < p.count; ++i) at::mm_out(out, p.left, p.right);
  };
  if (p.ours.defined()) {
    p.run_ours();
    run_theirs();
    if (!p.ours.allclose(p.theirs, 1e-3, 1e-3)) {
      throw std::runtime_error("kernels_bench: " + p.kind + " and at::mm differ");
    }
  }
  all.push_back(contestant(p, "passel", p.run_ours));
  all.push_back(contestant(p, "at::mm", run_theirs));
}

/// A linear layer x [rows, input], weight [output, input] and what its kernels need.
struct Layer {
  passel::kernels::LinearShape shape;
  Tensor x, weight, bias, output, packed, grad_output, grad_x, grad_weight, workspace;

  Layer(std::int64_t rows, std::int64_t input, std::int64_t outputs)
      : shape{.batch = rows, .input = input, .output = outputs},
        x(numbers({rows, input})),
        weight(numbers({outputs, input})),
        bias(at::zeros({outputs})),
        output(at::empty({rows, outputs})),
        packed(at::empty({static_cast<std::int64_t>(linear_packed_size(shape))})),
        grad_output(numbers({rows, outputs})),
        grad_x(at::empty({rows, input})),
        grad_weight(at::empty({outputs, input})),
        workspace(at::empty({static_cast<std::int64_t>(linear_backward_workspace(shape))})) {
    forward();
  }

  void forward() const {
    passel::kernels::linear_forward(
        shape, passel::kernels::LinearForward<float>{.x = x.const_data_ptr<float>(),
                                                     .weight = weight.const_data_ptr<float>(),
                                                     .bias = bias.const_data_ptr<float>(),
                                                     .output = output.mutable_data_ptr<float>(),
                                                     .packed = packed.mutable_data_ptr<float>()});
  }

  enum class By { kX, kWeight };

  void backward(By by) const {
    float* const to_x = by == By::kX ? grad_x.mutable_data_ptr<float>() : nullptr;
    float* const to_weight = by == By::kWeight ? grad_weight.mutable_data_ptr<float>() : nullptr;
    passel::kernels::linear_backward(shape, passel::kernels::LinearBackward<float>{
                                                .x = x.const_data_ptr<float>(),
                                                .packed = packed.const_data_ptr<float>(),
                                                .grad_output = grad_output.const_data_ptr<float>(),
                                                .scale = 1,
                                                .grad_x = to_x,
                                                .grad_weight = to_weight,
                                                .grad_bias = nullptr,
                                                .workspace = workspace.mutable_data_ptr<float>()});
  }
};

Product forward_product(const std::string& kind, const Shape& n) {
  const auto layer = std::make_shared<Layer>(n.t * n.b, n.i, 3 * n.s);
  return {.kind = kind,
          .count = 1,
          .left = layer->x,
          .right = layer->weight.t(),
          .ours = layer->output,
          .theirs = at::empty_like(layer->output),
          .run_ours = [layer] { layer->forward(); }};
}

Product by_input(const std::string& kind, std::int64_t count, std::int64_t rows, std::int64_t input,
                 std::int64_t gates) {
  const auto layer = std::make_shared<Layer>(rows, input, gates);
  return {.kind = kind,
          .count = count,
          .left = layer->grad_output,
          .right = layer->weight,
          .ours = layer->grad_x,
          .theirs = at::empty_like(layer->grad_x),
          .run_ours = [layer, count] {
            for (std::int64_t i = 0; i < count; ++i) layer->backward(Layer::By::kX);
          }};
}

Product by_weight(const std::string& kind, std::int64_t rows, std::int64_t input,
                  std::int64_t gates) {
  const auto layer = std::make_shared<Layer>(rows, input, gates);
  return {.kind = kind,
          .count = 1,
          .left = layer->grad_output.t(),
          .right = layer->x,
          .ours = layer->grad_weight,
          .theirs = at::empty_like(layer->grad_weight),
          .run_ours = [layer] { layer->backward(Layer::By::kWeight); }};
}

/// The recurrent product has no result of its own to compare: ours ends in h.
Product recurrent_product(const Shape& n) {
  struct State {
    passel::kernels::LltmShape shape;
    Tensor weight, bias, h0, hidden, c_last, cells, gates, packed;
  };
  const passel::kernels::LltmShape shape{.steps = n.t, .batch = n.b, .input = 0, .state = n.s};
  const auto state = std::make_shared<State>(
      State{.shape = shape,
            .weight = numbers({3 * n.s, n.s}),
            .bias = at::zeros({3 * n.s}),
            .h0 = numbers({n.b, n.s}),
            .hidden = at::empty({n.t, n.b, n.s}),
            .c_last = at::empty({n.b, n.s}),
            .cells = at::empty({n.t, n.b, n.s}),
            .gates = at::empty({n.t, n.b, 3 * n.s}),
            .packed = at::empty({static_cast<std::int64_t>(lltm_packed_size(shape))})});
  passel::kernels::lltm_pack(shape, state->weight.const_data_ptr<float>(),
                             state->bias.const_data_ptr<float>(),
                             state->packed.mutable_data_ptr<float>());
  const auto run = [state] {
    passel::kernels::lltm_forward(
        state->shape,
        passel::kernels::LltmForward<float>{.x = nullptr,
                                            .weight = nullptr,
                                            .bias = nullptr,
                                            .h0 = state->h0.const_data_ptr<float>(),
                                            .c0 = state->h0.const_data_ptr<float>(),
                                            .hidden = state->hidden.mutable_data_ptr<float>(),
                                            .c_last = state->c_last.mutable_data_ptr<float>(),
                                            .cells = state->cells.mutable_data_ptr<float>(),
                                            .gates = state->gates.mutable_data_ptr<float>(),
                                            .packed = state->packed.mutable_data_ptr<float>()});
  };
  return {.kind = "mm_f2",
          .count = n.t,
          .left = state->h0,
          .right = state->weight.t(),
          .ours = {},
          .theirs = at::empty({n.b, 3 * n.s}),
          .run_ours = run};
}

}  // namespace

std::vector<Contestant> product_contestants(const Shape& n) {
  std::vector<Contestant> all;
  add(all, forward_product("mm_f1", n));
  add(all, recurrent_product(n));
  add(all, by_input("mm_b1", n.t, n.b, n.s, 3 * n.s));
  add(all, by_weight("mm_b2", n.t * n.b, n.s, 3 * n.s));
  add(all, by_weight("mm_b3", n.t * n.b, n.i, 3 * n.s));
  add(all, by_input("mm_b4", 1, n.t * n.b, n.i, 3 * n.s));
  return all;
}

}  // namespace bench
