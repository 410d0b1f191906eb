#pragma once

#include "passel/train/checkpoint_store.h"
#include "passel/train/errors.h"

namespace passel::train {

/// A checkpoint of a Passel that came later than this one: sound, so never to be passed over.
class NewerFormat : public DataError {
 public:
  using DataError::DataError;
};

/// `metadata` with what checkpoint_info() reads.
Metadata with_checkpoint_info(Metadata metadata, const CheckpointInfo& info);

}  // namespace passel::train
