// Makes of the program `passel` one that finds GPUs which are none.
#include "fake_gpus.h"

namespace passel::device {
namespace {

[[maybe_unused]] const bool kProvided = [] {
  provide_gpus(fake_gpus());
  return true;
}();

}  // namespace
}  // namespace passel::device
