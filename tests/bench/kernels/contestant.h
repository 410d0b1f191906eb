#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shape.h"

namespace bench {

/// Something to be timed on one thread, in parts that run one after the other: a forward pass and
/// the backward pass of what it kept, or one product.
struct Contestant {
  struct Part {
    std::string name;
    Work work;
    std::function<void()> run;
  };

  std::string kind;  ///< what is computed: "lltm", "lltm_nodx", "mm_f1", ...
  std::string side;  ///< who computes it: "passel", or the name of a peer
  std::vector<Part> parts;
};

}  // namespace bench
