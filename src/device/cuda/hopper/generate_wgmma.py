# SPDX-License-Identifier: Apache-2.0
"""Writes wgmma.cuh: one function for each width of the instruction, since its register list has no loop."""

from pathlib import Path

HEAD = """#pragma once
// Written by generate_wgmma.py. D[64, kN] (=|+=) A[64, 16] B[kN, 16]^T in bf16 with fp32 accumulators, both operands
// K-major in shared memory. Thread t of the warpgroup (warp w, lane l) holds D[16 w + l / 4 + 8 h][8 j + 2 (l % 4) + c]
// in d[4 j + 2 h + c].

#include <cstdint>

namespace ashlar::cuda {

/// `accumulate` 0: D starts from zero.
template <int kN>
__device__ __forceinline__ void wgmma(float (&d)[kN / 2], uint64_t a, uint64_t b, int accumulate);
"""


def body(n: int) -> str:
    count = n // 2
    names = ", ".join(f"%{i}" for i in range(count))
    lines = [names[i : i + 96] for i in range(0, len(names), 96)]
    text = "\n".join(f'      "{line}"' for line in lines)
    operands = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    return f"""
template <>
__device__ __forceinline__ void wgmma<{n}>(float (&d)[{count}], uint64_t a, uint64_t b, int accumulate) {{
  asm volatile(
      "{{\\n\\t.reg .pred more;\\n\\tsetp.ne.b32 more, %{count + 2}, 0;\\n"
      "\\twgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{"
{text}
      "}}, %{count}, %{count + 1}, more, 1, 1, 0, 0;\\n\\t}}"
      // clang-format off
      : {operands}
      // clang-format on
      : "l"(a), "l"(b), "r"(accumulate));
}}
"""


def registers_body(n: int, name: str, transposed: int) -> str:
    count = n // 2
    names = ", ".join(f"%{i}" for i in range(count))
    lines = [names[i : i + 96] for i in range(0, len(names), 96)]
    text = "\n".join(f'      "{line}"' for line in lines)
    operands = ", ".join(f'"+f"(d[{i}])' for i in range(count))
    a = "const uint32_t* a" if transposed else "const uint32_t (&a)[4]"
    return f"""
template <>
__device__ __forceinline__ void {name}<{n}>(float (&d)[{count}], {a}, uint64_t b, int accumulate) {{
  asm volatile(
      "{{\\n\\t.reg .pred more;\\n\\tsetp.ne.b32 more, %{count + 5}, 0;\\n"
      "\\twgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{"
{text}
      "}}, {{%{count}, %{count + 1}, %{count + 2}, %{count + 3}}}, %{count + 4}, more, 1, 1, {transposed};\\n\\t}}"
      // clang-format off
      : {operands}
      // clang-format on
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}}
"""


VALUES_HEAD = """
/// D[64, kN] (=|+=) A[64, 16] B[kN, 16]^T with A in registers: a[0..3] as mma.sync has its first operand.
template <int kN>
__device__ __forceinline__ void wgmma_values(float (&d)[kN / 2], const uint32_t (&a)[4], uint64_t b, int accumulate);
"""

ROWS_HEAD = """
/// The same with A in registers (a[0..3]: the fragment of 16 columns as mma.sync has it) and B [16, kN] N-major, as values
/// of attention lie: a row of memory is one of the 16.
template <int kN>
__device__ __forceinline__ void wgmma_rows(float (&d)[kN / 2], const uint32_t* a, uint64_t b, int accumulate);
"""

with open(Path(__file__).with_name("wgmma.cuh"), "w") as out:
    out.write(HEAD)
    for n in (8, 16, 32, 64, 128, 256):
        out.write(body(n))
    out.write(ROWS_HEAD)
    out.write(registers_body(64, "wgmma_rows", 1))
    out.write(VALUES_HEAD)
    for n in (8, 16, 32, 128):
        out.write(registers_body(n, "wgmma_values", 0))
    out.write("\n}  // namespace ashlar::cuda\n")
