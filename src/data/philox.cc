#include "passel/train/philox.h"

namespace passel::train {
namespace {

constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
constexpr std::uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1
constexpr int kRounds = 10;

constexpr std::uint32_t high_half(std::uint64_t v) {
  return static_cast<std::uint32_t>(v >> 32);
}
constexpr std::uint32_t low_half(std::uint64_t v) {
  return static_cast<std::uint32_t>(v);
}

}  // namespace

PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) noexcept {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {high_half(product1) ^ counter[1] ^ key[0], low_half(product1),
               high_half(product0) ^ counter[3] ^ key[1], low_half(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

Philox::Philox(std::uint64_t seed, RandomPurpose purpose, std::uint64_t stream) noexcept
    : key_{low_half(seed), high_half(seed)},
      counter_{0, static_cast<std::uint32_t>(purpose), low_half(stream), high_half(stream)} {}

Philox::result_type Philox::operator()() noexcept {
  if (used_ == block_.size()) {
    block_ = philox4x32_10(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

float Philox::uniform_float() noexcept {
  return static_cast<float>((*this)() >> 8) * 0x1p-24F;
}

std::uint32_t Philox::uniform_below(std::uint32_t bound) noexcept {
  std::uint64_t product = std::uint64_t{(*this)()} * bound;
  if (low_half(product) < bound) {
    const std::uint32_t unfair = (0U - bound) % bound;
    while (low_half(product) < unfair) {
      product = std::uint64_t{(*this)()} * bound;
    }
  }
  return high_half(product);
}

}  // namespace passel::train
