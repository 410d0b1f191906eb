#include "passel/tensorboard/tf_record.h"

#include <array>
#include <boost/crc.hpp>
#include <boost/endian/conversion.hpp>
#include <cstring>

namespace passel::tensorboard {
namespace {

// A CRC stored beside data that holds CRCs itself would be a weak check, so the
// format rotates it and adds a constant.
std::uint32_t masked(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

template <typename Number>
void append_little(std::string& out, Number number) {
  const Number little = boost::endian::native_to_little(number);
  std::array<char, sizeof little> bytes;
  std::memcpy(bytes.data(), &little, sizeof little);
  out.append(bytes.data(), bytes.size());
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

std::string tf_record(std::string_view data) {
  std::string record;
  record.reserve(data.size() + 16);
  append_little(record, std::uint64_t{data.size()});
  append_little(record, masked(crc32c(record)));
  record += data;
  append_little(record, masked(crc32c(data)));
  return record;
}

}  // namespace passel::tensorboard
