// SPDX-License-Identifier: Apache-2.0
// Several kernels serve attention, by the GPU, by shape and by which rows stand next to each other. Their bits must be
// the same. Invariant: row-invariance.

#include <cstring>
#include <random>

#include "base/bf16.h"
#include "cuda/on_gpu.h"
#include "device/kv/key_codec.h"

namespace ashlar::testing {
namespace {

struct Row {
  int32_t table, position, begin, end;
  bool without_kv = false;
};

/// A sequence's keys lie in the pages of a table; table 3 is a branch of table 2 from kBranch on.
constexpr int32_t kLength = 1216, kSequences = 6, kBranch = 1100, kBranchTokens = 20;

/// A chunk of a prompt, of a prompt with a window, of a block, drafts of a tree, single tokens, and rows of one
/// sequence that have little to do with each other.
std::vector<Row> mixed_rows() {
  std::vector<Row> rows;
  for (int32_t p = 333; p < 1033; ++p) rows.push_back({0, p, 0, p + 1});
  for (int32_t s = 1; s < kSequences; ++s) rows.push_back({s, 700, 0, 701});
  for (int32_t p = 100; p < 420; ++p) rows.push_back({1, p, std::max(p - 99, 0), p + 1});
  for (int32_t p = 1080; p < 1100; ++p) rows.push_back({2, p, 0, p + 1});
  for (int32_t p = 1100; p < 1120; ++p) rows.push_back({3, p, 0, p + 1});
  for (int32_t p = 1120; p < 1216; ++p) rows.push_back({3, p, p / 3, p + 1});
  for (int32_t p = 64; p < 160; ++p) rows.push_back({4, p, 0, 160});
  for (int32_t p = 160; p < 224; ++p) rows.push_back({4, p, 0, p == 190 ? p : 224, p == 190});
  for (int32_t p = 0; p < 130; ++p) rows.push_back({5, p, 0, p % 40 == 7 ? 0 : p + 1});
  for (int32_t p = 130; p < 200; ++p) rows.push_back({5, p, p % 2 == 0 ? 900 : 0, p % 2 == 0 ? 1000 : p});
  return rows;
}

class AttentionOnGpu : public OnGpu, public ::testing::WithParamInterface<KvDType> {
 protected:
  template <class T>
  T* on_gpu(const std::vector<T>& values) {
    kept_.push_back(ops_->allocate(sizeof(T) * values.size()));
    ops_->upload(values.data(), kept_.back()->data(), sizeof(T) * values.size());
    return reinterpret_cast<T*>(kept_.back()->data());
  }
  std::vector<BFloat16> random_values(size_t n, float deviation) {
    std::normal_distribution<float> normal(0, deviation);
    std::vector<BFloat16> values(n);
    for (BFloat16& value : values) value = to_bf16(normal(random_));
    return values;
  }

  void compare(const AttentionShape& shape);

  std::mt19937 random_{5};
  std::vector<std::unique_ptr<Buffer>> kept_;
};

void AttentionOnGpu::compare(const AttentionShape& shape) {
  constexpr int32_t kPages = kLength / kPageTokens;
  const std::vector<Row> list = mixed_rows();
  const auto n = static_cast<int32_t>(list.size());
  const int64_t page_bytes = ops_->kv_page_bytes(shape) + 64;
  const int32_t pages = kSequences * kPages, scratch = pages * kScratchSlotsPerPage;
  // What was never stored is no number, and must not matter.
  const std::vector<uint8_t> nothing(static_cast<size_t>(page_bytes * (pages + 4)), 0xFF);
  const KvPlane plane = {reinterpret_cast<std::byte*>(on_gpu(nothing)), page_bytes};
  std::vector<const int32_t*> tables;
  for (int32_t s = 0; s < kSequences; ++s) {
    if (s == 3) {
      tables.push_back(tables.back());
      continue;
    }
    std::vector<int32_t> table(kPages);
    for (int32_t i = 0; i < kPages; ++i) table[static_cast<size_t>(i)] = (i * 5 + 3 * s) % kPages * kSequences + s;
    tables.push_back(on_gpu(table));
  }
  std::vector<int32_t> slots(kBranchTokens);
  for (int32_t i = 0; i < kBranchTokens; ++i) slots[static_cast<size_t>(i)] = scratch + kBranchTokens - i;
  std::vector<BranchTable> branches(kSequences);
  branches[3] = {kBranch, kBranchTokens, on_gpu(slots)};
  const auto* const page_tables = on_gpu(tables);
  const auto* const branch_tables = on_gpu(branches);

  // Keys and values of every position, and of the branch.
  const int32_t half = shape.head_dim / 2;
  const std::vector<float> ones(static_cast<size_t>(half) * kLength, 1.0F), zeros(ones.size(), 0.0F);
  const RopeTable rope = {on_gpu(ones), on_gpu(zeros), shape.head_dim, kLength};
  const auto store = [&](int32_t table, int32_t first, int32_t count, const std::vector<int32_t>* scratch_slots) {
    std::vector<int32_t> positions, of_table(static_cast<size_t>(count), table);
    for (int32_t i = 0; i < count; ++i) positions.push_back(first + i);
    const int32_t width = 2 * shape.kv_width();
    const Tensor kv = {on_gpu(random_values(static_cast<size_t>(count) * static_cast<size_t>(width), 1)), count, width,
                       width, DType::kBF16};
    Rows rows = {count, nullptr, on_gpu(positions), on_gpu(of_table), page_tables};
    if (scratch_slots != nullptr) rows.scratch_slots = on_gpu(*scratch_slots);
    ops_->store_kv(kv, {shape, nullptr, nullptr, 1e-6F, rope, rows, plane});
  };
  for (int32_t s = 0; s < kSequences; ++s) {
    if (s != 3) store(s, 0, kLength, nullptr);
  }
  store(3, kBranch, kBranchTokens, &slots);

  std::vector<int32_t> positions, row_tables, begin, end;
  std::vector<uint8_t> without_kv;
  for (const Row& row : list) {
    positions.push_back(row.position), row_tables.push_back(row.table);
    begin.push_back(row.begin), end.push_back(row.end), without_kv.push_back(row.without_kv ? 1 : 0);
  }
  Rows rows = {n, nullptr, on_gpu(positions), on_gpu(row_tables), page_tables, on_gpu(without_kv)};
  rows.branch_tables = branch_tables;
  const Visibility visible = {on_gpu(begin), on_gpu(end)};
  const int32_t width = shape.q_width() + 2 * shape.kv_width();
  const Tensor q = {on_gpu(random_values(static_cast<size_t>(n) * static_cast<size_t>(width), 1)), n, width, width,
                    DType::kBF16};
  const size_t row_bytes = static_cast<size_t>(shape.q_width()) * sizeof(BFloat16);
  const auto out = ops_->allocate(row_bytes * static_cast<size_t>(n));
  const Tensor answers = {out->data(), n, shape.q_width(), shape.q_width(), DType::kBF16};
  const auto attend = [&](int32_t first, int32_t count) {
    ops_->attention(q.part(first, count), shape, rows.part(first, count), visible.skip(first), plane,
                    answers.part(first, count));
  };
  const auto result = [&](int32_t first, int32_t count) {
    std::vector<std::byte> bytes(row_bytes * static_cast<size_t>(count));
    ops_->download(out->data() + row_bytes * static_cast<size_t>(first), bytes.data(), bytes.size());
    return bytes;
  };
  for (int32_t r = 0; r < n; ++r) attend(r, 1);
  const std::vector<std::byte> alone = result(0, n);
  for (const int32_t count : {2, 5, 16, 31, 64, 100, 128, 200, 257, 300, 511, 512, 520, 700, 777, 1000, 1300, n}) {
    for (const int32_t first : {0, 19, n - count}) {
      if (first + count > n) continue;
      ops_->upload(nothing.data(), out->data(), std::min(nothing.size(), row_bytes * static_cast<size_t>(n)));
      attend(first, count);
      const std::vector<std::byte> together = result(first, count);
      for (int32_t r = 0; r < count; ++r) {
        ASSERT_EQ(std::memcmp(&together[static_cast<size_t>(r) * row_bytes],
                              &alone[static_cast<size_t>(first + r) * row_bytes], row_bytes),
                  0)
            << shape.n_heads << " heads, " << shape.n_kv_heads << " of keys, " << shape.head_dim << " dimensions, row "
            << first + r << " of " << count << " from " << first;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Numbers, AttentionOnGpu, ::testing::Values(KvDType::kBF16, KvDType::kInt8, KvDType::kTq4),
                         [](const auto& info) { return std::string(name_of(info.param)); });

class CodesOnGpu : public OnGpu, public ::testing::WithParamInterface<KvDType> {};

INSTANTIATE_TEST_SUITE_P(Numbers, CodesOnGpu, ::testing::Values(KvDType::kInt8, KvDType::kTq4),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST_P(AttentionOnGpu, BitsDoNotDependOnOtherRows) {
  make(KeptWeights::kAuto, GetParam());
  for (const AttentionShape& shape : {AttentionShape{32, 8, 128, 0.09F},
                                      {8, 8, 64, 0.12F},
                                      {14, 2, 64, 0.3F},
                                      {12, 4, 128, 0.05F},
                                      {16, 4, 256, 0.07F},
                                      {5, 5, 256, 0.1F},
                                      {16, 1, 64, 1.0F}}) {
    compare(shape);
  }
}

template <class Word>
Word word_at(const std::byte* from, int64_t index) {
  Word word;
  std::memcpy(&word, from + index * static_cast<int64_t>(sizeof(Word)), sizeof(Word));
  return word;
}

/// Codes of a vector of d numbers as the codec has them; src/device/cuda/kv/codes.cuh says how they lie.
std::vector<uint8_t> codes_at(const std::byte* vector, int32_t bits, int32_t d) {
  std::vector<uint8_t> codes;
  for (int32_t i = 0; i < d; ++i) {
    const int32_t e = i / 8, p = i % 8 / 2, half = i % 2, eights = d / 8, stride = bits == 6 ? 4 : 8;
    const int32_t place = eights < stride ? e : e % stride * (eights / stride) + e / stride;
    if (bits == 8) {
      codes.push_back(word_at<uint8_t>(vector, i));
    } else if (bits == 6) {
      const uint32_t low = word_at<uint32_t>(vector, place), high = word_at<uint16_t>(vector + d / 2, place);
      const uint32_t biased = ((low >> (4 * p + 16 * half)) & 15U) | ((high >> (2 * p + 8 * half)) & 3U) << 4;
      codes.push_back(static_cast<uint8_t>(biased - 32));
    } else {
      const auto word = word_at<uint32_t>(vector, place);
      const uint32_t level = (word >> (i % 8 * 4)) & 7U, sign = (word >> (15 - 4 * p + 16 * half)) & 1U;
      codes.push_back(static_cast<uint8_t>(sign != 0 ? 7 - level : 8 + level));
    }
  }
  return codes;
}

// By the kernel for few heads and by that for many; the layout is that of KvNumbers.
TEST_P(CodesOnGpu, AreThoseOfTheCodec) {
  make(KeptWeights::kAuto, GetParam());
  const KvCodec& values = *kv_codec(GetParam());
  const KvCodec& keys = key_codec(values);
  std::mt19937 random(9);
  std::normal_distribution<float> normal(0, 1);
  for (const int32_t d : {16, 64, 80, 128, 256}) {
    if (values.rotates() && d == 80) continue;
    for (const int32_t n : {3, 900}) {
      const AttentionShape shape = {4, 5, d, 0.1F};
      const int32_t width = 2 * shape.kv_width(), pages = (n + kPageTokens - 1) / kPageTokens;
      std::vector<std::unique_ptr<Buffer>> kept;
      const auto on_gpu = [&](const auto& values) {
        const size_t bytes = sizeof(values[0]) * values.size();
        kept.push_back(ops_->allocate(bytes));
        ops_->upload(values.data(), kept.back()->data(), bytes);
        return kept.back()->data();
      };
      std::vector<BFloat16> kv(static_cast<size_t>(n) * static_cast<size_t>(width));
      for (BFloat16& value : kv) value = to_bf16(normal(random));
      std::fill_n(kv.begin(), d, to_bf16(0.0F));
      std::vector<int32_t> positions, table;
      for (int32_t i = 0; i < n; ++i) positions.push_back(i);
      for (int32_t i = 0; i < pages; ++i) table.push_back(pages - 1 - i);
      const std::vector<int32_t> zeros(static_cast<size_t>(n), 0);
      const std::vector<float> ones(static_cast<size_t>(d / 2 * n), 1.0F), none(ones.size(), 0.0F);
      const std::vector<std::byte*> tables = {on_gpu(table)};
      const int64_t stride = ops_->kv_page_bytes(shape);
      const int64_t key_bytes = d * keys.bits() / 8, value_bytes = d * values.bits() / 8;
      ASSERT_EQ(stride, int64_t{shape.n_kv_heads} * kPageTokens * (key_bytes + value_bytes + 8));
      const auto memory = ops_->allocate(static_cast<size_t>(stride * pages));
      const Rows rows = {n, nullptr, reinterpret_cast<int32_t*>(on_gpu(positions)),
                         reinterpret_cast<int32_t*>(on_gpu(zeros)), reinterpret_cast<const int32_t**>(on_gpu(tables))};
      const RopeTable rope = {reinterpret_cast<float*>(on_gpu(ones)), reinterpret_cast<float*>(on_gpu(none)), d, n};
      ops_->store_kv({on_gpu(kv), n, width, width, DType::kBF16},
                     {shape, nullptr, nullptr, 1e-6F, rope, rows, {memory->data(), stride}});
      std::vector<std::byte> got(static_cast<size_t>(stride * pages));
      ops_->download(memory->data(), got.data(), got.size());
      for (int32_t r = 0; r < n; ++r) {
        const std::byte* const page = got.data() + (pages - 1 - r / kPageTokens) * stride;
        for (int32_t head = 0; head < 2 * shape.n_kv_heads; ++head) {
          std::vector<float> x;
          for (int32_t i = 0; i < d; ++i) x.push_back(to_float(kv[static_cast<size_t>(r * width + head * d + i)]));
          const bool is_value = head >= shape.n_kv_heads;
          const KvCodec& codec = is_value ? values : keys;
          CodedVector want;
          codec.encode(x.data(), d, want);
          const int64_t vector = head % shape.n_kv_heads * kPageTokens + r % kPageTokens;
          const int64_t all_keys = int64_t{shape.n_kv_heads} * kPageTokens * key_bytes;
          const std::byte* const codes = page + (is_value ? all_keys + vector * value_bytes : vector * key_bytes);
          ASSERT_EQ(codes_at(codes, codec.bits(), d), std::vector<uint8_t>(want.codes, want.codes + d))
              << d << ' ' << r << ' ' << head;
          const int64_t index = head * kPageTokens + r % kPageTokens;
          const std::byte* const scale =
              page + int64_t{shape.n_kv_heads} * kPageTokens * (key_bytes + value_bytes) + 4 * index;
          ASSERT_EQ(std::memcmp(scale, &want.scale, sizeof(float)), 0) << d << ' ' << r << ' ' << head;
        }
      }
    }
  }
}

TEST_P(AttentionOnGpu, BitsDoNotDependOnOtherRowsWithSinks) {
  make(KeptWeights::kAuto, GetParam());
  for (AttentionShape shape : {AttentionShape{20, 4, 64, 0.125F}, {6, 1, 256, 0.0625F}}) {
    std::vector<float> sinks;
    for (int32_t h = 0; h < shape.n_heads; ++h) sinks.push_back(static_cast<float>(h % 7) - 2);
    shape.sinks = on_gpu(sinks);
    compare(shape);
  }
}

}  // namespace
}  // namespace ashlar::testing
