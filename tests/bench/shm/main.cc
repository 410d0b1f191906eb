// One measurement of shared memory, queues or processes, as one JSON object on stdout:
//   shm_bench NAME [--seconds S]

#include <ATen/Parallel.h>
#include <passel/shm_torch.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "measurements.h"

namespace {

struct Measurement {
  const char* unit;
  std::function<double(double seconds)> run;
};

const std::map<std::string, Measurement>& measurements() {
  using namespace bench;
  constexpr std::int64_t kKiB = 1024;
  constexpr int kDefaultSpins = passel::shm::Doorbell::kSpins;
  static const std::map<std::string, Measurement> all = {
      {"messages_64_p1", {"messages/s", [](double s) { return messages_per_second(64, 1, s); }}},
      {"messages_64_p2", {"messages/s", [](double s) { return messages_per_second(64, 2, s); }}},
      {"messages_64_p3", {"messages/s", [](double s) { return messages_per_second(64, 3, s); }}},
      {"messages_64_p4", {"messages/s", [](double s) { return messages_per_second(64, 4, s); }}},
      {"messages_128", {"messages/s", [](double s) { return messages_per_second(128, 1, s); }}},
      {"boost_mq_64", {"messages/s", boost_messages_per_second}},
      {"tensor_handles",
       {"handles/s", [](double s) { return tensor_handles_per_second(false, s); }}},
      {"tensor_handles_lent",
       {"handles/s", [](double s) { return tensor_handles_per_second(true, s); }}},
      {"round_trip", {"us", [](double s) { return round_trip_microseconds(kDefaultSpins, s); }}},
      {"round_trip_asleep", {"us", [](double s) { return round_trip_microseconds(0, s); }}},
      {"handover_1mib",
       {"GB/s", [](double s) { return handover_gigabytes_per_second(1024 * kKiB, s); }}},
      {"handover_64kib",
       {"GB/s", [](double s) { return handover_gigabytes_per_second(64 * kKiB, s); }}},
      {"local_1mib", {"GB/s", [](double s) { return local_gigabytes_per_second(1024 * kKiB, s); }}},
      {"local_64kib", {"GB/s", [](double s) { return local_gigabytes_per_second(64 * kKiB, s); }}},
      {"spawn_first_op", {"s", [](double) { return spawn_seconds(0); }}},
      {"spawn_first_op_4gib", {"s", [](double) { return spawn_seconds(4); }}},
      {"respawn", {"s", [](double) { return respawn_seconds(); }}},
  };
  return all;
}

int usage() {
  std::cerr << "usage: shm_bench NAME [--seconds S]\nNAME is one of:";
  for (const auto& [name, _] : measurements()) std::cerr << ' ' << name;
  std::cerr << '\n';
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  passel::init(argc, argv);
  at::set_num_threads(1);  // as the workers and the peers
  double seconds = 1;
  if (argc == 4 && std::strcmp(argv[2], "--seconds") == 0) {
    seconds = std::atof(argv[3]);
  } else if (argc != 2) {
    return usage();
  }
  const auto found = measurements().find(argv[1]);
  if (found == measurements().end() || seconds <= 0) return usage();
  try {
    const double value = found->second.run(seconds);
    std::cout << nlohmann::json{{"value", value}, {"unit", found->second.unit}} << '\n';
  } catch (const std::exception& error) {
    std::cerr << "shm_bench " << argv[1] << ": " << error.what() << '\n';
    return 1;
  }
  return 0;
}
