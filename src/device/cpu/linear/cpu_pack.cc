// SPDX-License-Identifier: Apache-2.0
// Packing of weights: in panels, on the pool.

#include "base/content_hash.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/linear/linear_call.h"
#include "device/weights/group_rounding.h"
#include "device/weights/source_hash.h"

namespace ashlar::cpu {
namespace {

constexpr int64_t kKeptDepth = 4096;  // of a matrix that stands for all where bytes are counted beforehand

}  // namespace

template <class ReadRow>
PackedWeight CpuOps::packed(PackedWeight weight, const ReadRow& read_row) {
  make_room(weight);
  const int64_t floats = weight.scratch_floats();
  std::vector<float> scratch(static_cast<size_t>(floats * pool_.size()));
  pool_.run(weight.panels(), [&](int32_t panel, int32_t worker) {
    weight.pack_panel(panel, scratch.data() + floats * worker, read_row);
  });
  return weight;
}

PackedWeight CpuOps::pack_as(const WeightFormat& format, const WeightSource& source, bool gated) {
  PackedWeight weight(format, source, gated, arena_);
  const auto read_row = [&](int32_t row, float* to) { format.read_row(source, row, to); };
  // Numbers that are no integers take little longer to pack than to read.
  const bool is_rounded = format.numbers == Numbers::kInt8 || format.numbers == Numbers::kInt4;
  if (!is_rounded || store_ == nullptr || !store_->is_open()) return packed(std::move(weight), read_row);
  const uint64_t key = key_of(format, source, gated);
  if (const auto kept = store_->take(key, weight.values().size())) {
    // Copied to huge pages: products that stream over the small pages of a mapped file are slower.
    make_room(weight);
    pool_.run(weight.panels(),
              [&](int32_t panel, int32_t) { weight.fill_panel(panel, kept.get() + panel * weight.panel_bytes()); });
    if (store_->is_whole(key, weight.values())) return weight;
    weight.clear();
  }
  weight = packed(std::move(weight), read_row);
  store_->keep(key, weight.values());
  return weight;
}

uint64_t CpuOps::key_of(const WeightFormat& format, const WeightSource& source, bool gated) {
  constexpr int64_t kRows = 256;  // what a thread hashes at a time
  struct Piece {
    const WeightPart* part;
    int64_t begin;
  };
  std::vector<Piece> pieces;
  for (const WeightPart& part : source.parts) {
    for (int64_t row = 0; row < part.rows; row += kRows) pieces.push_back({&part, row});
  }
  std::vector<uint64_t> words(pieces.size());
  pool_.run_throwing(static_cast<int32_t>(pieces.size()), [&](int32_t i) {
    const auto [part, begin] = pieces[static_cast<size_t>(i)];
    words[static_cast<size_t>(i)] = hash_rows(*part, begin, std::min(begin + kRows, part->rows));
  });
  words.insert(words.end(), {mark_of(format), static_cast<uint64_t>(source.rows()),
                             static_cast<uint64_t>(source.cols()), gated ? uint64_t{1} : uint64_t{0}});
  return content_hash(std::as_bytes(std::span(words)));
}

const WeightFormat& CpuOps::format_of(DType precision, int64_t k, Products products, Numbers stored) const {
  const bool asked = products == Products::kPropose && kept_for_drafts_ != KeptWeights::kAuto;
  // Formats for drafts alone are the device's choice: what a user asks for is kept as weights of answers are.
  if (asked) products = Products::kDecide;
  const KeptWeights kept = asked ? kept_for_drafts_ : kept_;
  return format_for(kernels_, precision, k, products, kept_numbers(kept, stored, products));
}

int64_t CpuOps::kept_bytes(Scheme scheme, Products products, int64_t count) const {
  const WeightFormat& format = format_of(precision_of(scheme), 1, products, numbers_in(scheme));
  return count * format.panel_bytes(kKeptDepth) / (kPanelColumns * kKeptDepth);
}

std::unique_ptr<Weight> CpuOps::pack(const WeightSource& source, WeightUse use) {
  const WeightFormat& format = format_of(source.precision(), source.cols(), use.products, source.numbers());
  return std::make_unique<PackedWeight>(pack_as(format, source, use.gated));
}

std::unique_ptr<Weight> CpuOps::repack(const Weight& weight, Products products) {
  ASHLAR_CHECK(products == Products::kPropose);  // others have formats that are made of stored numbers
  const PackedWeight& from = as_packed(weight);
  const WeightFormat& format = format_of(from.precision(), from.k(), products, Numbers::kWhole);
  if (format.bits >= from.bits()) return nullptr;
  return std::make_unique<PackedWeight>(packed({format, from, arena_}, [&](int32_t row, float* to) {
    std::vector<float> values(static_cast<size_t>(from.k()));
    from.read_row(row, 1, values.data());
    format.read_row({{{"", Scheme::kF32, values.data(), 1, from.k()}}, {}}, 0, to);
  }));
}

std::unique_ptr<ExpertWeights> CpuOps::pack_experts(std::span<const ExpertSource> experts) {
  ASHLAR_CHECK(!experts.empty());
  // Grouped products take weights of one format: bf16 where that is enough for all experts.
  const auto pack_all = [&](WeightSource ExpertSource::*which, bool gated) {
    const WeightSource& first = experts[0].*which;
    DType precision = first.precision();
    Numbers numbers = first.numbers();
    for (const ExpertSource& expert : experts) {
      if ((expert.*which).precision() != precision) precision = DType::kF32;
      numbers = common(numbers, (expert.*which).numbers());
    }
    const WeightFormat& format = format_of(precision, first.cols(), Products::kDecide, numbers);
    std::vector<PackedWeight> weights;
    weights.reserve(experts.size());
    for (const ExpertSource& expert : experts) {
      ASHLAR_CHECK(expert.gate == experts[0].gate && (expert.*which).bias.empty() == first.bias.empty());
      weights.push_back(pack_as(format, expert.*which, gated));
    }
    return weights;
  };
  return std::make_unique<PackedExperts>(pack_all(&ExpertSource::gate_up, true), pack_all(&ExpertSource::down, false),
                                         experts[0].gate);
}

}  // namespace ashlar::cpu
