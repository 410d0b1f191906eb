#pragma once

#include "passel/device/gpus.h"

namespace passel::device {

/// GPUs which are none, over the CUDA runtime that tests bring along. The environment says what
/// they are: FAKE_GPUS, how many there are; FAKE_DRIVER, the driver's version; FAKE_CUDA_FAILS, a
/// function of the runtime that fails in all processes but the parent.
Gpus& fake_gpus();

}  // namespace passel::device
