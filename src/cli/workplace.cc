#include "workplace.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

#include "passel/train/errors.h"

namespace passel::train {

namespace fs = std::filesystem;

Workplace::Workplace(const RunFolder& folder) {
  sweep(folder.root());
  std::string name = folder.root() / (std::string(kPrefix) + "XXXXXX");
  if (mkdtemp(name.data()) == nullptr) {
    throw UsageError(
        fmt::format("{}: expected room for a repetition of the run, got: {}. Make room there, or "
                    "copy the run to where it can be written",
                    folder.root().string(), std::strerror(errno)));
  }
  path_ = name;
}

Workplace::~Workplace() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(path_, ignored);
}

void Workplace::keep() {
  kept_ = true;
  const fs::path name = path_.parent_path() / path_.filename().string().substr(1);
  std::error_code error;
  fs::rename(path_, name, error);
  if (!error) path_ = name;
}

void Workplace::sweep(const fs::path& root) {
  std::error_code error;
  for (fs::directory_iterator entry(root, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->path().filename().string().starts_with(kPrefix)) {
      fs::remove_all(entry->path(), ignored);
    }
  }
}

}  // namespace passel::train
