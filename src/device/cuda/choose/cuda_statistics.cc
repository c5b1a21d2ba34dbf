// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/choose/cuda_statistics.h"

#include "device/cuda/cuda_status.h"

namespace ashlar::cuda {

int32_t TileFolder::add(int32_t row, int32_t adjusted, int32_t excluded) {
  calls_.push_back({row, adjusted, excluded});
  return static_cast<int32_t>(calls_.size()) - 1;
}

void TileFolder::run(const Matrix& logits, const Matrix& adjusted, ThreadPool& pool) {
  static_assert(kFoldedColumns == RowFold::kTile && sizeof(FoldedTile) == sizeof(TileMoments));
  const size_t n = calls_.size();
  found_.resize(n);
  if (n == 0) return;
  const auto tiles = static_cast<size_t>((logits.cols + kFoldedColumns - 1) / kFoldedColumns);
  const size_t of_tiles = sizeof(FoldedTile) * tiles * n;
  auto* const folded = static_cast<std::byte*>(scratch_.reserve(of_tiles + sizeof(FoldCall) * n));
  std::byte* const calls = folded + of_tiles;
  memory_.upload(calls_.data(), calls, sizeof(FoldCall) * n);
  fold_tiles(memory_.stream(), logits, adjusted, reinterpret_cast<const FoldCall*>(calls), static_cast<int32_t>(n),
             reinterpret_cast<FoldedTile*>(folded));
  check_launch("fold_tiles");
  const auto* const all = reinterpret_cast<const TileMoments*>(memory_.fetch(folded, of_tiles));
  pool.run(static_cast<int32_t>(n), [&](int32_t r, int32_t) {
    const auto row = static_cast<size_t>(r);
    RowFold fold;
    for (size_t tile = row * tiles; tile < (row + 1) * tiles; ++tile) fold.add(RowFold(all[tile]));
    found_[row] = fold.finish();
  });
}

}  // namespace ashlar::cuda
