// manifest.json of a run that is resumed: whatever is there, the new one is whole, and an earlier
// one that was whole is kept in it.
#include <nlohmann/json.hpp>
#include <string>

#include "fuzz_folder.h"
#include "passel/train/manifest.h"

namespace {

using namespace passel::train;
using nlohmann::json;
using passel::testing::check;
using passel::testing::read_file;

const passel::testing::FuzzFolder folder;
const std::filesystem::path path = folder / "manifest.json";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  passel::testing::write_file(path, text);
  Manifest manifest(path, {"passel", text}, 7, "2.11.0");
  check(manifest.finish(text, 0));

  const json written = json::parse(read_file(path));
  check(written.at("seed") == 7 && written.at("exit").at("code") == 0);
  json before = json::parse(text, nullptr, false);
  if (!before.is_object()) {
    check(!written.contains("previous"));
    return 0;
  }
  const json& previous = written.at("previous");
  const json earlier = before.value("previous", json::array());
  check(previous.size() == 1 + (earlier.is_array() ? earlier.size() : 0));
  before.erase("previous");
  check(previous.back() == before);
  return 0;
}
