#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "passel/shm/fork_guard.h"
#include "passel/shm_torch/exchange_queue.h"

namespace passel::shm {

/// How a record of plain data T and up to N tensors lies in a ring.
template <class T, int N>
struct RecordEntry {
  T data{};
  std::uint32_t count = 0;
  std::array<TensorHandle, N> tensors{};

  /// Never more than N, whatever was scribbled.
  [[nodiscard]] std::span<const TensorHandle> handles() const noexcept {
    return std::span(tensors).first(std::min<std::size_t>(count, N));
  }
};

/// The workings of RecordQueue and TensorQueue: one ring for each pair of a sender
/// and a reader.
template <class T, int N>
class RecordChannel final : public ExchangeQueue {
  static_assert(std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T>,
                "the plain data of a record must be trivially copyable");
  static_assert(N >= 0 && N <= 64, "a record can have 0 to 64 tensors");

  using Ring = SimpleQueue<RecordEntry<T, N>>;

 public:
  using Entry = RecordEntry<T, N>;

  /// In the parent, before the first spawn. The capacity is per sender and reader.
  static std::shared_ptr<RecordChannel> create(Arena& arena,
                                               std::shared_ptr<TensorExchange> exchange,
                                               const std::string& name, std::uint32_t capacity,
                                               Readers readers) {
    const ChunkTable& table = exchange->ledger().table();
    std::vector<Ring> rings;
    for (std::uint32_t reader = readers.first; reader < readers.first + readers.count; ++reader) {
      rings.push_back(Ring::create(arena, ring_name(name, reader),
                                   {.producers = table.processes(),
                                    .capacity = capacity,
                                    .bells = table.inboxes(),
                                    .consumer = reader}));
    }
    auto* const info = arena.construct<ChannelInfo>(name);
    info->readers = readers;
    info->type = typeid(T).hash_code();
    info->tensors = N;
    return std::make_shared<RecordChannel>(std::move(exchange), name, info, std::move(rings));
  }

  static std::shared_ptr<RecordChannel> open(std::shared_ptr<TensorExchange> exchange,
                                             const std::string& name) {
    const Arena& arena = *exchange->arena();
    auto* const info = arena.get<ChannelInfo>(name);
    if (info->type != typeid(T).hash_code() || info->tensors != N) refuse_type(name);
    const Readers readers = info->readers;
    std::vector<Ring> rings;
    for (std::uint32_t reader = readers.first; reader < readers.first + readers.count; ++reader) {
      rings.push_back(Ring::open(arena, ring_name(name, reader)));
    }
    return std::make_shared<RecordChannel>(std::move(exchange), name, info, std::move(rings));
  }

  RecordChannel(std::shared_ptr<TensorExchange> exchange, std::string name, ChannelInfo* info,
                std::vector<Ring> rings)
      : ExchangeQueue(std::move(exchange), std::move(name), info->readers),
        info_(info),
        rings_(std::move(rings)) {
    const std::uint32_t self = this->exchange().process();
    for (const Ring& ring : rings_) {
      outlets_.push_back(
          {ring.producer(self), this->exchange().ledger().add_lane(ring.popped(self))});
    }
    if (readers().include(self)) consumer_.emplace(rings_[self - readers().first].consumer());
  }

  /// kOk, kTimeout or kClosed.
  QueueStatus put(const T& data, std::span<const at::Tensor> tensors, Deadline deadline) {
    throw_if_forked();
    if (tensors.size() > N) refuse_count(tensors.size(), N);
    if (closed()) return QueueStatus::kClosed;
    Entry entry{.data = data, .count = static_cast<std::uint32_t>(tensors.size()), .tensors = {}};
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!convert(tensors[i], entry.tensors[i], deadline)) return QueueStatus::kTimeout;
    }
    QueueStatus status = try_send(entry);
    if (status != QueueStatus::kFull) return status;
    switch (wait([&] { return (status = try_send(entry)) != QueueStatus::kFull; }, deadline)) {
      case Wait::kReady:
        return status;
      case Wait::kTimeout:
        return QueueStatus::kTimeout;
      default:
        return QueueStatus::kClosed;
    }
  }

  /// kOk, kTimeout or kClosed.
  QueueStatus get(T& data, std::vector<at::Tensor>& tensors, Deadline deadline) {
    Entry entry;
    const QueueStatus status = receive(entry, deadline);
    if (status != QueueStatus::kOk) return status;
    data = entry.data;
    tensors.clear();
    for (const TensorHandle& handle : entry.handles()) {
      tensors.push_back(exchange().rebuild(handle));
    }
    return status;
  }

  /// Gets an entry whose handles are claimed: each is to be rebuilt or dropped.
  QueueStatus receive(Entry& entry, Deadline deadline) {
    throw_if_forked();
    check_reader();
    exchange().check_sharing();
    HandleStatus handles = HandleStatus::kOk;
    QueueStatus status = take(entry, handles);
    if (status == QueueStatus::kEmpty) {
      const Wait end =
          wait([&] { return (status = take(entry, handles)) != QueueStatus::kEmpty; }, deadline);
      if (end == Wait::kTimeout) return QueueStatus::kTimeout;
      if (end == Wait::kInterrupted) return QueueStatus::kClosed;
    }
    if (handles != HandleStatus::kOk) refuse_message(handles);
    return status;
  }

  void close() noexcept override {
    for (const Ring& ring : rings_) ring.close();
  }
  [[nodiscard]] bool closed() const noexcept override {
    return std::ranges::all_of(rings_, &Ring::closed);
  }
  [[nodiscard]] bool ready() noexcept override {
    const std::lock_guard lock(get_mutex_);
    return consumer_ && (!consumer_->empty() || (consumer_->closed() && all_taken()));
  }

  void adopt(std::uint32_t process) override {
    ChunkLedger& ledger = exchange().ledger();
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      const auto added = adopted_lanes_.try_emplace({i, process}, 0);
      std::uint32_t& lane = added.first->second;
      if (added.second) lane = ledger.add_lane(rings_[i].popped(process));
      rings_[i].for_each_undelivered(process, [&](const Entry& entry, std::uint64_t ticket) {
        for (const TensorHandle& handle : entry.handles()) {
          if (handle.chunk.id != TensorHandle::kNoChunk) {
            ledger.adopt(lane, ticket, handle.chunk);
          }
        }
      });
      rings_[i].reset_producer(process);
    }
  }

  void abandon(std::uint32_t process) override {
    if (!readers().include(process)) return;
    {
      const std::lock_guard lock(put_mutex_);
      outlets_[process - readers().first].abandoned = true;
    }
    rings_[process - readers().first].close();
    hand_on();
  }

  bool hand_on() override {
    collect_orphans();
    while (!orphans_.empty()) {
      const QueueStatus status = try_send(orphans_.front(), true);
      if (status == QueueStatus::kFull) return true;
      for (const TensorHandle& handle : orphans_.front().handles()) exchange().drop(handle);
      orphans_.pop_front();
      info_->orphans.fetch_sub(1);  // after the send, see all_taken()
    }
    return false;
  }

 private:
  struct Outlet {
    typename Ring::Producer producer;
    std::uint32_t lane;
    bool abandoned = false;  ///< its reader is gone for good
  };

  /// Also again later: who was about to put when the ring was closed may do it after that.
  void collect_orphans() {
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      if (!outlets_[i].abandoned) continue;
      auto consumer = rings_[i].consumer();
      Entry entry;
      HandleStatus handles = HandleStatus::kOk;
      const auto take_over = [&](const Entry& taken) {
        handles = claim(taken.handles());
        if (handles == HandleStatus::kOk) info_->orphans.fetch_add(1);  // before it leaves the ring
      };
      while (consumer.try_get(entry, take_over) == QueueStatus::kOk) {
        if (handles == HandleStatus::kOk) orphans_.push_back(entry);
      }
    }
  }

  bool convert(const at::Tensor& tensor, TensorHandle& handle, Deadline deadline) {
    try {
      if (!exchange().share(tensor, deadline)) return false;
      handle = exchange().handle(tensor);
      return true;
    } catch (const Stopped&) {
      throw;
    } catch (const Error& error) {
      refuse_tensor(error);
    }
  }

  static std::string ring_name(const std::string& name, std::uint32_t reader) {
    return name + "/" + std::to_string(reader);
  }

  /// kOk, kFull or kClosed. Sends to the reader for whom the fewest wait.
  /// @param late also into a closed queue
  QueueStatus try_send(const Entry& entry, bool late = false) {
    const std::lock_guard lock(put_mutex_);
    Outlet* best = nullptr;
    std::uint64_t fewest = 0;
    for (Outlet& outlet : outlets_) {
      if (outlet.abandoned || (outlet.producer.closed() && !late)) continue;
      const std::uint64_t waiting =
          outlets_.size() == 1 ? 0 : outlet.producer.pushed() - outlet.producer.popped();
      if (best != nullptr && waiting >= fewest) continue;
      best = &outlet;
      fewest = waiting;
    }
    if (best == nullptr) return QueueStatus::kClosed;
    const std::uint64_t ticket = best->producer.pushed();
    const QueueStatus status =
        late ? best->producer.try_put_late(entry) : best->producer.try_put(entry);
    if (status != QueueStatus::kOk) return status;
    for (const TensorHandle& handle : entry.handles()) {
      if (handle.chunk.id != TensorHandle::kNoChunk) {
        exchange().ledger().sent(best->lane, ticket, handle.chunk.id);
      }
    }
    return status;
  }

  QueueStatus take(Entry& entry, HandleStatus& handles) {
    const std::lock_guard lock(get_mutex_);
    const QueueStatus status =
        consumer_->try_get(entry, [&](const Entry& taken) { handles = claim(taken.handles()); });
    return status == QueueStatus::kClosed && !all_taken() ? QueueStatus::kEmpty : status;
  }

  /// For a reader of a closed queue: nothing can come to it any more. What waits for another
  /// reader may, if that one dies: from its ring through the parent's hands into a ring again.
  /// Looked for along that way, twice at its end, a message is missed nowhere.
  [[nodiscard]] bool all_taken() const noexcept {
    const auto drained = [&] { return std::ranges::all_of(rings_, &Ring::drained); };
    return rings_.size() == 1 || (drained() && info_->orphans.load() == 0 && drained());
  }

  ChannelInfo* info_;        // in the arena
  std::vector<Ring> rings_;  // [readers]

  std::mutex put_mutex_;  // guards
  std::vector<Outlet> outlets_;

  std::mutex get_mutex_;  // guards
  std::optional<typename Ring::Consumer> consumer_;

  // Of the parent's thread that deals with deaths.
  std::map<std::pair<std::size_t, std::uint32_t>, std::uint32_t> adopted_lanes_;
  std::deque<Entry> orphans_;  // claimed, waiting for room at another reader
};

}  // namespace passel::shm
