#pragma once

#include <string_view>
#include <vector>

namespace passel::kernels {

/// Instruction sets that the kernels were compiled for and that this CPU has,
/// fastest first: of "avx512", "avx2", "neon" and "scalar". All give the same
/// bits; "scalar" is many times slower.
std::vector<std::string_view> available_isas();

/// The instruction set that the kernels use: the first of available_isas(), or
/// what the environment variable PASSEL_ISA says. The variable is read once, at
/// the first call of this function or of a kernel; empty is as good as unset.
///
/// Throws std::invalid_argument if PASSEL_ISA is none of available_isas(). A
/// kernel cannot throw and ends the program with that text; so call this at
/// set-up, where the error can be handled.
std::string_view isa();

/// Makes the kernels use another instruction set from now on, for the whole
/// process, whatever PASSEL_ISA says. Threads that are inside a kernel finish
/// with the old one. Weights that were packed before are not to be used after it.
/// Throws std::invalid_argument if `name` is not available.
void select_isa(std::string_view name);

}  // namespace passel::kernels
