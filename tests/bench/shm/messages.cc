#include <passel/shm_torch.h>
#include <unistd.h>

#include <array>
#include <boost/interprocess/ipc/message_queue.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "measurements.h"

namespace bench {
namespace {

using passel::shm::SimpleQueue;

constexpr std::uint32_t kCapacity = 1024;  // of either kind of queue
constexpr auto kPatience = std::chrono::seconds(60);

template <std::uint32_t Bytes>
struct Message {
  std::uint64_t number;
  std::uint32_t producer;
  std::array<char, Bytes - 12> rest;
};
static_assert(sizeof(Message<64>) == 64 && sizeof(Message<128>) == 128);

/// Sees that all of it comes, in order, and counts it for so many seconds from the first look at
/// which every producer has been heard.
class Count {
 public:
  Count(std::uint32_t producers, double seconds) : next_(producers), seconds_(seconds) {}

  template <class M>
  void add(const M& message) {
    std::uint64_t& next = next_.at(message.producer);
    if (message.number != next) throw std::runtime_error("a message was lost or came out of order");
    if (next++ == 0) ++heard_;
    ++count_;
  }

  [[nodiscard]] bool done() {
    if (heard_ < next_.size()) return false;
    if (first_ == 0) {
      start_ = Clock::now();
      first_ = count_;
      return false;
    }
    if (count_ % 1024 != 0) return false;
    elapsed_ = seconds_since(start_);
    return elapsed_ >= seconds_;
  }

  [[nodiscard]] double per_second() const {
    return static_cast<double>(count_ - first_) / elapsed_;
  }

 private:
  std::vector<std::uint64_t> next_;  // [producers]
  double seconds_;
  std::size_t heard_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t first_ = 0;
  double elapsed_ = 0;
  Clock::time_point start_;
};

template <std::uint32_t Bytes>
void send_all(passel::Worker& self) {
  using Queue = SimpleQueue<Message<Bytes>>;
  auto end = Queue::open(*self.exchange().arena(), "messages").producer(self.slot());
  Message<Bytes> message{.number = 0, .producer = self.slot(), .rest = {}};
  while (end.put(message) == passel::QueueStatus::kOk) ++message.number;
}
void produce_64(passel::Worker& self) {
  send_all<64>(self);
}
void produce_128(passel::Worker& self) {
  send_all<128>(self);
}
PASSEL_ENTRY(produce_64);
PASSEL_ENTRY(produce_128);

template <std::uint32_t Bytes>
double measure(void (*produce)(passel::Worker&), std::uint32_t producers, double seconds) {
  passel::Shared shared({.workers = producers});
  const auto queue = SimpleQueue<Message<Bytes>>::create(
      shared.arena(), "messages", {.producers = producers, .capacity = kCapacity});
  auto workers = passel::spawn(produce, shared, {.threads = 1});
  auto end = queue.consumer();
  Count count(producers, seconds);
  const passel::Deadline deadline = passel::after(kPatience);
  Message<Bytes> message;
  while (!count.done()) {
    if (end.get(message, deadline) != passel::QueueStatus::kOk) {
      throw std::runtime_error("no message came");
    }
    count.add(message);
  }
  queue.close();
  workers->join();
  return count.per_second();
}

namespace ipc = boost::interprocess;

std::string boost_name(pid_t creator) {
  return "passel-shm-bench-" + std::to_string(creator);
}

void produce_boost(passel::Worker& self) {
  const auto& stop = self.value<std::atomic<bool>>("stop");
  ipc::message_queue queue(ipc::open_only, boost_name(::getppid()).c_str());
  for (Message<64> message{}; !stop.load(); ++message.number) {
    queue.send(&message, sizeof(message), 0);
  }
}
PASSEL_ENTRY(produce_boost);

/// The queue has a name, so somebody must remove it.
class BoostQueue {
 public:
  BoostQueue() : queue_(ipc::create_only, name_.c_str(), kCapacity, sizeof(Message<64>)) {}
  ~BoostQueue() { ipc::message_queue::remove(name_.c_str()); }
  BoostQueue(const BoostQueue&) = delete;
  BoostQueue& operator=(const BoostQueue&) = delete;

  Message<64> receive() {
    Message<64> message;
    std::size_t size = 0;
    unsigned priority = 0;
    queue_.receive(&message, sizeof(message), size, priority);
    return message;
  }
  /// Until its producer is gone, so that it cannot wait for room for ever.
  void drain(const passel::ProcessContext& producer) {
    Message<64> message;
    std::size_t size = 0;
    unsigned priority = 0;
    while (producer.alive_count() > 0) {
      queue_.try_receive(&message, sizeof(message), size, priority);
    }
  }

 private:
  std::string name_ = boost_name(::getpid());
  ipc::message_queue queue_;
};

}  // namespace

double messages_per_second(std::uint32_t bytes, std::uint32_t producers, double seconds) {
  return bytes == 64 ? measure<64>(produce_64, producers, seconds)
                     : measure<128>(produce_128, producers, seconds);
}

double boost_messages_per_second(double seconds) {
  BoostQueue queue;
  passel::Shared shared({.workers = 1});
  auto& stop = shared.value<std::atomic<bool>>("stop", false);
  auto workers = passel::spawn(produce_boost, shared, {.threads = 1});
  Count count(1, seconds);
  while (!count.done()) count.add(queue.receive());
  stop = true;
  queue.drain(*workers);
  workers->join();
  return count.per_second();
}

}  // namespace bench
