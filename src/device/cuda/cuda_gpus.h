#pragma once

#include "passel/device/gpus.h"

namespace passel::device {

/// The GPUs that the CUDA runtime knows.
Gpus& cuda_gpus();

}  // namespace passel::device
