#include "passel/shm_torch/shared_tensors.h"

#include <cstring>
#include <map>
#include <set>

namespace passel::shm {
namespace {

constexpr std::size_t kAlign = 64;

// A tensor of a group as the arena keeps it: its handle, and where its name
// stands in the block of names.
struct Member {
  TensorHandle handle;
  std::uint32_t name_begin = 0;
  std::uint32_t name_length = 0;
};

std::size_t round_up(std::size_t bytes) {
  return (bytes + kAlign - 1) / kAlign * kAlign;
}

std::string members_name(const std::string& group) {
  return group + "/members";
}
std::string names_name(const std::string& group) {
  return group + "/names";
}

// Where each storage is to lie in the group's block; tensors that share one keep
// sharing it.
std::map<c10::StorageImpl*, std::size_t> lay_out(std::span<const NamedTensor> tensors,
                                                 std::size_t& total) {
  std::map<c10::StorageImpl*, std::size_t> offsets;
  for (const auto& [name, tensor] : tensors) {
    c10::StorageImpl* const storage = tensor.storage().unsafeGetStorageImpl();
    if (storage->nbytes() == 0 || !offsets.try_emplace(storage, total).second) continue;
    total += round_up(storage->nbytes());
  }
  return offsets;
}

void check_tensor(const Arena& arena, TensorExchange& exchange, const std::string& group,
                  const NamedTensor& named) {
  try {
    (void)describe(arena, named.second);
    exchange.check_private(named.second);
  } catch (const Error& error) {
    throw Error("share '" + group + "': its tensor '" + named.first + "'", 0, error.hint());
  }
}

void check_tensors(const Arena& arena, TensorExchange& exchange, const std::string& group,
                   std::span<const NamedTensor> tensors) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    check_tensor(arena, exchange, group, {name, tensor});
    if (!names.insert(name).second) {
      throw Error("share '" + group + "'", 0, "Two of its tensors are named '" + name + "'");
    }
    if (tensor.numel() > 0 && exchange.shared(tensor)) {
      throw Error("share '" + group + "'", 0,
                  "'" + name + "' is in shared memory already, under another name");
    }
  }
  if (tensors.empty()) throw Error("share '" + group + "'", 0, "It has no tensors");
}

}  // namespace

void share_group(Arena& arena, TensorExchange& exchange, const std::string& group,
                 std::span<const NamedTensor> tensors) {
  check_tensors(arena, exchange, group, tensors);
  std::size_t total = 0;
  const auto offsets = lay_out(tensors, total);
  const std::span<std::byte> block = arena.bytes(arena.add(group, std::max<std::size_t>(total, 1)));
  for (const auto& [storage, offset] : offsets) {
    std::byte* const data = block.data() + offset;
    std::memcpy(data, storage->data(), storage->nbytes());
    storage->set_data_ptr(exchange.permanent(data));
    storage->set_resizable(false);
  }
  std::string names;
  const auto members = arena.construct_array<Member>(members_name(group), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    members[i] = {exchange.handle(tensors[i].second), static_cast<std::uint32_t>(names.size()),
                  static_cast<std::uint32_t>(tensors[i].first.size())};
    names += tensors[i].first;
  }
  const auto text = arena.construct_array<char>(names_name(group), names.size() + 1);
  std::memcpy(text.data(), names.data(), names.size());
}

std::vector<NamedTensor> open_group(TensorExchange& exchange, const std::string& group) {
  const Arena& arena = *exchange.arena();
  const auto members = arena.get_array<Member>(members_name(group));
  const auto names = arena.get_array<char>(names_name(group));
  std::vector<NamedTensor> result;
  for (const Member& member : members) {
    if (exchange.claim(member.handle) != HandleStatus::kOk ||
        std::size_t{member.name_begin} + member.name_length > names.size()) {
      throw Error("open the shared tensors '" + group + "'", 0, "Their description is damaged");
    }
    result.emplace_back(std::string(names.data() + member.name_begin, member.name_length),
                        exchange.rebuild(member.handle));
  }
  return result;
}

}  // namespace passel::shm
