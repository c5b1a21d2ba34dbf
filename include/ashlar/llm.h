// SPDX-License-Identifier: Apache-2.0
#pragma once
// Models offline: load a folder or a .gguf file, generate, no server. Link ashlar::ashlar.
//
//   ashlar::LlmOptions options;
//   options.model = "models/pebble-11m";
//   const ashlar::Llm llm(options);
//   const auto answers = llm.generate({"Once upon a time", ashlar::chat("What is a harbour?")}, {.max_tokens = 64});
//
// Autoregressive models, with or without a drafter, and block-diffusion models alike. See examples/generate.cc. What
// comes out depends on weights, prompt, parameters and seed alone. Everything throws LlmError for what a caller gave.

#include <chrono>
#include <functional>
#include <memory>

#include "ashlar/llm_types.h"

namespace ashlar {

/// A conversation of one message.
ASHLAR_API LlmChat chat(const std::string& text);

/// Running answers. Text is made on the thread that reads, so that whatever a reader does, or that it stops reading,
/// is nothing to the engine. One reader at a time; the destructor cancels what still runs. It may outlive its Llm.
class ASHLAR_API LlmRun {
 public:
  ~LlmRun();
  LlmRun(const LlmRun&) = delete;
  LlmRun& operator=(const LlmRun&) = delete;

  /// What has come since the last call, waiting at most `timeout` for something. Empty: nothing yet, or done(). Throws
  /// if a later prompt of many turns out not to be acceptable.
  std::vector<LlmChunk> next(std::chrono::milliseconds timeout);
  bool done() const;
  /// Ends all answers as soon as possible; their last chunks still come.
  void cancel();
  /// In the order of the prompts; those that are complete have a `finish`.
  const std::vector<LlmAnswer>& answers() const;

 private:
  friend class Llm;
  class Impl;
  explicit LlmRun(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// A loaded model and its engine. Thread-safe: calls from several threads share steps.
class ASHLAR_API Llm {
 public:
  /// Loads everything and starts the engine.
  explicit Llm(const LlmOptions& options);
  /// Frees the model as soon as the last of its runs is gone.
  ~Llm();
  Llm(const Llm&) = delete;
  Llm& operator=(const Llm&) = delete;

  /// Called by generate, on its own thread, with every piece of an answer. If it throws, everything is cancelled and
  /// the exception passed on.
  using Listener = std::function<void(const LlmChunk&)>;

  /// Answers to all prompts, in their order. An answer that fails after it began has `finish` "error".
  std::vector<LlmAnswer> generate(const std::vector<LlmPrompt>& prompts, const LlmParams& params = {},
                                  const Listener& listener = {}) const;
  /// Begins the answers and returns at once; LlmRun::next has what comes. `params`: one for all, or one a prompt.
  /// `notify` is called on the engine's thread whenever something came: it must not block, nor call the run.
  std::unique_ptr<LlmRun> start(const std::vector<LlmPrompt>& prompts, const std::vector<LlmParams>& params,
                                std::function<void()> notify = {}) const;

  /// Token ids of a prompt.
  std::vector<int32_t> encode(const LlmPrompt& prompt) const;
  std::string decode(const std::vector<int32_t>& ids, bool skip_special_tokens = true) const;

  /// Model, drafter or algorithm, device and threads, in a line.
  std::string describe() const;
  /// What is worth knowing about how this was set up, in whole sentences.
  std::vector<std::string> notes() const;
  std::string decoder() const;    ///< the decoding method
  int32_t max_positions() const;  ///< the longest sequence in tokens, prompt included
  int32_t vocab() const;
  std::vector<int32_t> stop_ids() const;  ///< what ends an answer by itself
  LlmCounters counters() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// Bytes of "512M", "8G", "1.5GiB", "100000": powers of 1024. Empty if it is none.
ASHLAR_API std::optional<int64_t> llm_bytes(const std::string& text);
/// The version of the library, such as "0.1.0".
ASHLAR_API std::string llm_version();

}  // namespace ashlar
