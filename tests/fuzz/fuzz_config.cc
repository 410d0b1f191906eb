// config.toml and the configuration in a checkpoint: any text is taken or refused with a sentence,
// and what is taken is written so that it is read the same.
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "fuzz_folder.h"
#include "passel/train/config.h"
#include "passel/train/errors.h"

namespace {

using namespace passel::train;
using passel::testing::check;

void check_round_trip(const Config& config) {
  validate(config);
  check(config_from_toml(to_toml(config), "again") == config);
  check(config_from_json(to_json(config)) == config);
  check(config_from_json(nlohmann::json::parse(to_json(config).dump())) == config);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    check_round_trip(config_from_toml(text, "config.toml"));
  } catch (const UsageError& error) {
    check(!std::string_view(error.what()).empty());
  }
  try {
    check_round_trip(config_from_json(nlohmann::json::parse(text, nullptr, false)));
  } catch (const UsageError& error) {
    check(!std::string_view(error.what()).empty());
  }
  return 0;
}
