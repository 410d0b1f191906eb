#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>

namespace passel::shm {

/// A named range of an arena. Offsets mean the same in every process; addresses do not.
struct Block {
  std::uint64_t offset;
  std::uint64_t bytes;
};

/// One anonymous memory file mapped by the parent and by all its workers.
///
/// The parent creates it, adds every block and then spawns; from the first spawn on the layout is
/// frozen and the directory is only read, so it needs no lock that a killed process could hold.
/// The memory has no name anywhere and is gone with the last process that maps it.
///
/// Threads: set-up (create, add, construct, freeze) from one thread of the parent; all const
/// members from any thread of any process. A moved-from arena may only be destroyed or assigned.
class Arena {
 public:
  /// Blocks start on borders of two cache lines: adjacent-line prefetch pulls lines in pairs.
  static constexpr std::size_t kBlockAlign = 128;

  /// @param name shows in /proc/PID/maps only
  /// @param capacity bytes for all blocks together, rounded up to whole pages. The file is sparse:
  ///   memory is taken by add().
  /// @throws Error naming the bytes when the machine or the memory cgroup has less than `capacity`
  static Arena create(std::string_view name, std::size_t capacity);

  /// Maps the arena behind `fd` and takes ownership of `fd`, also when it throws.
  /// @throws Error when it is not an arena, is not sealed against shrinking, or was laid out by
  ///   another version or another build of the program
  static Arena attach(int fd);

  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&& other) noexcept;
  ~Arena();

  /// Reserves a zeroed range and touches its pages, so that a later access cannot meet SIGBUS.
  /// @param align a power of two of at most a page
  /// @throws Error when the name is taken, the arena is frozen or full, or memory is exhausted
  Block add(std::string_view name, std::size_t bytes, std::size_t align = kBlockAlign);

  /// Reserves a zeroed range that takes no memory yet: populate() what is to be touched first.
  /// @throws Error as add()
  Block reserve(std::string_view name, std::size_t bytes, std::size_t align = kBlockAlign);

  /// Takes the memory of a range, so that a later access cannot meet SIGBUS. Any process.
  /// @return 0, or the errno value with which the system refused
  [[nodiscard]] int populate(std::uint64_t offset, std::uint64_t bytes) const noexcept;

  /// @throws Error naming what was looked for
  [[nodiscard]] Block find(std::string_view name) const;

  [[nodiscard]] bool contains(std::string_view name) const;

  /// Adds a block and puts a value-initialised T into it.
  template <class T>
  T* construct(std::string_view name) {
    return construct_array<T>(name, 1).data();
  }

  /// Adds a block and puts `count` value-initialised T into it.
  template <class T>
  std::span<T> construct_array(std::string_view name, std::size_t count) {
    check_type<T>();
    check_count(name, count, sizeof(T));
    const Block block = add(name, count * sizeof(T), std::max(alignof(T), kBlockAlign));
    T* const first = std::launder(reinterpret_cast<T*>(data_ + block.offset));
    for (std::size_t i = 0; i < count; ++i) new (first + i) T();
    return {first, count};
  }

  /// The T that the parent constructed under `name`.
  /// @throws Error when there is none or its size is another
  template <class T>
  [[nodiscard]] T* get(std::string_view name) const {
    check_type<T>();
    const Block block = find(name);
    check_size(name, block, sizeof(T), true);
    return std::launder(reinterpret_cast<T*>(data_ + block.offset));
  }

  /// The array that the parent constructed under `name`.
  /// @throws Error when there is none or its size is not a multiple of T's
  template <class T>
  [[nodiscard]] std::span<T> get_array(std::string_view name) const {
    check_type<T>();
    const Block block = find(name);
    check_size(name, block, sizeof(T), false);
    return {std::launder(reinterpret_cast<T*>(data_ + block.offset)), block.bytes / sizeof(T)};
  }

  /// The address of a range that came from elsewhere; nullptr when it does not lie in the arena.
  [[nodiscard]] std::byte* at(std::uint64_t offset, std::uint64_t bytes) const noexcept {
    return offset <= size_ && bytes <= size_ - offset ? data_ + offset : nullptr;
  }

  /// The bytes of a block of this arena; empty when it does not lie in the arena.
  [[nodiscard]] std::span<std::byte> bytes(Block block) const noexcept {
    std::byte* const first = at(block.offset, block.bytes);
    return first ? std::span(first, block.bytes) : std::span<std::byte>();
  }

  /// Tells this arena from others in handles that name it; never 0.
  [[nodiscard]] std::uint32_t id() const noexcept;
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  /// The whole mapping in bytes, directory included.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Stays the arena's; close-on-exec.
  [[nodiscard]] int fd() const noexcept;

  /// Ends set-up: add() throws from now on. Spawning calls it.
  void freeze() noexcept;
  [[nodiscard]] bool frozen() const noexcept;

 private:
  struct Mapping;
  explicit Arena(std::unique_ptr<Mapping> mapping) noexcept;
  Block place(std::string_view name, std::size_t bytes, std::size_t align, bool take_memory);

  template <class T>
  static constexpr void check_type() {
    // A process that is killed runs no destructor, so nothing here may need one.
    static_assert(std::is_trivially_destructible_v<T>);
  }
  static void check_count(std::string_view name, std::size_t count, std::size_t element);
  static void check_size(std::string_view name, Block block, std::size_t element, bool exact);

  std::unique_ptr<Mapping> mapping_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace passel::shm
