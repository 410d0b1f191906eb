#pragma once

#include "passel/kernels/lltm.h"

namespace passel::kernels {

/// The LLTM cell as plain loops in double: the oracle that the fast kernels are
/// tested against, and the shortest statement of what they compute. `packed`
/// must have room as for lltm_forward(), but its layout is the reference's own:
/// a backward pass must follow a forward pass of the same kind.
void lltm_reference_forward(const LltmShape& shape, const LltmForward<double>& arrays);
void lltm_reference_backward(const LltmShape& shape, const LltmBackward<double>& arrays);

}  // namespace passel::kernels
