// SPDX-License-Identifier: Apache-2.0
#pragma once
// The figures of one model on one machine, measured in one run and in turns, so that their ratios hold on a noisy
// machine.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decode/registry.h"
#include "engine/engine.h"
#include "measure/engine/bandwidth.h"
#include "measure/engine/interleave.h"
#include "measure/engine/step_work.h"
#include "measure/evaluation/acceptance.h"
#include "model/model.h"

namespace ashlar {

struct BenchOptions {
  int32_t repeat = 50;       ///< rounds of the step measurements; a twentieth of them, at least one, of whole answers
  int32_t context = 256;     ///< tokens before the measured rows
  int32_t max_tokens = 128;  ///< of an answer
  double seconds = 60;       ///< about as long as a part may take: else fewer rounds, shorter answers; 0: any time
  double bandwidth_seconds = 1.0;
  std::vector<int32_t> rows = {1, 2, 4, 8, 12, 16, 24, 32};
  std::vector<int32_t> prefills = {128, 512};
  std::vector<int32_t> concurrency = {1, 4, 8, 16};
  int64_t available_memory = 0;  ///< 0: unknown
  double accept_length = 0;      ///< forced upon the drafter: tokens a step of its whole block; 0: its own
};

/// Bytes a step has to read.
struct WeightBytes {
  int64_t plain_step = 0;  ///< target's layers and head
  int64_t drafter = 0;     ///< its own weights and its pass through the head; 0 without drafter
};

/// One decode step, split; medians in seconds.
struct StepSplit {
  double draft = 0, verify = 0, sample = 0, context = 0;
  double total = 0, p10_total = 0, best_total = 0;
  double tokens = 0;  ///< mean a step
};

/// Whole answers through the engine.
struct AnswerSpeed {
  AcceptanceTally tally;
  int64_t tokens = 0;
  int64_t wall_ns = 0;  ///< from submit to end, prompt included
  int64_t host_ns = 0;  ///< planning and collecting
  uint64_t steps = 0;
  double tokens_per_second() const {
    return wall_ns > 0 ? static_cast<double>(tokens) * 1e9 / static_cast<double>(wall_ns) : 0;
  }
  double host_seconds_per_step() const {
    return steps > 0 ? static_cast<double>(host_ns) * 1e-9 / static_cast<double>(steps) : 0;
  }
};

struct Concurrency {
  int32_t sequences = 0;
  int32_t answers = 0;            ///< of a round
  int32_t max_tokens = 0;         ///< of an answer
  double plain = 0, drafted = 0;  ///< tokens per second of all together, medians
};

struct BenchResult {
  BenchOptions options;
  int32_t width = 0;    ///< rows of a cycle: the widest; 0 without drafter
  bool ngrams = false;  ///< without drafter, drafted answers are those of n-gram drafting
  bool adapts = false;  ///< whether drafted answers choose their width step by step
  /// A block-diffusion model: "plain" is one token a forward, "cycle" and "drafted" the forwards and answers of its
  /// denoising algorithm, whose tokens may differ. Rows of a forward: the block and, where it commits, the one before.
  int32_t block = 0;
  Bandwidth memory;     ///< beyond the last-level cache
  Bandwidth weights;    ///< of a buffer as large as what a plain step reads
  Bandwidth copies;     ///< within a device's own memory, where it has one
  double products = 0;  ///< multiplications and additions a second of a device's matrix units in bf16; 0: the host's
  WeightBytes bytes;
  std::vector<TimedCase> verify;   ///< as options.rows
  std::vector<TimedCase> prefill;  ///< as options.prefills; those that fit
  StepSplit plain, cycle;
  AnswerSpeed plain_answers;
  AnswerSpeed drafted_answers;          ///< as the subject's spec has it
  AnswerSpeed block_answers;            ///< always the whole block, where the spec leaves the width to the decoder
  int32_t rounds = 0;                   ///< of the step measurements: options.repeat if there was time for them
  int32_t answers = 0, max_tokens = 0;  ///< answers of each kind and tokens of each at most
  bool shortened = false;               ///< something had to give way to options.seconds
  int64_t compared = 0, identical = 0;  ///< drafted answers with plain ones
  std::vector<Concurrency> concurrency;
  StepWork plain_work, cycle_work;  ///< of a device that says what it does

  bool has_drafted_answers() const { return width > 0 || ngrams; }
};

/// What is measured. Cycles always have the widest block, so that they compare; answers follow the spec. `drafted` may
/// have no drafter: then there is no cycle, and without n-gram drafts no drafted answer, except for block-diffusion
/// models, which need neither.
struct BenchSubject {
  Ops* ops = nullptr;
  Model* model = nullptr;
  DecoderSpec drafted;  ///< without a drafter: the model's own way
  EngineOptions engine;
  std::vector<std::vector<int32_t>> prompts;  ///< token ids, ready for an answer
};

/// One token a step: without the drafter, or by the same denoising algorithm at width 1.
DecoderSpec plain_spec(const BenchSubject& subject);
/// The drafted spec at its whole block, whatever rows cost here.
DecoderSpec whole_block(const BenchSubject& subject, int32_t width);
/// All prompts over and over, cut to `length` at the front, so that the end is the end of a prompt.
std::vector<int32_t> long_prompt(const std::vector<std::vector<int32_t>>& prompts, int32_t length);

using BenchProgress = std::function<void(const std::string& what, int64_t done, int64_t total)>;

/// Throws Error("bench", ...) if the model's context is too short for the options, or an accept length is asked for
/// that the drafter's blocks do not give.
BenchResult run_bench(const BenchSubject& subject, const BenchOptions& options, const BenchProgress& progress = {});

}  // namespace ashlar
