// The shape of distributed reinforcement learning: actors play episodes and send
// their trajectories to one learner, who updates the policy (REINFORCE, Williams 1992)
// and sends the parameters back.

#include <ATen/ATen.h>
#include <passel/shm_torch.h>

#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

namespace {

constexpr std::uint32_t kActors = 2;
constexpr std::int64_t kCells = 8;   // a corridor: start at the left end, goal at the right
constexpr std::int64_t kLimit = 64;  // steps of an episode
constexpr int kEpisodes = 400;

struct Episode {
  std::uint32_t actor;
  std::int64_t steps;
  std::int64_t policy;  // version of the policy it was played with
};

struct Version {
  std::int64_t number;
};

// Plays one episode; fills in where it was and what it did, and returns the steps.
std::int64_t play(const at::Tensor& logits, std::mt19937_64& random, at::Tensor cells,
                  at::Tensor actions) {
  const at::Tensor right = at::softmax(logits, 1).select(1, 1).contiguous();
  std::int64_t cell = 0;
  std::int64_t step = 0;
  for (; step < kLimit && cell != kCells - 1; ++step) {
    const bool go_right =
        std::uniform_real_distribution<float>()(random) < right.const_data_ptr<float>()[cell];
    cells.mutable_data_ptr<std::int64_t>()[step] = cell;
    actions.mutable_data_ptr<std::int64_t>()[step] = go_right ? 1 : 0;
    cell = go_right ? cell + 1 : std::max<std::int64_t>(cell - 1, 0);
  }
  return step;
}

void act(passel::Worker& self) {
  auto episodes = self.queue<Episode, 2>("episodes");
  auto policies = self.queue<Version, 1>("policies/" + std::to_string(self.slot()));
  std::mt19937_64 random(self.slot());
  auto policy = policies.get();  // the first one is waited for
  while (policy) {
    const at::Tensor cells = self.empty({kLimit}, at::kLong);
    const at::Tensor actions = self.empty({kLimit}, at::kLong);
    const std::int64_t steps = play(policy->tensors[0], random, cells, actions);
    episodes.put({self.slot(), steps, policy->data.number},
                 {cells.slice(0, 0, steps), actions.slice(0, 0, steps)});
    policy = policies.get();
  }
}
PASSEL_ENTRY(act);

// The gradient of the mean over steps of log p(action) times how much better the
// episode was than usual.
at::Tensor gradient(const at::Tensor& logits, const at::Tensor& cells, const at::Tensor& actions,
                    double advantage) {
  const at::Tensor chosen = at::zeros_like(logits).index_put_(
      {cells, actions}, at::ones({cells.size(0)}), /*accumulate=*/true);
  const at::Tensor visits = at::bincount(cells, {}, kCells).unsqueeze(1);
  return (chosen - visits * at::softmax(logits, 1)) * advantage / cells.size(0);
}

}  // namespace

int main(int argc, char** argv) {
  passel::init(argc, argv);  // in a worker this runs act() and does not return

  passel::Shared shared({.workers = kActors});
  auto episodes = shared.queue<Episode, 2>("episodes", {.read_by = passel::ReadBy::kParent});
  std::vector<passel::RecordQueue<Version, 1>> policies;
  for (std::uint32_t actor = 0; actor < kActors; ++actor) {
    policies.push_back(
        shared.queue<Version, 1>("policies/" + std::to_string(actor),
                                 {.read_by = passel::ReadBy::kWorker, .worker = actor}));
  }
  auto actors = passel::spawn(act, shared);

  at::Tensor logits = at::zeros({kCells, 2});
  for (auto& queue : policies) queue.put({0}, {logits.clone()});
  double usual = kLimit;
  double first = 0;
  double last = 0;
  for (int number = 0; number < kEpisodes; ++number) {
    const auto episode = episodes.get();
    if (!episode) break;
    const auto steps = static_cast<double>(episode->data.steps);
    logits +=
        4 * gradient(logits, episode->tensors[0], episode->tensors[1], (usual - steps) / kLimit);
    usual += 0.1 * (steps - usual);
    (number < 50 ? first : last) += steps / (number < 50 ? 50 : kEpisodes - 50);
    policies[episode->data.actor].put({number + 1}, {logits.clone()});
  }
  for (auto& queue : policies) queue.close();
  actors->join();  // throws what an actor threw
  std::printf("mean steps to the goal: %.1f in the first 50 episodes, %.1f after\n", first, last);
  return last < first ? 0 : 1;
}
