#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "passel/kernels/lltm.h"

namespace passel::kernels {

/// Calls f(first, last) for ranges that make up 0 .. count, on the caller's
/// threads where it lent any. A range starts at a multiple of `grain`.
template <class F>
void for_each_part(const LltmThreads& threads, std::int64_t count, std::int64_t grain, F&& f) {
  const std::int64_t grains = (count + grain - 1) / grain;
  const std::int64_t parts =
      std::min<std::int64_t>(threads.run == nullptr ? 1 : threads.count, grains);
  if (parts <= 1) return f(std::int64_t{0}, count);

  struct Context {
    std::remove_reference_t<F>* f;
    std::int64_t count, grain, grains, parts;
  };
  Context context{&f, count, grain, grains, parts};
  const auto task = [](void* opaque, std::int64_t part) noexcept {
    const Context& c = *static_cast<const Context*>(opaque);
    const std::int64_t first = c.grains * part / c.parts * c.grain;
    const std::int64_t last = std::min(c.count, c.grains * (part + 1) / c.parts * c.grain);
    (*c.f)(first, last);
  };
  threads.run(threads.caller, parts, task, &context);
}

}  // namespace passel::kernels
