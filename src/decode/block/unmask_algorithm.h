// SPDX-License-Identifier: Apache-2.0
#pragma once
// What distinguishes one way of filling a block from another: which positions are unmasked after a pass. A new
// algorithm is a file next to this and a line in algorithms.cc.

#include <bit>
#include <cstdint>
#include <memory>
#include <string>

#include "decode/step.h"
#include "device/row_statistics.h"

namespace ashlar {

/// Bit i stands for position i of the block.
using Positions = uint64_t;
static_assert(kMaxWidth <= 64);

inline int32_t count(Positions positions) { return std::popcount(positions); }
inline int32_t lowest(Positions positions) { return std::countr_zero(positions); }  ///< 64: there is none
inline Positions first_positions(int32_t n) { return n >= 64 ? ~Positions{0} : (Positions{1} << n) - 1; }
inline bool has(Positions positions, int32_t i) { return (positions >> i & 1U) != 0; }

/// A block after a pass. Arrays have `n` entries; those of a pass are valid at `open` positions, for algorithms that
/// edit also at `unmasked` ones.
struct BlockView {
  int32_t n = 0;
  int32_t vocab = 0;
  int32_t pass = 0;              ///< passes over this block before this one
  Positions open = 0;            ///< masked positions that may be unmasked now; never empty unless the algorithm edits
  Positions masked = 0;          ///< all masked positions
  Positions unmasked = 0;        ///< filled by this algorithm in earlier passes, not by the prompt
  const int32_t* ids = nullptr;  ///< as the pass saw them; the mask id at masked positions
  const int32_t* candidates = nullptr;        ///< the token each position would get
  const float* confidence = nullptr;          ///< its probability, before temperature and filters
  const RowStatistics* statistics = nullptr;  ///< of the row after bias, penalties and masks
};

/// What an algorithm remembers of a block between its passes. Zero before the first.
struct AlgorithmMemory {
  int32_t ids[kMaxWidth] = {};
  float values[kMaxWidth] = {};
  float more_values[kMaxWidth] = {};
  int32_t counts[kMaxWidth] = {};
  int32_t total = 0;
};

struct Decision {
  Positions unmask = 0;  ///< masked positions that get their candidate
  Positions edit = 0;    ///< unmasked positions whose token is replaced by the candidate
  bool finished =
      false;  ///< editing algorithms: nothing will change any more. The others end when no masked position is left
  /// Self-verification: consecutive open masked positions from the lowest masked position on, none unmasked
  /// yet. The next pass asks the model what each would be if tokens came one at a time after the candidates before it;
  /// those that agree are unmasked, and the first that does not as the model says. The algorithm is not asked about
  /// that pass.
  Positions verify = 0;
};

class UnmaskAlgorithm {
 public:
  virtual ~UnmaskAlgorithm() = default;
  /// Whether unmasked tokens may change until the block is finished.
  virtual bool edits() const { return false; }
  /// Whether decisions may ask for verification, for which a model has to attend block by block.
  virtual bool verifies() const { return false; }
  /// Subtracted from the logit of the token that stands before a position, against stutter.
  virtual float repeat_penalty() const { return 0; }
  /// A pure function of its arguments. Where not to edit, finish or verify, it unmasks at least one open position.
  virtual Decision decide(const BlockView& block, AlgorithmMemory& memory) const = 0;
};

/// The most confident open position, the lowest on a tie.
int32_t most_confident(const BlockView& block, Positions among);

}  // namespace ashlar
