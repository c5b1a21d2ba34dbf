// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/cpu_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace ashlar::cpu {
namespace {
constexpr size_t kAlignment = 64;
constexpr size_t kPage = 4096;
constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kChunk = 4 * kHugePage;
}  // namespace

Memory::Memory(size_t bytes) : size_(bytes) {
  if (bytes >= kHugePage) {
    // The kernel backs a mapping with huge pages only where it covers whole aligned ones.
    mapped_ = (bytes + 2 * kHugePage - 1) / kHugePage * kHugePage;
    void* map = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) throw std::bad_alloc();
    const auto address = reinterpret_cast<uintptr_t>(map);
    const size_t skip = (kHugePage - address % kHugePage) % kHugePage;
    if (skip > 0) munmap(map, skip);
    data_ = static_cast<std::byte*>(map) + skip;
    mapped_ -= skip;
    madvise(data_, mapped_, MADV_HUGEPAGE);
    return;
  }
  // Small pieces would waste most of a page.
  const size_t alignment = bytes >= kPage ? kPage : kAlignment;
  const size_t rounded = (std::max(bytes, kAlignment) + alignment - 1) / alignment * alignment;
  data_ = static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (data_ == nullptr) throw std::bad_alloc();
  std::memset(data_, 0, rounded);
}

Memory::~Memory() {
  if (mapped_ > 0) {
    munmap(data_, mapped_);
  } else {
    std::free(data_);
  }
}

std::shared_ptr<std::byte> Arena::take(size_t bytes) {
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  std::shared_ptr<Memory> chunk = chunk_.lock();
  if (chunk == nullptr || chunk->size() - used_ < rounded) {
    chunk = std::make_shared<Memory>(rounded > kChunk ? rounded : kChunk);
    chunk_ = chunk;
    used_ = 0;
  }
  std::byte* at = chunk->data() + used_;
  used_ += rounded;
  return {std::move(chunk), at};
}

}  // namespace ashlar::cpu
