// SPDX-License-Identifier: Apache-2.0
#include "session/memory_budget.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <set>

#include "base/error.h"
#include "decode/chain/chain.h"
#include "decode/logits.h"
#include "model/mixers/block_conv.h"
#include "session/session.h"

namespace ashlar {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kProcess = 48 * kMiB;  // threads, their scratch, requests
constexpr int64_t kMinContext = 512;     // a model that can read no more than that is of no use
constexpr int64_t kFloat = sizeof(float);

int64_t count_of(const StoredTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<int64_t>());
}

// Of tensors that hold numbers to multiply with, in whatever form.
int64_t numbers_in(const Checkpoint& checkpoint, const std::function<bool(const std::string&)>& counts) {
  int64_t numbers = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (counts(name) && scheme_of(*tensor)) numbers += count_of(*tensor);
  }
  return numbers;
}

// As the device packs them, whose products over the vocabulary are those with the tensors of these names.
int64_t kept_bytes(const Ops& ops, const Checkpoint& checkpoint, Products products,
                   const std::set<std::string>& vocabulary, const std::function<bool(const std::string&)>& counts) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    if (!counts(name)) continue;
    const auto scheme = scheme_of(*tensor);
    const Products use = vocabulary.contains(name) ? Products::kVocabulary : products;
    bytes += scheme ? ops.kept_bytes(*scheme, use, count_of(*tensor)) : static_cast<int64_t>(tensor->bytes);
  }
  return bytes;
}

int64_t activation_bytes(const StackConfig& stack, int64_t rows, int64_t vocab) {
  int64_t widest = 0;
  for (const LayerAttention& layer : stack.layers) {
    widest = std::max<int64_t>(widest, layer.shape.q_width() * (stack.output_gate ? 2 : 1) + layer.shape.kv_width());
  }
  if (stack.delta_net) widest = std::max<int64_t>(widest, stack.delta_net->shape.projected_width());
  if (stack.short_conv) widest = std::max<int64_t>(widest, stack.short_conv->shape.projected_width());
  int64_t row = int64_t{3} * stack.hidden + 2 * widest + int64_t{2} * stack.n_layers;
  if (stack.activation == Activation::kGelu) row += int64_t{2} * stack.widest_mlp();
  if (stack.answers_apart()) row += stack.hidden;
  if (stack.moe) {
    row += stack.moe->n_experts + int64_t{stack.moe->routing.top_k} * (stack.hidden + 3 * stack.moe->intermediate);
    if (stack.moe->adds_apart()) row += stack.hidden;
  }
  if (stack.layer_embedding) {
    row += stack.hidden + (int64_t{2} * stack.n_layers + 1) * stack.layer_embedding->width;
  }
  if (stack.block_conv) row += 2 * stack.hidden + BlockConv::dynamic_width(*stack.block_conv, stack.hidden);
  return kFloat * (rows * row + kLogitRows * vocab);
}

std::string free_memory(const AvailableMemory& available) {
  if (!available.known()) return "free memory is unknown";
  std::string text = format_bytes(available.bytes + available.reserved);
  if (!available.owner.empty()) text += " of " + available.owner + "'s memory";
  text += " are free";
  if (available.total > 0) text += " (of " + format_bytes(available.total) + ")";
  if (available.group_limit > 0) text += " (the container's limit is " + format_bytes(available.group_limit) + ")";
  return text;
}

// An eighth, but no more than a machine's other programs may want on short notice: of a GPU those that draw on a
// screen.
int64_t margin_of(int64_t available) { return std::clamp(available / 8, 32 * kMiB, 2048 * kMiB); }

[[noreturn]] void fail(const MemoryNeeds& needs, int64_t rotary, int64_t cache_bytes, const std::string& cache,
                       int64_t margin, const AvailableMemory& available, bool of_wishes, const std::string& advice) {
  const int64_t others = needs.weights + needs.workspace + rotary + margin;
  throw NoRoom("the model does not fit: it takes " + format_bytes(needs.weights) + " of weights, " +
                   format_bytes(needs.workspace + rotary) + " of workspace and " + cache +
                   (margin > 0 ? ", with " + format_bytes(margin) + " to spare" : "") + "; " + free_memory(available) +
                   ". " + advice,
               others + std::min(cache_bytes, INT64_MAX - others), needs, available, of_wishes);
}

// Of a step's rows where requests may ask for hidden states: from the forward, next to the drafter's, without gaps, and
// in the results of two steps.
int64_t hidden_bytes(const Ops& ops, const ModelConfig& config, const DrafterFacts* drafter,
                     const SessionOptions& options) {
  if (!options.hidden_layers) return 0;
  const int64_t width = std::ssize(options.hidden_layers(config)) * int64_t{config.stack.hidden};
  return kFloat * options.engine.prompt_rows(ops).max_alone *
         (4 * width + (drafter != nullptr ? drafter->aux_width : 0));
}

}  // namespace

MemoryNeeds memory_needs(const Ops& ops, const Checkpoint& target, const ModelConfig& config, const Checkpoint* drafter,
                         const DrafterFacts* facts, const EngineOptions& engine) {
  const int64_t rows = engine.prompt_rows(ops).max_alone;
  const std::set<std::string> vocabulary = {std::string(config.names.embedding) + ".weight",
                                            std::string(config.names.head) + ".weight",
                                            std::string(config.names.layer_embedding) + ".weight"};
  const auto is_used = [&](const std::string& name) { return !config.is_unused(name); };
  const int64_t weights = kept_bytes(ops, target, Products::kDecide, vocabulary, is_used);
  MemoryNeeds needs = {weights, kProcess + activation_bytes(config.stack, rows, config.vocab),
                       Ropes::bytes_per_position(config.stack), weights, numbers_in(target, is_used)};
  if (drafter == nullptr) return needs;
  const StackConfig& stack = facts->stack;
  int64_t context = stack.hidden;
  if (facts->reads_before) context += int64_t{3} * stack.hidden;  // a feature and its token, side by side
  for (const LayerAttention& layer : stack.layers) context += int64_t{2} * layer.shape.kv_width();
  // Experts are packed alike for all products.
  needs.weights += kept_bytes(ops, *drafter, stack.moe ? Products::kDecide : Products::kPropose, {},
                              [&](const std::string& name) { return name.starts_with(facts->tensors); });
  needs.workspace += activation_bytes(stack, rows, facts->draft_vocab) +
                     kFloat * ((2 * rows + int64_t{kPageTokens} * engine.max_sequences) * facts->aux_width +
                               rows * context + facts->head_workspace);
  needs.per_position += Ropes::bytes_per_position(stack);
  return needs;
}

std::string MemoryBudget::describe() const {
  return format_bytes(needs.weights) + " of weights, " +
         format_bytes(needs.workspace + needs.per_position * positions) + " of workspace, up to " +
         format_bytes(kv_bytes) + " of KV cache" +
         (states > 0 ? " (" + format_bytes(states) + " of it states of recurrent layers)" : "") +
         (available.reserved > 0 ? ", " + format_bytes(available.reserved) + " for kernels and recorded passes" : "") +
         "; " + free_memory(available);
}

MemoryBudget budget_memory(const MemorySituation& situation) {
  const MemoryPlan& plan = situation.plan;
  const MemoryNeeds& needs = situation.needs;
  const MemoryWishes& wishes = situation.wishes;
  const AvailableMemory& available = situation.available;
  const int64_t longest = wishes.positions;
  const auto rotary = [&needs](int64_t positions) { return needs.per_position * positions; };
  // Decoders of blocks round the longest sequence up.
  const auto one_sequence = [&plan](int64_t positions) { return plan.bytes_of(positions + kPageTokens); };
  const auto cache_of = [](int64_t bytes, int64_t tokens) {
    return format_bytes(bytes) + " of KV cache for one sequence of " + std::to_string(tokens) + " tokens";
  };
  // With the smallest cache that makes a model of use, whatever was asked for.
  const auto model_fits = [&] {
    const int64_t min_positions = std::min(longest, kMinContext);
    return one_sequence(min_positions) + rotary(min_positions) <=
           available.bytes - margin_of(available.bytes) - needs.weights - needs.workspace;
  };
  MemoryBudget out = {needs, available, longest, wishes.kv_bytes, false, 0, plan.state_bytes};
  if (wishes.kv_bytes > 0) {
    if (plan.bytes_of(longest) > wishes.kv_bytes) {
      throw Error("memory", "the KV cache of one sequence of " + std::to_string(longest) + " tokens takes " +
                                format_bytes(plan.bytes_of(longest)) + ", and " + format_bytes(wishes.kv_bytes) +
                                " are given; raise --kv-memory or lower --max-context");
    }
    if (available.known() && wishes.kv_bytes > available.bytes - needs.weights - needs.workspace - rotary(longest)) {
      fail(needs, rotary(longest), wishes.kv_bytes, format_bytes(wishes.kv_bytes) + " of KV cache (--kv-memory)", 0,
           available, model_fits(), "Lower --kv-memory, or leave it out: the cache then takes what is left");
    }
    return out;
  }
  const int64_t wanted = std::max(longest, wishes.sequences * ((longest + 3) / 4));
  out.kv_bytes = plan.bytes_of(wanted);
  if (!available.known()) return out;
  out.margin = margin_of(available.bytes);
  const int64_t rest = available.bytes - out.margin - needs.weights - needs.workspace;
  if (out.kv_bytes + rotary(longest) <= rest) return out;
  out.kv_limited = true;
  const auto fits = [&](int64_t positions) { return one_sequence(positions) + rotary(positions) <= rest; };
  if (!fits(longest)) {
    const int64_t least = wishes.positions_asked ? longest : std::min(longest, kMinContext);
    if (!fits(least)) {
      fail(needs, rotary(least), one_sequence(least), cache_of(one_sequence(least), least), out.margin, available,
           model_fits(),
           std::string(available.owner.empty() ? "Free memory or raise the limit, or take a smaller model"
                                               : "End other programs there, use --device cpu and the host's memory or "
                                                 "another GPU (--device cuda:1), or take a smaller model") +
               (wishes.positions_asked ? " or a smaller --max-context" : ""));
    }
    int64_t low = least / kPageTokens, high = longest / kPageTokens + 1;  // pages; low fits
    while (high - low > 1) (fits((low + high) / 2 * kPageTokens) ? low : high) = (low + high) / 2;
    out.positions = low * kPageTokens;
  }
  out.kv_bytes = rest - rotary(out.positions);
  return out;
}

namespace {

// Most rows of a verify span.
int32_t width_of(const DrafterFacts* drafter, const SessionOptions& options) {
  if (drafter != nullptr) return drafter->max_width;
  if (options.ngram == NgramUse::kNever || options.drafter == "none") return 1;
  return options.dflash.width > 0 ? options.dflash.width : DecoderSpec{}.ngram_width;
}

}  // namespace

MemorySituation memory_situation(const Ops& ops, const ModelConfig& config, const DrafterFacts* drafter,
                                 const SessionOptions& options) {
  const int32_t sequences = options.engine.max_sequences;
  const bool asked = options.max_context > 0 && options.max_context <= config.max_positions;
  const Checkpoint weights(config.folder);
  ModelConfig named = config;
  choose_names(named, weights);
  std::optional<Checkpoint> drafter_weights;
  if (drafter != nullptr) drafter_weights.emplace(drafter->folder);
  MemoryNeeds needs =
      memory_needs(ops, weights, named, drafter_weights ? &*drafter_weights : nullptr, drafter, options.engine);
  needs.workspace += hidden_bytes(ops, config, drafter, options);
  return {
      plan_memory(ops, config.stack, drafter != nullptr ? &drafter->stack : nullptr,
                  drafter != nullptr ? drafter->window_pages : 0, drafter != nullptr ? drafter->spare_pages : 0,
                  {sequences, options.engine.snapshots(), ChainDecoder::log_rows(width_of(drafter, options))},
                  drafter != nullptr ? DraftContext::page_end_bytes(ops, drafter->reads_before, drafter->aux_width) : 0,
                  drafter != nullptr ? drafter->own_spare_pages : 0),
      needs,
      {options.engine.kv_bytes, asked ? options.max_context : config.max_positions, asked, sequences},
      ops.available_memory()};
}

}  // namespace ashlar
