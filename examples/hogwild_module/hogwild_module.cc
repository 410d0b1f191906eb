// Any torch::nn module, trained by several processes at once on the same parameters,
// without locks (Niu et al., "Hogwild!", 2011). Nothing in the loop knows of it.

#include <passel/shm_torch.h>
#include <torch/torch.h>

#include <cstdio>

namespace {

struct NetImpl : torch::nn::Module {
  NetImpl() : hidden(2, 32), output(32, 1) {
    register_module("hidden", hidden);
    register_module("output", output);
  }
  torch::Tensor forward(const torch::Tensor& x) { return output(torch::tanh(hidden(x))); }
  torch::nn::Linear hidden, output;
};
TORCH_MODULE(Net);

// Points of the square [-1, 1]^2; the target is the product of their coordinates.
std::pair<torch::Tensor, torch::Tensor> sample(std::int64_t count) {
  const torch::Tensor x = torch::rand({count, 2}) * 2 - 1;
  return {x, x.prod(1, true)};
}

double train(passel::Worker& self) {
  Net net;
  self.bind("net", net);  // from here on its parameters are the shared ones
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.5));
  double loss = 0;
  for (int step = 0; step < 1500 && !self.stop_requested(); ++step) {
    const auto [x, y] = sample(64);
    optimizer.zero_grad();
    const torch::Tensor error = torch::mse_loss(net(x), y);
    error.backward();
    optimizer.step();
    loss = error.item<double>();
  }
  return loss;
}
PASSEL_ENTRY(train);

}  // namespace

int main(int argc, char** argv) {
  passel::init(argc, argv);  // in a worker this runs train() and does not return
  torch::manual_seed(1);

  passel::Shared shared({.workers = 2, .seed = 1});
  Net net;
  shared.share("net", net);  // like net.share_memory()
  const auto [x, y] = sample(4096);
  const auto test_loss = [&] {
    const torch::NoGradGuard guard;
    return torch::mse_loss(net(x), y).item<double>();
  };

  std::printf("test loss before %.4f\n", test_loss());
  auto workers = passel::spawn(train, shared);
  workers->join();  // throws what a worker threw
  for (std::uint32_t slot = 0; slot < shared.workers(); ++slot) {
    std::printf("worker %u ended at a loss of %.4f\n", slot, *workers->result<double>(slot));
  }
  std::printf("test loss after %.4f\n", test_loss());
  return test_loss() < 0.01 ? 0 : 1;
}
