#pragma once

namespace passel::shm {

/// From now on exiting() knows of exit(). At the first use of a device.
void watch_exit();

/// The program is in exit(), so static destructors run, and CUDA's own may have run already.
bool exiting() noexcept;

}  // namespace passel::shm
