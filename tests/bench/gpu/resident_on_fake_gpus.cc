// The program `passel` with batches that lie on the device: GPUs which are none, to see that it
// runs.
#include "device/fake_gpus.h"
#include "resident_gpus.h"

namespace passel::device {
namespace {

[[maybe_unused]] const bool kProvided = [] {
  static ResidentGpus gpus(fake_gpus);
  provide_gpus(gpus);
  return true;
}();

}  // namespace
}  // namespace passel::device
