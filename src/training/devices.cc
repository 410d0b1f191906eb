#include "passel/train/devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>

#include "passel/train/device_list.h"
#include "passel/train/errors.h"

namespace passel::train {
namespace {

// Where the control daemon of MPS listens unless it is told otherwise.
constexpr const char* kMpsPipes = "/tmp/nvidia-mps";

bool runs_mps() {
  std::error_code unknown;
  return std::getenv("CUDA_MPS_PIPE_DIRECTORY") != nullptr ||
         std::filesystem::exists(kMpsPipes, unknown);
}

device::GpuReport probe(int ordinal, const std::string& device) {
  try {
    return device::gpus().probe(ordinal);
  } catch (const device::NoGpu& error) {
    throw UsageError(
        fmt::format("device: expected a GPU to compute on for {}, found none for number {}: {}. "
                    "train and resume compute on the CPU with --device cpu.",
                    device, ordinal, error.what()));
  }
}

}  // namespace

Devices::Devices(const Config& config) : ordinals_(device_list(config.device).value()) {
  for (const int ordinal : ordinals_) reports_.push_back(probe(ordinal, config.device));
  shared_ = reports_.size() == 1 && reports_[0].shares && !config.no_cuda_ipc;
  if (config.atomic_adds && !shared_) {
    throw UsageError(fmt::format(
        "atomic_adds: expected false where the parameters are in the memory of the host, got true: "
        "{}. Leave it out.",
        reports_[0].findings));
  }
}

std::shared_ptr<device::BlockMemory> Devices::lay_out(shm::Arena& arena, const Config& config,
                                                      std::size_t block_bytes) const {
  if (ordinals_.empty()) return nullptr;
  return device::gpus().lay_out(arena, {.ordinals = ordinals_,
                                        .workers = static_cast<std::uint32_t>(config.workers),
                                        .block_bytes = on_gpu() ? block_bytes : 0,
                                        .atomic_adds = config.atomic_adds,
                                        .deterministic = config.mode != "hogwild"});
}

std::vector<std::string> Devices::names() const {
  std::vector<std::string> names;
  for (const auto& report : reports_) names.push_back(report.name);
  return names;
}

std::string Devices::placement(const Config& config) const {
  if (on_gpu()) return "the parameters are on it";
  const std::string_view reason = config.no_cuda_ipc    ? "as --no-cuda-ipc asks for"
                                  : reports_.size() > 1 ? "as there are several devices"
                                                        : std::string_view(reports_[0].findings);
  return fmt::format("the parameters are in the memory of the host and are copied: {}", reason);
}

std::vector<std::string> Devices::notes(const Config& config) const {
  std::vector<std::string> notes;
  if (ordinals_.empty()) return notes;
  notes.push_back(fmt::format("computes on {}; {}", fmt::join(names(), ", "), placement(config)));
  const auto devices = static_cast<std::int64_t>(ordinals_.size());
  if (config.workers < devices) {
    notes.push_back(fmt::format("{} of them have no worker: --workers-per-device 1 gives each one",
                                devices - config.workers));
  }
  if (config.workers > devices && !runs_mps()) {
    notes.push_back(
        fmt::format("{} workers share {}: without MPS they take turns. nvidia-cuda-mps-control -d "
                    "starts it, and lets them compute at the same time",
                    config.workers, devices == 1 ? "a GPU" : fmt::format("{} GPUs", devices)));
  }
  return notes;
}

}  // namespace passel::train
