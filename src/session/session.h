// SPDX-License-Identifier: Apache-2.0
#pragma once
// From what a person typed to a running engine: the only place that wires concrete types.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decode/registry.h"
#include "device/device.h"
#include "engine/engine.h"
#include "generate/chat_prompt.h"
#include "model/model.h"
#include "session/dllm_options.h"
#include "session/models/model_locator.h"
#include "text/template/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar {

class WeightsCache;

/// What the flags of all commands that load a model say (app/command_line/flags.h).
struct SessionOptions {
  std::string model;  ///< folder, .gguf file, or a bundled model's name; empty: the bundled default
  std::string
      drafter;  ///< folder; empty: the one next to the model, or its own layer, or n-grams; "mtp", "ngram", "none"
  std::string device = kAutoDevice;  ///< of a session's own options: the one that was chosen
  DeviceOptions device_options;
  std::string weights_cache;  ///< folder that keeps what the device rounds for the next start; empty or "none": nothing
  int32_t max_context = 0;    ///< longest sequence; 0: the model's own limit, or less if memory is short
  EngineOptions engine;
  DflashOptions dflash;
  NgramUse ngram = NgramUse::kWherePaying;
  DllmOptions dllm;
  /// Layers of the target after which requests may ask for hidden states; null: none are kept.
  std::function<std::vector<int32_t>(const ModelConfig& target)> hidden_layers;
  std::optional<BlockOptions> block;  ///< for programs: instead of dllm, which is what flags and a file say
  /// For programs: a device over the session's own, through which all is computed; null: none.
  std::function<std::unique_ptr<Ops>(Ops& device)> over_device;
  bool self_test = true;  ///< drafts and verifies a short text before the first request
  bool quiet = false;     ///< no notes on stderr
  std::string note = {};  ///< the first of the session's notes; empty: none
};

/// A loaded model with its text side, and at most one engine at a time.
class Session {
 public:
  /// Loads everything. Throws Error naming the file, flag or folder that is wrong.
  explicit Session(const SessionOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Starts the engine with the method that the options ask for, or with another one. A running engine is stopped
  /// first: engines of one session share the model's activations.
  Engine& start() { return start(spec_); }
  Engine& start(const DecoderSpec& spec);
  /// Ends the running engine, if there is one.
  void stop() { engine_.reset(); }
  /// The running engine.
  Engine& engine();

  /// The method that the options ask for; DecoderSpec{} is the model's own way without a drafter.
  const DecoderSpec& spec() const { return spec_; }
  bool has_drafter() const { return choice_.drafter.has_value(); }
  /// What to call the drafter; there is one.
  std::string drafter_name() const { return choice_.drafts_itself ? kMtp : folder_name(*choice_.drafter); }
  /// Whether several tokens of an autoregressive model may be checked at once.
  bool drafts() const { return has_drafter() || ngrams_alone_; }
  /// Whether the model fills masked blocks.
  bool is_block_diffusion() const { return config().diffusion.has_value(); }

  const SessionOptions& options() const { return options_; }
  const ModelChoice& choice() const { return choice_; }
  Ops& ops() const { return *ops_; }
  Model& model() const { return *model_; }
  const ModelConfig& config() const { return model_->config(); }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  /// What ends an answer: the configurations' ends of sequence and the tokenizer's.
  const std::vector<int32_t>& stop_ids() const { return stop_ids_; }
  bool has_chat_template() const { return template_.has_value(); }
  /// Null if the model has none.
  const ChatTemplate* chat_template() const { return template_ ? &*template_ : nullptr; }

  /// Token ids of a conversation: [{"role": "user", "content": "..."}, ...], ready for an answer. Throws Error if the
  /// model has no chat template or the template refuses the conversation.
  std::vector<int32_t> encode_chat(const Json& messages) const {
    Conversation conversation;
    conversation.messages = messages;
    return encode_conversation(conversation);
  }
  std::vector<int32_t> encode_conversation(const Conversation& conversation) const;
  /// Token ids of a text as it is, with whatever the tokenizer puts around a text.
  std::vector<int32_t> encode_raw(const std::string& text) const;
  /// The same ids. Throws Error that names a token which the model has no embedding for, if there is one.
  std::vector<int32_t> checked(std::vector<int32_t> ids) const;

  /// One line for people: model, drafter or denoising algorithm, device, threads.
  std::string describe() const { return describe(has_drafter() ? drafter_name() : ""); }
  /// The same of an engine with another drafter, or without one: "".
  std::string describe(const std::string& drafter) const;
  /// What weights, activations and KV cache take, and what is free: a line. Empty where pages are counted by hand.
  const std::string& memory() const { return memory_; }
  /// What a person may want to know about how this was set up, in whole sentences.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void limit_memory(const ModelConfig& config);
  void choose_method(const ModelConfig& config);
  void note_ignored_options(const ModelConfig& config);

  SessionOptions options_;
  ModelChoice choice_;
  DecoderSpec spec_;
  bool ngrams_alone_ = false;  // n-grams without a drafter
  std::vector<std::string> notes_;
  std::string memory_;
  std::unique_ptr<WeightsCache> weights_cache_;  // ops_ know it
  std::unique_ptr<Ops> device_;                  // null: ops_ itself
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  std::optional<Tokenizer> tokenizer_;
  std::optional<ChatTemplate> template_;
  std::vector<int32_t> stop_ids_;
  std::unique_ptr<Engine> engine_;  // last: uses all of the above
};

/// Loads a session and starts its engine the way every command does it: shows progress on a terminal, prints the notes
/// and the result of the drafter's self-test on stderr (unless quiet).
std::unique_ptr<Session> open_session(const SessionOptions& options);

/// Says on stderr (unless quiet) what of these the model has no use for.
void note_ignored_options(const Session& session, const SamplingParams& sampling);

}  // namespace ashlar
