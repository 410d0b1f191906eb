#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <vector>

#include "passel/shm/arena.h"
#include "passel/shm_torch/named_tensors.h"
#include "passel/shm_torch/tensor_exchange.h"

namespace passel::shm {

/// Named groups of tensors that live in the arena for the whole run: a tensor, a
/// list or dict of them, or the parameters and buffers of a module.
///
/// Moves the storage of each tensor into the arena, in the block `group`, as
/// Module.share_memory() does in Python: the tensors stay the same objects, those
/// that shared a storage still do, and requires_grad is kept. For the parent,
/// before the first spawn.
/// @throws Error for equal names, and for tensors that cannot be sent
void share_group(Arena& arena, TensorExchange& exchange, const std::string& group,
                 std::span<const NamedTensor> tensors);

/// The tensors of a group, over this process's mapping.
std::vector<NamedTensor> open_group(TensorExchange& exchange, const std::string& group);

}  // namespace passel::shm
