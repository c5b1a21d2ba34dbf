// SPDX-License-Identifier: Apache-2.0
#include "session/session.h"

#include <algorithm>

#include "base/error.h"
#include "session/drafter_check.h"
#include "session/memory_budget.h"
#include "session/progress.h"
#include "session/terminal.h"
#include "session/weights_cache.h"
#include "session/with_room.h"
#include "text/tokenizer/model_tokens.h"

namespace ashlar {

Session::Session(const SessionOptions& options)
    : options_(options), choice_(locate_models(options.model, options.drafter, model_roots())) {
  const ModelConfig config = read_model_config(choice_.model);
  if (config.diffusion) {
    spec_.block = options_.block ? *options_.block : block_options(options_.dllm);
  } else if (options_.dllm.given() || options_.block) {
    throw Error("model", choice_.model.string() + ": is an autoregressive model (" + config.family +
                             "), which has no denoising algorithm; --dllm-algorithm, --dllm-algorithm-config and "
                             "--dllm-block-size are for block-diffusion models");
  }
  DeviceOptions device = options_.device_options;
  if (!options_.note.empty()) notes_.push_back(options_.note);
  const DeviceChoice chosen = choose_device(options_.device, device);
  options_.device = chosen.name;
  if (!chosen.note.empty()) notes_.push_back(chosen.note);
  weights_cache_ = open_weights_cache(options_.weights_cache, choice_.model, options_.device, device.weights);
  device.packed = weights_cache_.get();
  ops_ = make_device(options_.device, device);
  if (options_.over_device) {
    device_ = std::move(ops_);
    ops_ = options_.over_device(*device_);
  }
  choose_method(config);
  if (options_.hidden_layers) spec_.hidden_layers = options_.hidden_layers(config);
  tokenizer_ = Tokenizer::from_model(choice_.model);
  template_ = ChatTemplate::from_model(choice_.model);
  stop_ids_ = stop_ids_of(choice_.model, *tokenizer_, config.stop_ids, config.vocab);
  if (std::string note = note_on_tokens_beyond(*tokenizer_, config.vocab); !note.empty()) notes_.push_back(note);
  // A step has room for a chunk, however long it is asked to be.
  options_.engine.max_step_rows = std::max(options_.engine.max_step_rows, options_.engine.prefill_chunk);
  limit_memory(config);
  note_ignored_options(config);
  model_ = Model::load(*ops_, choice_.model, options_.max_context);
  if (const std::string note = weights_cache_ ? weights_cache_->finish() : ""; !note.empty()) notes_.push_back(note);
  if (config.tied_head && !model_->config().tied_head) {
    notes_.push_back("config.json ties the head to the embedding, and the stored " + std::string(config.names.head) +
                     ".weight differs from it: the stored head is used");
  }
  if (const std::string unused = model_->unused(choice_.drafts_itself); !unused.empty()) {
    notes_.push_back("text only: tensors of the checkpoint that the text model has no use for are left out, " + unused);
  }
  if (choice_.drafts_itself && options_.drafter.empty()) {
    notes_.push_back("drafting with the layer that the model brings for it (--drafter ngram or none: without)");
  }
  if (choice_.drafter_was_found) {
    notes_.push_back("drafting with " + choice_.drafter->string() +
                     ", found for the model (--drafter none: plain decoding)");
  }
}

Session::~Session() = default;

void Session::choose_method(const ModelConfig& config) {
  spec_.ngram = options_.ngram;
  if (choice_.drafter) {
    spec_.method = choice_.drafts_itself ? kMtp : method_of_drafter(*choice_.drafter);
    spec_.drafter = *choice_.drafter;
    spec_.dflash = options_.dflash;
    return;
  }
  const bool asked = options_.drafter == kNgrams;
  if (asked && options_.ngram == NgramUse::kNever) {
    throw Error("drafter",
                "ngram drafts what followed the same tokens before, and --ngram-drafts never forbids that; leave "
                "one of them out, or say --drafter none for plain decoding");
  }
  if (asked && config.diffusion) {
    throw Error("drafter", choice_.model.string() + ": fills blocks and needs no drafts; leave --drafter ngram out");
  }
  ngrams_alone_ = choice_.wants_ngrams && options_.ngram != NgramUse::kNever && !config.diffusion;
  if (!ngrams_alone_) return;
  spec_.method = kNgrams;
  if (options_.dflash.width > 0) spec_.ngram_width = options_.dflash.width;
}

void Session::limit_memory(const ModelConfig& config) {
  if (options_.engine.kv_pages > 0) return;
  std::optional<DrafterFacts> drafter;
  if (choice_.drafter)
    drafter = drafter_facts(*choice_.drafter, config, options_.dflash, options_.engine.max_sequences);
  const MemoryBudget budget = budget_memory(memory_situation(*ops_, config, drafter ? &*drafter : nullptr, options_));
  memory_ = budget.describe();
  if (budget.kv_limited) options_.engine.kv_bytes = budget.kv_bytes;
  const int64_t wished =
      options_.max_context > 0 ? std::min(options_.max_context, config.max_positions) : config.max_positions;
  if (budget.positions >= wished) return;
  options_.max_context = static_cast<int32_t>(budget.positions);
  notes_.push_back("the context is limited to " + std::to_string(budget.positions) + " of " + std::to_string(wished) +
                   " tokens: " + memory_ + " (--max-context, --kv-memory)");
}

void Session::note_ignored_options(const ModelConfig& config) {
  const DflashOptions& asked = options_.dflash;
  const bool of_drafter = asked.window != 0 || asked.passes != 1 || asked.branches != DflashOptions::kDefaultBranches ||
                          options_.device_options.drafter_weights != KeptWeights::kAuto;
  if (ngrams_alone_ && of_drafter) {
    notes_.push_back("there is no drafter: --branches, --draft-window, --drafter-weights and --passes change nothing");
  }
  if (!drafts() && (of_drafter || asked.width != 0 || options_.ngram != NgramUse::kWherePaying)) {
    notes_.push_back(
        "there is no drafter: --width, --branches, --draft-window, --drafter-weights, --ngram-drafts and --passes "
        "change nothing");
  }
  if (has_drafter() && asked.passes != 1 && drafts_one_by_one(spec_.method)) {
    notes_.push_back("this drafter has no use for several passes: --passes changes nothing");
  }
  const KeptWeights kept = options_.device_options.weights;
  constexpr int64_t kNumbers = 1 << 20;
  if (kept != KeptWeights::kAuto && kept != KeptWeights::kExact &&
      ops_->kept_bytes(Scheme::kBF16, Products::kDecide, kNumbers) >= 2 * kNumbers) {
    notes_.push_back("products with weights of few bits do not exist for " + ops_->name() + " (" + ops_->isa() +
                     "): --weights changes nothing");
  }
  if (options_.max_context > config.max_positions) {
    notes_.push_back("the context is the model's, " + std::to_string(config.max_positions) +
                     " tokens: --max-context asks for more");
  }
}

Engine& Session::start(const DecoderSpec& spec) {
  engine_.reset();
  engine_ = std::make_unique<Engine>(*ops_, make_decoder(*model_, spec), options_.engine);
  return *engine_;
}

Engine& Session::engine() {
  ASHLAR_CHECK(engine_ != nullptr);
  return *engine_;
}

std::vector<int32_t> Session::encode_conversation(const Conversation& conversation) const {
  if (!template_) {
    throw Error("template", choice_.model.string() + ": has no chat template; use --raw to continue a text as it is");
  }
  return checked(ashlar::encode_conversation(*tokenizer_, *template_, conversation));
}

std::vector<int32_t> Session::encode_raw(const std::string& text) const {
  return checked(tokenizer_->encode(text, {.add_special_tokens = true}));
}

std::vector<int32_t> Session::checked(std::vector<int32_t> ids) const {
  if (const auto problem = token_beyond(*tokenizer_, ids, config().vocab)) throw Error("tokenizer", *problem);
  return ids;
}

std::string Session::describe(const std::string& drafter) const {
  const KvDType kv = options_.device_options.kv_dtype;
  std::string text = folder_name(choice_.model);
  if (!drafter.empty()) {
    text += " with " + (drafter == kMtp ? "its own layer to draft" : drafter);
  } else if (is_block_diffusion()) {
    text += ", block diffusion, " + describe_algorithm(spec_.block.algorithm) + ", block " +
            std::to_string(make_decoder(*model_, spec_)->max_width());
  } else if (ngrams_alone_) {
    text += ", n-gram drafts";
  } else {
    text += ", plain decoding";
  }
  return text + ", " + ops_->name() + " (" + ops_->isa() + "), " + std::to_string(ops_->threads()) +
         (ops_->threads() == 1 ? " thread" : " threads") +
         (kv_codec(kv) != nullptr ? ", K and V in " + std::string(name_of(kv)) : "");
}

namespace {

// `check`: what the self-test found becomes a warning, or an exception.
std::unique_ptr<Session> open_checked(const SessionOptions& options,
                                      const std::function<std::string(Session&)>& check) {
  std::unique_ptr<Session> session;
  {
    const Activity activity("loading the model");
    session = with_room(options);
  }
  if (!options.quiet) {
    print_note(session->describe());
    for (const std::string& note : session->notes()) print_note(note);
  }
  if (options.self_test && session->has_drafter()) {
    const std::string warning = check(*session);
    if (!warning.empty()) print_warning(warning);
  }
  session->start();
  return session;
}

}  // namespace

std::unique_ptr<Session> open_session(const SessionOptions& options) {
  return open_checked(options, [](Session& session) { return warning_about(check_drafter(session)); });
}

std::unique_ptr<Session> open_drafting_session(const SessionOptions& options) {
  return open_checked(options, [](Session& session) {
    const DrafterCheck check = check_drafter(session, 0);
    refuse_if_blind(check);
    return warning_about(check);
  });
}

void note_ignored_options(const Session& session, const SamplingParams& sampling) {
  if (session.options().quiet || !session.is_block_diffusion() || sampling.scheme == SamplingScheme::kCoupled) return;
  print_note("the model fills blocks and there are no drafts: --scheme changes nothing");
}

}  // namespace ashlar
