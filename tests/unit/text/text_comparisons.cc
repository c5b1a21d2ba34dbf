// SPDX-License-Identifier: Apache-2.0
#include "unit/text/text_comparisons.h"

#include <cstddef>

namespace {

thread_local uint64_t memcmp_calls = 0;

int compare_bytes(const void* left, const void* right, size_t size) {
  ++memcmp_calls;
  const auto* a = static_cast<const unsigned char*>(left);
  const auto* b = static_cast<const unsigned char*>(right);
  for (size_t i = 0; i < size; ++i) {
    if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
  }
  return 0;
}

}  // namespace

// The linker prefers a program's own functions to those of the C library; compilers call either.
extern "C" int memcmp(const void* left, const void* right, size_t size) noexcept {
  return compare_bytes(left, right, size);
}
extern "C" int bcmp(const void* left, const void* right, size_t size) noexcept {
  return compare_bytes(left, right, size);
}

uint64_t ashlar::test::text_comparisons() { return memcmp_calls; }
