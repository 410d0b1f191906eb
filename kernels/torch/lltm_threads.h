#pragma once

#include "passel/kernels/lltm.h"

namespace passel::detail {

// libtorch's threads for a run of this shape; one thread where the work is too
// small for more. at::set_num_threads() limits them.
kernels::LltmThreads lltm_threads(const kernels::LltmShape& shape);

}  // namespace passel::detail
