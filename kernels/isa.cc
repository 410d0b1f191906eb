#include "passel/kernels/isa.h"

#include "simd_targets.h"
// After the choice of targets.
#include <hwy/targets.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "settle_isa.h"

namespace passel::kernels {
namespace {

struct Isa {
  std::string_view name;
  std::int64_t targets;
};

constexpr Isa kIsas[] = {{"avx512", HWY_AVX3},
                         {"avx2", HWY_AVX2},
                         {"neon", HWY_NEON},
                         {"scalar", HWY_SCALAR | HWY_EMU128}};

/// What the kernels use: Highway asks the CPU anew at each SupportedTargets(), which costs
/// microseconds in a virtual machine.
std::atomic<const Isa*> used{nullptr};

/// What the CPU has, asked before anything is disabled.
std::int64_t supported_targets() {
  static const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return targets;
}

const Isa& find_isa(std::string_view name, std::string_view source) {
  std::string names;
  for (const Isa& isa : kIsas) {
    if ((supported_targets() & isa.targets) == 0) continue;
    if (isa.name == name) return isa;
    names.append(names.empty() ? "" : ", ").append(isa.name);
  }
  throw std::invalid_argument(std::string(source)
                                  .append(" expected an instruction set that this machine has (")
                                  .append(names)
                                  .append("), got '")
                                  .append(name)
                                  .append("'"));
}

void use(const Isa& isa) {
  hwy::DisableTargets(~isa.targets);
  used.store(&isa);
}

void read_environment() {
  const char* name = std::getenv("PASSEL_ISA");
  const bool given = name != nullptr && *name != '\0';
  use(given ? find_isa(name, "PASSEL_ISA") : find_isa(available_isas().front(), "the CPU"));
}

}  // namespace

void settle_isa() {
  static const bool settled = (read_environment(), true);
  static_cast<void>(settled);
}

std::vector<std::string_view> available_isas() {
  std::vector<std::string_view> names;
  for (const Isa& isa : kIsas) {
    if ((supported_targets() & isa.targets) != 0) names.push_back(isa.name);
  }
  return names;
}

std::string_view isa() {
  settle_isa();
  return used.load()->name;
}

void select_isa(std::string_view name) {
  const Isa& isa = find_isa(name, "select_isa()");
  settle_isa();
  use(isa);
}

}  // namespace passel::kernels
