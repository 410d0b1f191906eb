#include "lltm_threads.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
#include <torch/csrc/stable/c/shim.h>

#include <algorithm>

namespace passel::detail {
namespace {

// About 40 us of one core, against 10 us until a sleeping thread is at work.
constexpr double kFlopsPerThread = 4e6;

struct Call {
  void (*task)(void* context, std::int64_t part);
  void* context;
};

// at::parallel_for itself is a template that is serial unless its user is compiled
// with OpenMP too, and then brings a second OpenMP library into the process.
void run(void* /*caller*/, std::int64_t parts, void (*task)(void* context, std::int64_t part),
         void* context) {
  Call call{task, context};
  const auto parts_of_thread = [](std::int64_t first, std::int64_t last, void* opaque) {
    const Call& c = *static_cast<const Call*>(opaque);
    for (std::int64_t part = first; part < last; ++part) c.task(c.context, part);
  };
  const AOTITorchError error = torch_parallel_for(0, parts, 1, parts_of_thread, &call);
  TORCH_INTERNAL_ASSERT(error == 0, "torch_parallel_for failed");
}

}  // namespace

kernels::LltmThreads lltm_threads(const kernels::LltmShape& s) {
  const double flops = 6.0 * static_cast<double>(s.steps * s.batch) *
                       static_cast<double>(s.state * (s.state + s.input));
  const auto useful = static_cast<std::int64_t>(std::min(flops / kFlopsPerThread, 1e6));
  return {.count = std::clamp<std::int64_t>(useful, 1, std::max(at::get_num_threads(), 1)),
          .run = run};
}

}  // namespace passel::detail
