// SPDX-License-Identifier: Apache-2.0
#pragma once
// What goes into ashlar::Llm and what comes out of it: plain values of the standard library.

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

/// What the shared library shows to programs; everything else of it is hidden.
#define ASHLAR_API __attribute__((visibility("default")))

namespace ashlar {

/// Thrown where a model, an option, a prompt or a parameter is not what it must be: what() says what was found, what
/// was expected and where.
class ASHLAR_API LlmError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Model, drafter, device and memory, as the flags of `ashlar run` have them.
struct LlmOptions {
  std::string model;             ///< folder, .gguf file, or a bundled model's name; empty: the bundled default
  std::string drafter;           ///< folder; empty: the one next to the model, "mtp" (its own layer) or "ngram"; "none"
  std::string device = "auto";   ///< a GPU where there is one, else "cpu"; or "cuda", "cuda:1", "ref"
  std::string isa;               ///< instruction set; empty: the best of the machine
  int32_t threads = 0;           ///< 0: one a core
  std::string weights = "auto";  ///< of layers: "exact", "int8", "int4", "fp8", or "auto": as few bits as the file has
  std::string drafter_weights = "auto";  ///< the same of the drafter, no token depends on them; "auto": by device
  std::string kv_dtype = "bf16";  ///< of the KV cache: "bf16", "f32", "int8" (half the memory) or "tq4" (a third)
  int64_t kv_memory = 0;          ///< bytes, at least 1 MiB; 0: what is needed
  int32_t max_context = 0;        ///< longest sequence in tokens; 0: the model's own limit, or less if memory is short
  int32_t max_sequences = 16;
  int32_t prefill_chunk = 0;  ///< most prompt tokens of a sequence in a step; 0: what suits the device
  bool prefix_cache = true;
  int32_t depth = 2;                                ///< steps in flight
  int32_t width = 0;                                ///< most tokens checked at once; 0: chosen pass by pass
  int32_t draft_window = 0;                         ///< the drafter sees this many of the newest tokens; 0: all
  int32_t branches = 3;                             ///< of a tree of drafts after its first; 0: drafts are a chain
  std::string ngram_drafts = "auto";                ///< "auto", "always" or "never"
  int32_t passes = 1;                               ///< of the drafter over a block
  std::string schedule = "cosine";                  ///< with more passes; also "linear" and "sqrt"
  std::string algorithm;                            ///< how a block-diffusion model denoises; empty: its usual one
  std::map<std::string, double> algorithm_options;  ///< such as {"threshold", 0.8}
  int32_t block_size = 0;                           ///< of a block-diffusion model; 0: its own
};

/// A conversation for the model's chat template, in JSON.
struct LlmChat {
  std::string messages;          ///< [{"role": "user", "content": "..."}, ...]
  std::string tools = "null";    ///< null, or an array of function schemas
  std::string variables = "{}";  ///< further variables of the template
};

/// A text to continue as it is, token ids, or a conversation to answer.
using LlmPrompt = std::variant<std::string, std::vector<int32_t>, LlmChat>;

/// How an answer is drawn. Together with weights and prompt these determine its tokens.
struct LlmParams {
  double temperature = 0;                                  ///< 0: always the likeliest token
  int32_t top_k = 0;                                       ///< keep the k likeliest tokens; 0: all
  double top_p = 1;                                        ///< keep the likeliest tokens up to this mass
  double min_p = 0;                                        ///< keep tokens at least this likely, relative to the best
  double repetition_penalty = 1;                           ///< above 1: less of what prompt and answer hold
  double presence_penalty = 0;                             ///< above 0: less of what the answer holds
  double frequency_penalty = 0;                            ///< the same for each time it occurs
  std::vector<std::pair<int32_t, float>> logit_bias = {};  ///< added to the logits of these tokens
  uint64_t seed = 0;
  std::string scheme =
      "coupled";  ///< or "rejection": classic speculative rejection, other tokens of the same distribution
  std::optional<int32_t> logprobs = {};  ///< log-probabilities of the tokens, and of the n likeliest of each
  int32_t max_tokens = 0;                ///< 0: up to the context limit
  std::vector<std::string> stop = {};    ///< the answer ends before the first of these that appears
  std::vector<int32_t> stop_ids = {};    ///< end the answer besides the model's own; part of it
  bool ignore_eos = false;               ///< the model's own end tokens do not end the answer
  bool skip_special_tokens = true;       ///< in the text
  int32_t width = 0;                     ///< most tokens a pass may decide; 0: the method's own, 1: plain decoding
  std::string algorithm = {};            ///< block diffusion: how to denoise; empty: as the options say
  std::map<std::string, double> algorithm_options = {};
  // At most one of these limits what the answer may be.
  std::optional<std::string> json_schema = {};  ///< a JSON text that satisfies this schema
  std::optional<std::string> regex = {};        ///< a text that matches as a whole
  std::optional<std::string> grammar = {};      ///< a text derived from this grammar (EBNF)
  std::vector<std::string> choice = {};         ///< one of these texts
};

/// Log-probabilities of the raw logits at one token.
struct LlmLogprob {
  float token = 0;
  std::vector<std::pair<int32_t, float>> top;  ///< ids and log-probabilities of the likeliest, best first
};

/// News of one answer.
struct LlmChunk {
  size_t index = 0;                  ///< of the prompt
  std::string text;                  ///< whole characters; the concatenation is the answer's text
  std::vector<int32_t> tokens;       ///< up to here; the text comes later while a stop string is possible
  std::vector<LlmLogprob> logprobs;  ///< as many, if asked for
  std::vector<int16_t> unmask_pass;  ///< as many for models of blocks: the pass over its block that unmasked each
  int32_t n_drafted = 0;             ///< how many of the tokens were accepted drafts, the first ones
  bool last = false;                 ///< the answer is complete: LlmRun::answers()[index]
};

/// Figures of one answer.
struct LlmFigures {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  ///< of the prompt, found in the prefix cache
  int32_t generated_tokens = 0;
  int32_t forwards = 0;  ///< passes of the model that decided tokens
  double tokens_per_forward = 0;
  std::vector<int32_t> lengths;  ///< lengths[n]: forwards that decided n tokens
  int32_t drafted = 0;
  int32_t accepted = 0;        ///< of the drafted
  int32_t ngram_accepted = 0;  ///< of the accepted, those that followed when the same tokens came before
  int32_t preemptions = 0;
  double queue_seconds = 0;        ///< until the first step
  double first_token_seconds = 0;  ///< until the first token, queue included
  double total_seconds = 0;
  double tokens_per_second = 0;  ///< from the first token to the end
};

/// A whole answer.
struct LlmAnswer {
  std::string text;
  std::vector<int32_t> tokens;       ///< stop token included; up to the one that completed a stop string
  std::vector<LlmLogprob> logprobs;  ///< as many, if asked for
  std::vector<int16_t> unmask_pass;  ///< as many, for models of blocks
  std::string finish;                ///< "stop", "length", "cancelled" or "error"; empty: not complete
  std::string stop_string;           ///< the one that ended it, if any
  std::string error;                 ///< why, for "error"
  LlmFigures figures;
};

/// Totals since the start, and how full the engine is.
struct LlmCounters {
  uint64_t steps = 0, prefill_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  uint64_t forwards = 0, drafted = 0, accepted = 0, ngram_accepted = 0, preemptions = 0;
  uint64_t requests_finished = 0, requests_cancelled = 0, requests_failed = 0;
  int32_t running = 0, waiting = 0;
  int32_t pages_total = 0, pages_free = 0, pages_cached = 0, pages_held = 0;
};

}  // namespace ashlar
