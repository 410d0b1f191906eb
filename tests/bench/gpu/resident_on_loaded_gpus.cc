// The program `passel` with batches that lie on the device: the GPUs of this machine.
#include "resident_gpus.h"

namespace passel::device {
namespace {

[[maybe_unused]] const bool kProvided = [] {
  static ResidentGpus gpus(loaded_gpus);
  provide_gpus(gpus);
  return true;
}();

}  // namespace
}  // namespace passel::device
