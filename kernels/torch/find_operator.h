#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace passel {

/// The way into an operator through torch's dispatcher. Throws c10::Error where it is not
/// registered, or has another signature.
template <typename Signature>
auto find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

}  // namespace passel
