#include <ATen/ATen.h>
#include <passel/shm/arena.h>
#include <passel/shm_torch/tensor_handle.h>

#include <cstdio>

// Sends a tensor of an arena through its handle.
int main() {
  auto arena = passel::shm::Arena::create("consumer", 1 << 20);
  auto values = arena.construct_array<float>("values", 6);
  values[5] = 7;
  const at::Tensor sent = at::from_blob(values.data(), {2, 3});
  const auto got = passel::shm::to_tensor(arena, passel::shm::to_handle(arena, sent.t()));
  const bool right = got && (*got)[2][1].item<float>() == 7;
  std::printf("%s\n", right ? "ok" : "wrong");
  return right ? 0 : 1;
}
