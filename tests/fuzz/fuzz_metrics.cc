// metrics.jsonl as a resume cuts it and as verify reads it: any bytes are taken, what is kept is
// what was there, and a cut keeps exactly the checkpoints up to its ticket.
#include <fuzzer/FuzzedDataProvider.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "fuzz_folder.h"
#include "passel/train/checkpoint_hashes.h"
#include "passel/train/metrics_log.h"

namespace {

using namespace passel::train;
using nlohmann::json;
using passel::testing::check;
using passel::testing::read_file;

const passel::testing::FuzzFolder folder;
const std::filesystem::path path = folder / "metrics.jsonl";

void check_line(const std::string& line, std::int64_t ticket) {
  const json event = json::parse(line, nullptr, false);
  check(event.is_object() && event.contains("event") && event["event"] != "summary");
  for (const char* name : {"train", "eval", "checkpoint"}) {
    if (event["event"] != name) continue;
    check(event.at("ticket").is_number_integer());
    check(std::stold(event["ticket"].dump()) <= static_cast<long double>(ticket));
  }
}

void check_cut(const std::string& before, const std::string& after, std::int64_t ticket) {
  check(after.empty() || after.back() == '\n');
  std::istringstream original(before);
  std::istringstream kept(after);
  std::string candidate;
  for (std::string line; std::getline(kept, line);) {
    check_line(line, ticket);
    do {
      check(static_cast<bool>(std::getline(original, candidate)));
    } while (candidate != line);
  }
}

bool same(const HashHistory& a, const HashHistory& b) {
  return a.size() == b.size() && !first_difference(a, b) && !first_difference(b, a);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  const auto ticket = input.ConsumeIntegral<std::int64_t>();
  passel::testing::write_file(path, input.ConsumeRemainingBytesAsString());
  read_hashes(path);

  MetricsLog log(path);
  const std::string whole_lines = read_file(path);
  HashHistory expected = read_hashes(path);
  std::erase_if(expected, [&](const auto& entry) { return entry.first > ticket; });
  log.truncate_after(ticket);
  const std::string cut = read_file(path);
  check_cut(whole_lines, cut, ticket);
  check(same(read_hashes(path), expected));

  log.checkpoint({.ticket = 5, .param_hash = "a", .tensors = {{"w", "b"}}});
  check(!log.take_error());
  const HashHistory more = read_hashes(path);
  check(more.contains(5) && more.at(5).parameters == "a");
  return 0;
}
