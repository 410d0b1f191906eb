#include "passel/shm/arena.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <boost/interprocess/managed_external_buffer.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <cerrno>
#include <limits>
#include <optional>
#include <random>
#include <string>

#include "build_id.h"
#include "file_descriptor.h"
#include "passel/shm/error.h"
#include "passel/shm/fork_guard.h"
#include "passel/shm/memory_limit.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3, newer than the C library's headers
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14, likewise
#endif

namespace passel::shm {
namespace {

namespace bi = boost::interprocess;

constexpr std::uint64_t kMagic = 0x616e6572'416c5050;  // "PPlArena"
constexpr std::uint32_t kLayoutVersion = 1;
constexpr std::uint64_t kDirectoryOffset = 4096;
constexpr std::uint64_t kDirectoryBytes = std::uint64_t{252} * 1024;  // some 2000 names
constexpr std::uint64_t kHeadBytes = kDirectoryOffset + kDirectoryBytes;
// Boost.Interprocess counts a name's characters in 16 bits, and 252 KiB are for all names together.
constexpr std::size_t kLongestName = 255;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

/// The first bytes of every arena.
struct Header {
  std::uint64_t magic;
  std::uint32_t layout_version;
  std::uint32_t id;
  std::uint64_t size;
  BuildId build;
};

/// What mapped_region asks of a thing to be mapped.
struct MappableFd {
  int fd;
  [[nodiscard]] bi::mapping_handle_t get_mapping_handle() const {
    return {.handle = fd, .is_xsi = false};
  }
};

std::uint64_t page_size() {
  return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

std::string bytes_text(std::uint64_t bytes) {
  return std::to_string(bytes) + " bytes";
}

void check_available(const std::string& operation, std::uint64_t wanted) {
  const std::uint64_t available = available_memory();
  if (wanted <= available) return;
  throw Error(operation, ENOMEM,
              "Wanted " + bytes_text(wanted) + ", but the machine or the memory cgroup has " +
                  bytes_text(available) + " left: ask for less or free some");
}

FileDescriptor create_file(const std::string& name, std::uint64_t size) {
  const std::string operation = "create a shared memory file of " + bytes_text(size);
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  FileDescriptor file(::memfd_create(name.c_str(), kFlags | MFD_NOEXEC_SEAL));
  if (!file && errno == EINVAL) file = FileDescriptor(::memfd_create(name.c_str(), kFlags));
  if (!file) throw Error(operation, errno, "memfd_create failed for '" + name + "'");
  if (::ftruncate(file.get(), static_cast<off_t>(size)) != 0) {
    throw Error(operation, errno,
                errno == EFBIG
                    ? "The limit of the size of files holds for shared memory, too: raise "
                      "it with `ulimit -f`"
                    : "ftruncate failed");
  }
  if (::fcntl(file.get(), F_ADD_SEALS, kSeals) != 0) {
    throw Error(operation, errno, "The file could not be sealed against a change of size");
  }
  return file;
}

/// Takes the pages of a range now, so that running out is an error code here and not SIGBUS later.
int take_pages(int fd, std::byte* data, std::uint64_t offset, std::uint64_t bytes) noexcept {
  const std::uint64_t first = offset / page_size() * page_size();
  const std::uint64_t length = round_up(offset + bytes, page_size()) - first;
  if (::madvise(data + first, length, MADV_POPULATE_WRITE) == 0) return 0;
  if (errno != EINVAL) return errno;  // else a kernel before 5.14
  return ::fallocate(fd, 0, static_cast<off_t>(first), static_cast<off_t>(length)) == 0 ? 0 : errno;
}

void check_taken(int code, const std::string& operation, std::uint64_t bytes) {
  if (code == 0) return;
  throw Error(operation, code, "The system could not give " + bytes_text(bytes));
}

void check_header(const Header& header, std::uint64_t file_size) {
  const auto refuse = [](const std::string& why) { throw Error("attach to an arena", 0, why); };
  if (header.magic != kMagic) refuse("Its magic number is wrong: the descriptor is no arena");
  if (header.layout_version != kLayoutVersion) {
    refuse("It has layout version " + std::to_string(header.layout_version) +
           ", this program has version " + std::to_string(kLayoutVersion) +
           ": run parent and workers from one build");
  }
  if (header.size != file_size) {
    refuse("It says it has " + bytes_text(header.size) + ", but its file has " +
           bytes_text(file_size) + ": the memory was damaged");
  }
  if (header.build != build_id()) {
    refuse("It was laid out by another build: run parent and workers from one executable");
  }
}

}  // namespace

struct Arena::Mapping {
  Mapping(FileDescriptor descriptor, std::uint64_t bytes)
      : file(std::move(descriptor)), region(MappableFd{file.get()}, bi::read_write, 0, bytes) {}

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(region.get_address()); }

  FileDescriptor file;
  bi::mapped_region region;
  std::optional<bi::managed_external_buffer> directory;  ///< locks nothing
  std::uint64_t used = kHeadBytes;                       ///< only the creator adds blocks
  bool frozen = false;
};

Arena::Arena(std::unique_ptr<Mapping> mapping) noexcept
    : mapping_(std::move(mapping)), data_(mapping_->data()), size_(mapping_->region.get_size()) {}

Arena::Arena(Arena&& other) noexcept
    : mapping_(std::move(other.mapping_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Arena::~Arena() = default;

Arena Arena::create(std::string_view name, std::size_t capacity) {
  throw_if_forked();
  const std::string operation =
      "create arena '" + std::string(name) + "' of " + bytes_text(capacity);
  if (capacity == 0 || capacity > std::numeric_limits<std::int64_t>::max() / 2) {
    throw Error(operation, 0, "Expected a capacity of 1 byte or more that memory can have");
  }
  const std::uint64_t size = round_up(kHeadBytes + capacity, page_size());
  check_available(operation, size);
  try {
    auto mapping = std::make_unique<Mapping>(create_file(std::string(name), size), size);
    check_taken(take_pages(mapping->file.get(), mapping->data(), 0, kHeadBytes), operation,
                kHeadBytes);
    mapping->directory.emplace(bi::create_only, mapping->data() + kDirectoryOffset,
                               kDirectoryBytes);
    new (mapping->data()) Header{.magic = kMagic,
                                 .layout_version = kLayoutVersion,
                                 .id = std::random_device()() | 1U,
                                 .size = size,
                                 .build = build_id()};
    return Arena(std::move(mapping));
  } catch (const bi::interprocess_exception& failure) {
    throw Error(operation, failure.get_native_error(), "The memory could not be mapped");
  }
}

Arena Arena::attach(int fd) {
  FileDescriptor file(fd);
  throw_if_forked();
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    throw Error("attach to the arena of descriptor " + std::to_string(fd), errno);
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (size < kHeadBytes || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    throw Error("attach to an arena", 0,
                "Descriptor " + std::to_string(fd) +
                    " is no memory file sealed against shrinking "
                    "of at least " +
                    bytes_text(kHeadBytes) + ": pass the fd() of an arena");
  }
  try {
    auto mapping = std::make_unique<Mapping>(std::move(file), size);
    check_header(*std::launder(reinterpret_cast<const Header*>(mapping->data())), size);
    mapping->directory.emplace(bi::open_only, mapping->data() + kDirectoryOffset, kDirectoryBytes);
    mapping->frozen = true;
    return Arena(std::move(mapping));
  } catch (const bi::interprocess_exception& failure) {
    throw Error("attach to an arena", failure.get_native_error(), "It could not be mapped");
  }
}

Block Arena::add(std::string_view name, std::size_t bytes, std::size_t align) {
  return place(name, bytes, align, true);
}

Block Arena::reserve(std::string_view name, std::size_t bytes, std::size_t align) {
  return place(name, bytes, align, false);
}

int Arena::populate(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  return take_pages(mapping_->file.get(), data_, offset, bytes);
}

Block Arena::place(std::string_view name, std::size_t bytes, std::size_t align, bool take_memory) {
  throw_if_forked();
  const std::string operation =
      "add block '" + std::string(name.substr(0, std::min(kLongestName, name.find('\0')))) +
      "' of " + bytes_text(bytes);
  if (name.size() > kLongestName || name.find('\0') != std::string_view::npos) {
    throw Error(operation, 0,
                "Expected a name of at most " + std::to_string(kLongestName) +
                    " characters, none of them zero; got one of " + std::to_string(name.size()));
  }
  if (mapping_->frozen) {
    throw Error(operation, 0, "The arena is frozen: add every block before the first spawn");
  }
  if (name.empty() || bytes == 0 || !std::has_single_bit(align) || align > page_size()) {
    throw Error(operation, 0,
                "Expected a name, at least 1 byte, and for an alignment a power of two of at most "
                "a page; got alignment " +
                    std::to_string(align));
  }
  if (contains(name)) throw Error(operation, EEXIST, "Names are unique in an arena");
  const std::uint64_t offset = round_up(mapping_->used, std::max(align, kBlockAlign));
  if (offset > size_ || bytes > size_ - offset) {
    throw Error(operation, ENOSPC,
                "The arena has " + bytes_text(size_ - std::min<std::uint64_t>(offset, size_)) +
                    " left: create it with a larger capacity");
  }
  if (take_memory) {
    check_available(operation, bytes);
    check_taken(populate(offset, bytes), operation, bytes);
  }
  try {
    mapping_->directory->construct<Block>(std::string(name).c_str())(Block{offset, bytes});
  } catch (const bi::interprocess_exception&) {
    throw Error(operation, ENOSPC, "The arena's directory is full: use fewer names");
  }
  mapping_->used = offset + bytes;
  return {offset, bytes};
}

bool Arena::contains(std::string_view name) const {
  return name.size() <= kLongestName &&
         mapping_->directory->find<Block>(std::string(name).c_str()).first != nullptr;
}

Block Arena::find(std::string_view name) const {
  throw_if_forked();
  const Block* const block = mapping_->directory->find<Block>(std::string(name).c_str()).first;
  if (block == nullptr) {
    throw Error("find block '" + std::string(name) + "'", ENOENT,
                "The arena has no block of this name: the parent adds it before the first spawn");
  }
  if (at(block->offset, block->bytes) == nullptr) {
    throw Error("find block '" + std::string(name) + "'", 0,
                "The directory names a range outside the arena: the memory was damaged");
  }
  return *block;
}

std::uint32_t Arena::id() const noexcept {
  return std::launder(reinterpret_cast<const Header*>(data_))->id;
}

int Arena::fd() const noexcept {
  return mapping_->file.get();
}
void Arena::freeze() noexcept {
  mapping_->frozen = true;
}
bool Arena::frozen() const noexcept {
  return mapping_->frozen;
}

void Arena::check_count(std::string_view name, std::size_t count, std::size_t element) {
  if (count != 0 && count <= std::numeric_limits<std::int64_t>::max() / element) return;
  throw Error("construct array '" + std::string(name) + "' of " + std::to_string(count), 0,
              "Expected at least 1 element and no more than memory can have");
}

void Arena::check_size(std::string_view name, Block block, std::size_t element, bool exact) {
  const bool fits = exact ? block.bytes == element : block.bytes % element == 0;
  if (fits && block.offset % kBlockAlign == 0) return;
  throw Error("get '" + std::string(name) + "' as elements of " + bytes_text(element), 0,
              "The block has " + bytes_text(block.bytes) +
                  ": read it with the type it was constructed with");
}

}  // namespace passel::shm
