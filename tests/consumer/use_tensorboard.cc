#include <passel/tensorboard/event_file.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

// Begins an event file in a folder of its own through the installed library.
int main() {
  char folder[] = "/tmp/passel-consumer-XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  bool right = false;
  {
    passel::tensorboard::EventFile events(folder);
    const auto before = std::filesystem::file_size(events.path());
    events.scalars(1, {{"loss", 0.5}});
    right = std::filesystem::file_size(events.path()) > before && !events.take_error();
  }
  std::filesystem::remove_all(folder);
  std::printf("%s\n", right ? "ok" : "wrong");
  return right ? 0 : 1;
}
