#pragma once

namespace passel::kernels {

/// Obeys PASSEL_ISA, once. Each kernel calls it before it dispatches for the
/// first time. Throws std::invalid_argument for a wrong value, which in a
/// noexcept kernel ends the program with the text.
void settle_isa();

}  // namespace passel::kernels
