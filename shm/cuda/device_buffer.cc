#include "passel/shm_cuda/device_buffer.h"

#include <utility>

#include "passel/shm_cuda/device_exchange.h"

namespace passel::shm {

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept {
  *this = std::move(other);
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this == &other) return *this;
  reset();
  exchange_ = std::move(other.exchange_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  stream_ = other.stream_;
  chunk_ = other.chunk_;
  received_ = other.received_;
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  reset();
}

void DeviceBuffer::reset() noexcept {
  if (exchange_ == nullptr) return;
  exchange_->release(*this);
  exchange_.reset();
  data_ = nullptr;
  bytes_ = 0;
}

}  // namespace passel::shm
