#include "cuda_gpus.h"

// What the trainer looks for in libpassel_train_cuda.so (passel/device/gpus.h).
extern "C" __attribute__((visibility("default"))) passel::device::Gpus* passel_gpus() {
  return &passel::device::cuda_gpus();
}
