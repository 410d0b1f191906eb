#pragma once

#include <string>

namespace passel::train {

/// 16 hex digits over the results of a small training run: initialisation, cell, head, loss,
/// gradients and an Adam update, on fixed numbers. Two machines, builds or instruction sets with
/// the same canary can be expected to give the same bits, two with different ones cannot.
///
/// Computed at the first call, in milliseconds; it seeds torch's default generator. Throws
/// std::invalid_argument if PASSEL_ISA is unknown.
const std::string& canary_hash();

/// The same, computed anew: for tests that change the instruction set.
std::string compute_canary();

}  // namespace passel::train
