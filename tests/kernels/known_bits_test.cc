// The bits that every machine must give, whatever its instruction set: hashes
// of results, the same on AVX-512, AVX2, NEON and in scalar code. A change of a
// formula or of an order of summing changes them; then runs that were begun with
// the old bits do not resume to the same ones, which is worth a line in the
// changelog. `make neon` runs this test as ARM code.

#include "bits_hash.h"
#include "each_target.h"
#include "linear_loss_case.h"
#include "lltm_case.h"
#include "passel/kernels/update.h"

namespace passel::kernels::test {
namespace {

template <typename T>
std::uint64_t hash_of(const std::vector<Guarded<T>*>& arrays) {
  Hash hash;
  for (const Guarded<T>* array : arrays) hash.add(array->values());
  return hash.value();
}

struct KnownRun {
  LltmShape shape;
  std::uint64_t float_outputs, float_gradients, double_outputs, double_gradients;
};

constexpr KnownRun kRuns[] = {
    {{.steps = 1, .batch = 1, .input = 1, .state = 1},
     0xc6ba03563b71739e,
     0x2a1e06915ad2d2b9,
     0xabde9fd464c05f51,
     0x2a8c99a22ff1a931},
    {{.steps = 3, .batch = 5, .input = 0, .state = 16},
     0x29fc76a0bde7d722,
     0xe06f348d962c1511,
     0x9f7bbd8a96cb2b1d,
     0xf9522665588965e6},
    {{.steps = 20, .batch = 19, .input = 21, .state = 37},
     0xfd0674e8b83c082,
     0x5c2a421042a3da6b,
     0x40aa33b325dd64ee,
     0x39d9b78ff0fe7f7f},
    {{.steps = 28, .batch = 16, .input = 28, .state = 128},
     0x34256a3696e4155,
     0x566260d72a0d67dc,
     0x47b63f293746bdb2,
     0xe595ea950b9c8bfe},
};

template <typename T>
void expect_hashes(const LltmShape& shape, std::uint64_t outputs, std::uint64_t gradients) {
  LltmCase<T> c(shape, 99);
  c.run();
  EXPECT_EQ(hash_of(c.outputs()), outputs) << std::hex << "0x" << hash_of(c.outputs());
  EXPECT_EQ(hash_of(c.gradients()), gradients) << std::hex << "0x" << hash_of(c.gradients());
}

TEST(KnownBits, OfTheLltmCell) {
  with_each_target([] {
    for (const KnownRun& run : kRuns) {
      SCOPED_TRACE(run.shape.state);
      expect_hashes<float>(run.shape, run.float_outputs, run.float_gradients);
      expect_hashes<double>(run.shape, run.double_outputs, run.double_gradients);
    }
  });
}

std::vector<float> drawn(std::size_t n, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::vector<float> values(n);
  for (float& v : values) v = static_cast<float>(engine() >> 40) * 0x1p-23F - 1;
  return values;
}

struct KnownUpdate {
  UpdateOptions options;
  std::uint64_t hash;
};

constexpr KnownUpdate kUpdates[] = {
    {{.rule = UpdateRule::kSgd, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
     0x485651a20f95434},
    {{.rule = UpdateRule::kRmsprop, .momentum = 0.5}, 0x8a2a624c61a05d20},
    {{.rule = UpdateRule::kAdagrad, .eps = 1e-10}, 0x19d36a6ecbd8dd62},
    {{.rule = UpdateRule::kAdam, .weight_decay = 0.01}, 0x82ab3ecd8540ccce},
    {{.rule = UpdateRule::kAdamw, .weight_decay = 0.01}, 0x69d6119a8ba41535},
};

std::uint64_t hash_after_updates(const UpdateOptions& options) {
  constexpr std::size_t kSize = 1003;
  std::vector<float> parameters = drawn(kSize, 1);
  std::vector<std::vector<float>> state(static_cast<std::size_t>(state_blocks(options)),
                                        std::vector<float>(kSize));
  std::vector<float*> pointers;
  for (auto& block : state) pointers.push_back(block.data());
  for (std::int64_t t = 1; t <= 10; ++t) {
    const auto gradient = drawn(kSize, 10 + static_cast<std::uint64_t>(t));
    apply_update(options, {.lr = 0.01, .step = t}, parameters.data(), gradient.data(), pointers,
                 kSize);
  }
  Hash hash;
  hash.add(std::span<const float>(parameters));
  for (const auto& block : state) hash.add(std::span<const float>(block));
  return hash.value();
}

TEST(KnownBits, OfTheUpdateRules) {
  with_each_target([] {
    for (const KnownUpdate& known : kUpdates) {
      const std::uint64_t hash = hash_after_updates(known.options);
      EXPECT_EQ(hash, known.hash) << std::hex << "0x" << hash;
    }
  });
}

TEST(KnownBits, OfTheSquaredNorm) {
  const auto values = drawn(10007, 5);
  with_each_target([&] {
    const double norm = squared_norm(values.data(), values.size());
    EXPECT_EQ(norm, 0x1.9f79fec9904b6p+11) << std::hexfloat << norm;
  });
}

template <typename T>
std::uint64_t hash_of_layer_and_losses() {
  LinearCase<T> c({.batch = 19, .input = 53, .output = 33}, 98);
  c.run();
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 19; ++i) labels.push_back(i * 5 % 33);
  auto entropy = cross_entropy_of(c.output, labels, 33);
  auto squares = squared_error_of(c.output, c.grad_output);
  Hash hash;
  for (const Guarded<T>* array : c.results()) hash.add(array->values());
  for (const LossResult<T>* result : {&entropy, &squares}) {
    hash.add(result->slopes.values());
    hash.add(std::span<const T>(&result->loss, 1));
  }
  return hash.value();
}

TEST(KnownBits, OfTheLinearLayerAndItsLosses) {
  with_each_target([] {
    EXPECT_EQ(hash_of_layer_and_losses<float>(), 0x87847677d0cbb609U)
        << std::hex << "0x" << hash_of_layer_and_losses<float>();
    EXPECT_EQ(hash_of_layer_and_losses<double>(), 0xbcf2020a8fe4de2cU)
        << std::hex << "0x" << hash_of_layer_and_losses<double>();
  });
}

}  // namespace
}  // namespace passel::kernels::test
