// SPDX-License-Identifier: Apache-2.0
// Pages of codes become exactly the pages of bf16 that the codec's definition says, in the layout of the kernels.

#include "device/cpu/attention/coded_pages.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "base/bf16.h"

namespace ashlar::cpu {
namespace {

constexpr int32_t kPages = 3;
constexpr int32_t kHeads = 2;

struct CodedCase {
  KvDType dtype;
  int32_t head_dim;
};

class CodedPagesTest : public ::testing::TestWithParam<CodedCase> {
 protected:
  CodedPagesTest() {
    shape_ = {kHeads, kHeads, GetParam().head_dim, 1};
    stride_ = CodedPages::page_bytes(codec(), shape_) + 64;  // other planes lie between
    memory_.resize(static_cast<size_t>(kPages * stride_), std::byte{0xFF});
  }
  const KvCodec& codec() const { return *kv_codec(GetParam().dtype); }
  KvPlane plane() { return {memory_.data(), stride_}; }
  const KvCodec& codec(bool value) const { return value ? codec() : key_codec(codec()); }
  CodedVector random_vector(bool value) {
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<size_t>(shape_.head_dim));
    for (float& value : x) value = normal(random_);
    CodedVector coded;
    codec(value).encode(x.data(), shape_.head_dim, coded);
    return coded;
  }
  /// Number d of a token's key or value in a decoded page of one head.
  uint16_t decoded(const std::vector<uint16_t>& pages, int32_t position, bool value, int32_t d) const {
    const int32_t padded = padded_head_dim(shape_.head_dim);
    const int64_t page = int64_t{position / kPageTokens} * kPageTokens * (shape_.head_dim + padded);
    const int32_t token = position % kPageTokens;
    const int64_t at = value ? int64_t{shape_.head_dim} * kPageTokens + d / 16 * (16 * kPageTokens) + token / 2 * 32 +
                                   d % 16 * 2 + token % 2
                             : d / 2 * (2 * kPageTokens) + token * 2 + d % 2;
    return pages[static_cast<size_t>(page + at)];
  }
  void expect_decoded(const CodedVector& from, const std::vector<uint16_t>& pages, int32_t position, bool value) {
    float numbers[kMaxHeadDim];
    codec(value).decode(from.codes, from.scale, shape_.head_dim, numbers);
    for (int32_t d = 0; d < shape_.head_dim; ++d) {
      ASSERT_EQ(decoded(pages, position, value, d), to_bf16(numbers[d]).bits) << position << " dimension " << d;
    }
    for (int32_t d = shape_.head_dim; value && d < padded_head_dim(shape_.head_dim); ++d) {
      ASSERT_EQ(decoded(pages, position, value, d), 0) << "padding";
    }
  }

  AttentionShape shape_;
  int64_t stride_;
  std::vector<std::byte> memory_;
  std::mt19937 random_{7};
};

TEST_P(CodedPagesTest, AreReadAsTheyWereWritten) {
  const CodedPages pages(codec(), shape_, plane());
  const int32_t table[] = {1, 0};
  std::vector<CodedVector> written;  // [position][head][key, value]
  std::vector<int32_t> order;
  for (int32_t p = 0; p < 2 * kPageTokens; ++p) order.push_back(p * 13 % (2 * kPageTokens));
  for (int32_t i = 0; i < 4 * kHeads * kPageTokens; ++i) written.push_back(random_vector(i % 2 == 1));
  const auto at = [&](int32_t position, int32_t head, bool value) -> const CodedVector& {
    return written[static_cast<size_t>((position * kHeads + head) * 2 + (value ? 1 : 0))];
  };
  for (const int32_t p : order) {  // no token touches another
    for (int32_t head = 0; head < kHeads; ++head) {
      for (const bool value : {true, false}) pages.write(at(p, head, value), table, p, head, value);
    }
  }
  // Positions 14 to 17 are in scratch slots, in other pages' place.
  const int32_t slots[] = {2 * kScratchSlotsPerPage + 3, 2 * kScratchSlotsPerPage, 2 * kScratchSlotsPerPage + 7,
                           2 * kScratchSlotsPerPage + 4};
  std::vector<CodedVector> branch;
  for (int32_t i = 0; i < 4 * kHeads * 2; ++i) {
    branch.push_back(random_vector(i % 2 == 1));
    pages.write_slot(branch.back(), slots[i / (2 * kHeads)], i / 2 % kHeads, i % 2 == 1);
  }
  for (const bool branched : {false, true}) {
    const BranchTable branch_table = branched ? BranchTable{14, 4, slots} : BranchTable{};
    for (int32_t head = 0; head < kHeads; ++head) {
      std::vector<uint16_t> out(static_cast<size_t>(2 * CodedPages::segment_floats(shape_.head_dim)), 0xBEEF);
      pages.read_segment(table, branch_table, head, 0, 0, 2, out.data());
      for (int32_t p = 0; p < 2 * kPageTokens; ++p) {
        for (const bool value : {false, true}) {
          const bool other = branched && p >= 14 && p < 18;
          const auto index = static_cast<size_t>(((p - 14) * kHeads + head) * 2 + (value ? 1 : 0));
          expect_decoded(other ? branch[index] : at(p, head, value), out, p, value);
        }
      }
    }
  }
  for (int32_t page = 0; page < kPages; ++page) {  // nothing was written beyond a page
    for (int64_t byte = stride_ - 64; byte < stride_; ++byte) {
      ASSERT_EQ(memory_[static_cast<size_t>(page * stride_ + byte)], std::byte{0xFF});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Heads, CodedPagesTest,
                         ::testing::Values(CodedCase{KvDType::kInt8, 2}, CodedCase{KvDType::kInt8, 10},
                                           CodedCase{KvDType::kInt8, 64}, CodedCase{KvDType::kInt8, 80},
                                           CodedCase{KvDType::kInt8, 512}, CodedCase{KvDType::kTq4, 16},
                                           CodedCase{KvDType::kTq4, 64}, CodedCase{KvDType::kTq4, 512}),
                         [](const auto& info) {
                           return std::string(name_of(info.param.dtype)) + "_" + std::to_string(info.param.head_dim);
                         });

}  // namespace
}  // namespace ashlar::cpu
