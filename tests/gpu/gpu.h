#pragma once

#include <gtest/gtest.h>

namespace passel::gpu_test {

/// How many GPUs there are; 0 where there is no driver either.
int gpus();

/// Whether the first GPU can multiply in TF32: Ampere and later can.
bool has_tf32();

/// Tests of this fixture need a GPU and say so where there is none.
class Gpu : public testing::Test {
 protected:
  void SetUp() override {
    if (gpus() == 0) GTEST_SKIP() << "skipped: no GPU";
  }
};

class TwoGpus : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    if (!IsSkipped() && gpus() < 2) GTEST_SKIP() << "skipped: only one GPU";
  }
};

}  // namespace passel::gpu_test
