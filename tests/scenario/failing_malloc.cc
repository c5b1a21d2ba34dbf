// SPDX-License-Identifier: Apache-2.0
// Loaded in front of the C library (LD_PRELOAD), fails one allocation of a program: the one of number ASHLAR_FAIL_AT. A
// program that ends well writes how many it made to the file ASHLAR_COUNT_FILE.

#include <dlfcn.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace {

using Malloc = void* (*)(size_t);

std::atomic<long> allocations{0};
std::atomic<long> fail_at{-1};

__attribute__((constructor)) void begin() {
  if (const char* number = std::getenv("ASHLAR_FAIL_AT")) fail_at = std::atol(number);
}

__attribute__((destructor)) void end() {
  const long n = allocations;
  const char* path = std::getenv("ASHLAR_COUNT_FILE");
  std::FILE* file = path != nullptr ? std::fopen(path, "w") : nullptr;
  if (file == nullptr) return;
  std::fprintf(file, "%ld\n", n);
  std::fclose(file);
}

}  // namespace

extern "C" void* malloc(size_t size) {  // NOLINT: the name is the point
  static const auto usual = reinterpret_cast<Malloc>(dlsym(RTLD_NEXT, "malloc"));
  if (allocations.fetch_add(1) != fail_at) return usual(size);
  errno = ENOMEM;
  return nullptr;
}
