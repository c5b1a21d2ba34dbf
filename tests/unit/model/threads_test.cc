// SPDX-License-Identifier: Apache-2.0
// Passes on several threads against the same passes on one: the same bits, whatever the batch.

#include <numeric>
#include <random>

#include "unit/model/tiny_model.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kMaxRows = 48;
constexpr int32_t kMaxSequences = 6;
constexpr int32_t kPagesOfOne = 3;
constexpr int32_t kAuxCount = 2;

class Machine {
 public:
  Machine(const std::filesystem::path& folder, int32_t threads)
      : ops_(make_device("cpu", {.threads = threads, .isa = {}})), model_(Model::load(*ops_, folder)) {
    KvLayout layout;
    model_->register_state(layout);
    kv_ = std::make_unique<KvMemory>(*ops_, layout, kMaxSequences * kPagesOfOne);
    model_->reserve(kMaxRows);
    storage_ = ops_->allocate(sizeof(float) * kMaxRows * kAuxCount * 8);
    for (int32_t i = 0; i < kMaxSequences * kPagesOfOne; ++i) pages_.push_back(i);
  }

  Ops& ops() { return *ops_; }
  const int32_t* pages(int32_t sequence) const { return pages_.data() + int64_t{sequence} * kPagesOfOne; }

  /// The outputs, one after the other, and after them the auxiliary hidden states.
  std::vector<float> forward(const RowBatch& batch, bool with_aux) {
    static constexpr AuxLayer kAuxLayers[kAuxCount] = {{0, 0}, {1, 8}};
    const Tensor aux_hidden = {reinterpret_cast<float*>(storage_->data()), kMaxRows, 8 * kAuxCount, 8 * kAuxCount};
    AuxHiddenRequest request;
    if (with_aux) request = {kAuxLayers, aux_hidden};
    const Tensor hidden = model_->forward(batch, *kv_, request);
    std::vector<float> out;
    for (int32_t r = 0; r < hidden.rows; ++r) out.insert(out.end(), hidden.row(r), hidden.row(r) + hidden.cols);
    if (with_aux) out.insert(out.end(), aux_hidden.row(0), aux_hidden.row(batch.n()));
    return out;
  }

 private:
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvMemory> kv_;
  std::unique_ptr<Buffer> storage_;
  std::vector<int32_t> pages_;
};

/// How the sequences of a pass grow, for every machine alike.
struct Growth {
  std::vector<int32_t> rows;        // of each sequence
  std::vector<int32_t> without_kv;  // rows without KV after them
  bool block;                       // rows see the whole of their sequence's
  std::vector<bool> wanted;
};

void fill(RowBatch& batch, const Machine& machine, const Growth& growth, const std::vector<int32_t>& lengths) {
  batch.clear();
  size_t next = 0;
  const auto want = [&] {
    if (growth.wanted[next++]) batch.want_output();
  };
  for (size_t s = 0; s < growth.rows.size(); ++s) {
    if (growth.rows[s] == 0) continue;
    const auto pages = machine.pages(static_cast<int32_t>(s));
    const int32_t end = lengths[s] + growth.rows[s];
    batch.begin_sequence(pages);
    for (int32_t p = lengths[s]; p < end; ++p) {
      batch.add_row(static_cast<int32_t>((p * 7 + static_cast<int32_t>(s) * 3) % 20), p, growth.block ? end : p + 1);
      want();
    }
    if (growth.without_kv[s] == 0) continue;
    batch.begin_sequence(pages);
    for (int32_t i = 0; i < growth.without_kv[s]; ++i) {
      batch.add_without_kv(19, end);
      want();
    }
  }
}

TEST(Threads, GiveTheBitsOfOne) {
  const ModelFolder folder;
  Machine alone(folder.path(), 1);
  for (const int32_t threads : {2, 3, 5}) {
    Machine machine(folder.path(), threads);
    std::mt19937 random(static_cast<uint32_t>(threads));
    const auto below = [&](uint32_t n) { return static_cast<int32_t>(random() % n); };
    std::vector<int32_t> lengths(kMaxSequences, 0);
    RowBatch batch(machine.ops(), kMaxRows, 2 * kMaxSequences);
    for (int round = 0; round < 300; ++round) {
      Growth growth;
      const int32_t shape = below(3);  // one sequence, all alike, all different
      for (int32_t s = 0; s < kMaxSequences; ++s) {
        if (lengths[s] > 16 * kPagesOfOne - 10) lengths[s] = 0;
        growth.rows.push_back(shape == 0 ? (s == 0 ? 9 : 0) : shape == 1 ? 4 : below(7));
        growth.without_kv.push_back(shape == 2 ? below(2) : 0);
      }
      growth.block = below(2) == 0;
      const bool few = below(2) == 0;
      for (int32_t r = 0; r < kMaxRows; ++r) growth.wanted.push_back(!few || below(3) == 0);
      fill(batch, alone, growth, lengths);
      const bool with_aux = below(2) == 0;
      const std::vector<float> expected = alone.forward(batch, with_aux);
      fill(batch, machine, growth, lengths);
      ASSERT_EQ(machine.forward(batch, with_aux), expected) << threads << " threads, round " << round;
      for (size_t s = 0; s < lengths.size(); ++s) lengths[s] += growth.rows[s];
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
