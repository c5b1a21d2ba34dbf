// SPDX-License-Identifier: Apache-2.0
#pragma once
// Replaces the global operators new and delete of the one program whose one source includes this, so that allocations
// may be counted and made to fail.

#include <cstddef>
#include <cstdlib>
#include <new>

namespace ashlar::testing {

/// The program's: asked before each allocation, on whatever thread.
bool next_allocation_fails();

inline void* allocate_or_throw(size_t size, size_t alignment) {
  if (next_allocation_fails()) throw std::bad_alloc();
  void* memory = alignment > alignof(std::max_align_t)
                     ? std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment)
                     : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

inline void* allocate_or_null(size_t size) noexcept {
  try {
    return allocate_or_throw(size, 0);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

// Apart: where a compiler sees through delete but not through new, it takes free() for a mistake.
[[gnu::noinline]] inline void release(void* memory) noexcept { std::free(memory); }

}  // namespace ashlar::testing

// NOLINTBEGIN(misc-definitions-in-headers): one source of a program includes this
void* operator new(size_t n) { return ashlar::testing::allocate_or_throw(n, 0); }
void* operator new[](size_t n) { return ashlar::testing::allocate_or_throw(n, 0); }
void* operator new(size_t n, std::align_val_t to) {
  return ashlar::testing::allocate_or_throw(n, static_cast<size_t>(to));
}
void* operator new[](size_t n, std::align_val_t to) {
  return ashlar::testing::allocate_or_throw(n, static_cast<size_t>(to));
}
void* operator new(size_t n, const std::nothrow_t&) noexcept { return ashlar::testing::allocate_or_null(n); }
void* operator new[](size_t n, const std::nothrow_t&) noexcept { return ashlar::testing::allocate_or_null(n); }
void operator delete(void* memory) noexcept { ashlar::testing::release(memory); }
void operator delete[](void* memory) noexcept { ashlar::testing::release(memory); }
void operator delete(void* memory, size_t) noexcept { ashlar::testing::release(memory); }
void operator delete[](void* memory, size_t) noexcept { ashlar::testing::release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { ashlar::testing::release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { ashlar::testing::release(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { ashlar::testing::release(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { ashlar::testing::release(memory); }
// NOLINTEND(misc-definitions-in-headers)
