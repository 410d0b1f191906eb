#include <gtest/gtest.h>

#include "fake_cuda/fake_cuda.h"
#include "passel/shm/worker.h"

int main(int argc, char** argv) {
  passel::shm::init(argc, argv);  // in a spawned worker this does not return
  passel::fake_cuda::create_world();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
