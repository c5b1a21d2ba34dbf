// SPDX-License-Identifier: Apache-2.0
#include "ashlar/llm.h"

#include "llm/checks.h"
#include "llm/options.h"
#include "llm/run.h"
#include "session/memory_plan.h"
#include "session/with_room.h"
#include "text/template/chat_messages.h"

namespace ashlar {

class Llm::Impl {
 public:
  explicit Impl(const LlmOptions& options) : session_(with_room(session_options(options))), constraints_(session_) {
    session_->start();
  }

  Session& session() const { return *session_; }
  Engine& engine() const { return session_->engine(); }

  std::vector<int32_t> encode(const LlmPrompt& prompt) const {
    if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return *ids;
    if (const auto* text = std::get_if<std::string>(&prompt)) return session_->encode_raw(*text);
    const LlmChat& chat = std::get<LlmChat>(prompt);
    Conversation conversation;
    conversation.messages = text::plain_messages(parse_json(chat.messages, "messages"));
    conversation.tools = parse_json(chat.tools, "tools");
    conversation.template_kwargs = parse_json(chat.variables, "variables");
    return session_->encode_conversation(conversation);
  }

  std::unique_ptr<LlmRun::Impl> start(const std::vector<LlmPrompt>& prompts, const std::vector<LlmParams>& params,
                                      std::function<void()> notify) {
    if (params.size() != 1 && params.size() != prompts.size()) {
      throw Error("request", "there are " + std::to_string(prompts.size()) + " prompts and " +
                                 std::to_string(params.size()) + " parameters; expected one for all, or one a prompt");
    }
    std::vector<std::shared_ptr<const RequestForm>> forms;
    for (const LlmParams& one : params) {
      forms.push_back(std::make_shared<const RequestForm>(request_form(one, *session_, constraints_)));
    }
    std::vector<LlmRun::Impl::Job> jobs;
    for (size_t i = 0; i < prompts.size(); ++i) jobs.push_back({encode(prompts[i]), forms[forms.size() == 1 ? 0 : i]});
    return std::make_unique<LlmRun::Impl>(session_, std::move(jobs), std::move(notify));
  }

 private:
  const std::shared_ptr<Session> session_;
  Constraints constraints_;
};

LlmChat chat(const std::string& text) {
  return {.messages = Json::array({{{"role", "user"}, {"content", text}}}).dump()};
}

Llm::Llm(const LlmOptions& options) : impl_(with_own_errors([&] { return std::make_shared<Impl>(options); })) {}
Llm::~Llm() = default;

std::vector<LlmAnswer> Llm::generate(const std::vector<LlmPrompt>& prompts, const LlmParams& params,
                                     const Listener& listener) const {
  const std::unique_ptr<LlmRun> run = start(prompts, {params});
  while (!run->done()) {
    for (const LlmChunk& chunk : run->next(std::chrono::seconds(1))) {
      if (listener) listener(chunk);
    }
  }
  return run->answers();
}

std::unique_ptr<LlmRun> Llm::start(const std::vector<LlmPrompt>& prompts, const std::vector<LlmParams>& params,
                                   std::function<void()> notify) const {
  return with_own_errors(
      [&] { return std::unique_ptr<LlmRun>(new LlmRun(impl_->start(prompts, params, std::move(notify)))); });
}

std::vector<int32_t> Llm::encode(const LlmPrompt& prompt) const {
  return with_own_errors([&] { return impl_->encode(prompt); });
}

std::string Llm::decode(const std::vector<int32_t>& ids, bool skip_special_tokens) const {
  for (const int32_t id : ids) {
    if (id >= 0 && id < vocab()) continue;
    throw LlmError("[llm] token id " + std::to_string(id) + " is outside the vocabulary of " + std::to_string(vocab()));
  }
  return impl_->session().tokenizer().decode(ids, skip_special_tokens);
}

std::string Llm::describe() const { return impl_->session().describe(); }
std::vector<std::string> Llm::notes() const { return impl_->session().notes(); }
std::string Llm::decoder() const { return impl_->engine().decoder_name(); }
int32_t Llm::max_positions() const { return impl_->engine().max_positions(); }
int32_t Llm::vocab() const { return impl_->engine().vocab(); }
std::vector<int32_t> Llm::stop_ids() const { return impl_->session().stop_ids(); }

LlmCounters Llm::counters() const {
  const EngineCounters in = impl_->engine().counters();
  LlmCounters out;
  out.steps = in.steps;
  out.prefill_tokens = in.prefill_tokens;
  out.cached_tokens = in.cached_tokens;
  out.generated_tokens = in.generated_tokens;
  out.forwards = in.verify_spans;
  out.drafted = in.drafted;
  out.accepted = in.accepted;
  out.ngram_accepted = in.ngram_accepted;
  out.preemptions = in.preemptions;
  out.requests_finished = in.requests_finished;
  out.requests_cancelled = in.requests_cancelled;
  out.requests_failed = in.requests_failed;
  out.running = in.running;
  out.waiting = in.waiting;
  out.pages_total = in.pages_total;
  out.pages_free = in.pages_free;
  out.pages_cached = in.pages_cached;
  out.pages_held = in.pages_held;
  return out;
}

std::optional<int64_t> llm_bytes(const std::string& text) { return parse_bytes(text); }
std::string llm_version() { return ASHLAR_VERSION; }

}  // namespace ashlar
