#include "passel/train/streams.h"

#include <string>

#include "passel/train/errors.h"

namespace passel::train {

Streams::Streams(const Dataset& dataset, Split split, std::int64_t lanes, std::int64_t rows)
    : dataset_(dataset),
      split_(split),
      lanes_(lanes),
      rows_(rows),
      windows_(dataset.size(split) / rows / lanes) {
  if (windows_ > 0) return;
  throw UsageError("expected at most as many streams as the " +
                   std::to_string(dataset.size(split)) + " windows of the data set, got " +
                   std::to_string(lanes) + " lanes of " + std::to_string(rows) +
                   ". Use a smaller --batch-size or fewer --lanes");
}

void Streams::indices(std::int64_t batch, std::vector<std::int64_t>& out) {
  find_starts();
  out.clear();
  for (std::int64_t row = 0; row < rows_; ++row) out.push_back(window(batch, row));
}

void Streams::fresh(std::int64_t batch, std::span<bool> fresh) {
  find_starts();
  const bool begin = batch < lanes_;
  for (std::int64_t row = 0; row < rows_; ++row) {
    fresh[static_cast<std::size_t>(row)] =
        begin || dataset_.begins_document(split_, window(batch, row));
  }
}

std::int64_t Streams::window(std::int64_t batch, std::int64_t row) const noexcept {
  const std::int64_t stream = batch % lanes_ * rows_ + row;
  return (starts_[static_cast<std::size_t>(stream)] + batch / lanes_) % dataset_.size(split_);
}

// Where no document begins before the next cut, the stream begins at its own.
void Streams::find_starts() {
  if (!starts_.empty()) return;
  for (std::int64_t stream = 0; stream < lanes_ * rows_; ++stream) {
    const std::int64_t cut = stream * windows_;
    std::int64_t start = cut;
    while (start < cut + windows_ && !dataset_.begins_document(split_, start)) ++start;
    starts_.push_back(start < cut + windows_ ? start : cut);
  }
}

}  // namespace passel::train
