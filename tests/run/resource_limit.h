#pragma once

#include <sys/resource.h>

#include <stdexcept>

namespace passel::train::test {

/// While it lives, this process may have no more than `value` of a resource (RLIMIT_NOFILE, ...).
class ResourceLimit {
 public:
  ResourceLimit(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    ::getrlimit(resource_, &before_);
    const rlimit small{value, before_.rlim_max};
    if (::setrlimit(resource_, &small) != 0) throw std::runtime_error("setrlimit failed");
  }
  ~ResourceLimit() { ::setrlimit(resource_, &before_); }
  ResourceLimit(const ResourceLimit&) = delete;
  ResourceLimit& operator=(const ResourceLimit&) = delete;

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

}  // namespace passel::train::test
