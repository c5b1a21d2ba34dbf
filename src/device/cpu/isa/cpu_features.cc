// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/isa/cpu_features.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace ashlar::cpu {
namespace {

#ifdef ASHLAR_INSTRUCTION_SETS
constexpr bool bit(uint64_t word, int index) { return ((word >> index) & 1) != 0; }

struct Leaf {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Leaf cpuid(unsigned leaf, unsigned sub) {
  Leaf out;
  if (__get_cpuid_count(leaf, sub, &out.a, &out.b, &out.c, &out.d) == 0) return {};
  return out;
}

// Register files the operating system saves (XCR0); 0 if it does not use XSAVE.
uint64_t saved_state(const Leaf& leaf1) {
  if (!bit(leaf1.c, 27)) return 0;
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

#ifdef ASHLAR_WIDE_KERNELS
// Linux hands out tile data on request only (since 5.16); threads started later inherit the permission.
bool request_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// AMD's cores multiply pairs of bf16 as often per cycle as floats; Intel's take twice as long, so that floats win
// there.
bool multiplies_pairs_at_full_rate() {
  const Leaf leaf = cpuid(0, 0);
  char vendor[12];
  std::memcpy(vendor, &leaf.b, 4);
  std::memcpy(vendor + 4, &leaf.d, 4);
  std::memcpy(vendor + 8, &leaf.c, 4);
  return std::string_view(vendor, sizeof(vendor)) == "AuthenticAMD";
}
#endif

std::vector<std::string> detect() {
  const Leaf leaf1 = cpuid(1, 0);
  const Leaf leaf7 = cpuid(7, 0);
  const uint64_t saved = saved_state(leaf1);
  const bool ymm = (saved & 0x6) == 0x6;
  const bool avx2 =
      ymm && bit(leaf7.b, 5) && bit(leaf1.c, 12) && bit(leaf1.c, 29) && bit(leaf7.b, 3) && bit(leaf7.b, 8);
  std::vector<std::string> isas;
#ifdef ASHLAR_WIDE_KERNELS
  const bool zmm = (saved & 0xE6) == 0xE6;
  const bool tiles = (saved & 0x60000) == 0x60000;
  const bool avx512 = avx2 && zmm && bit(leaf7.b, 16) && bit(leaf7.b, 30) && bit(leaf7.b, 31) && bit(leaf7.b, 17);
  const bool bf16 = avx512 && bit(cpuid(7, 1).a, 5);
  const bool amx = bf16 && tiles && bit(leaf7.d, 22) && bit(leaf7.d, 24) && bit(leaf7.d, 25) && request_tiles();
  const bool pairs_first = multiplies_pairs_at_full_rate();
  if (amx) isas.push_back("amx");
  if (bf16 && pairs_first) isas.push_back("avx512bf16");
  if (avx512) isas.push_back("avx512");
  if (bf16 && !pairs_first) isas.push_back("avx512bf16");
#endif
  if (avx2) isas.push_back("avx2");
  isas.push_back("portable");
  return isas;
}
#else
std::vector<std::string> detect() { return {"portable"}; }
#endif

}  // namespace

const std::vector<std::string>& runnable_isas() {
  static const std::vector<std::string> isas = detect();
  return isas;
}

bool multiplies_bytes() {
#ifdef ASHLAR_INSTRUCTION_SETS
  return bit(cpuid(7, 0).c, 11);
#else
  return false;
#endif
}

bool adds_products() {
#ifdef ASHLAR_INSTRUCTION_SETS
  return bit(cpuid(7, 1).a, 4);
#else
  return false;
#endif
}

const Kernels& kernels_for(const std::string& isa) {
  const std::vector<std::string>& isas = runnable_isas();
  if (std::find(isas.begin(), isas.end(), isa) == isas.end()) {
    std::string choices;
    for (const std::string& name : isas) choices += (choices.empty() ? "" : ", ") + name;
    throw Error("device",
                "instruction set '" + isa + "' is unknown or not available here; this machine has: " + choices);
  }
#ifdef ASHLAR_WIDE_KERNELS
  if (isa == "amx") return amx_kernels();
  if (isa == "avx512bf16") return avx512bf16_kernels();
  if (isa == "avx512") return avx512_kernels();
#endif
#ifdef ASHLAR_INSTRUCTION_SETS
  if (isa == "avx2") return avx2_kernels();
#endif
  return portable_kernels();
}

}  // namespace ashlar::cpu
