// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <optional>

#include "app/doctor/doctor.h"
#include "app/inspect.h"
#include "app/pulling.h"
#include "app/sampling_defaults.h"
#include "base/error.h"
#include "session/answers.h"
#include "session/drafter_check.h"

namespace ashlar::doctor {
namespace {

constexpr const char* kQuestion = "Count from 1 to 20.";
constexpr int32_t kTokens = 10;

Answer ask(Session& session, const DecoderSpec& spec) {
  std::vector<AnswerJob> jobs(1);
  jobs[0].request.prompt = session.has_chat_template()
                               ? session.encode_chat({{{"role", "user"}, {"content", kQuestion}}})
                               : session.encode_raw(kQuestion);
  jobs[0].request.max_tokens = kTokens;
  AnswerListener listener;
  Answer answer = std::move(run_answers(session.start(spec), session.tokenizer(), std::move(jobs), listener).front());
  session.stop();
  return answer;
}

// Answers in both ways, which have to be the same tokens.
Finding check_equality(Session& session) {
  DecoderSpec drafted = session.spec();
  if (drafted.dflash.width == 0) {  // a width chosen by speed may be one, and then nothing is drafted
    drafted.dflash.width = drafter_facts(drafted.drafter, session.config(), drafted.dflash, 1).max_width;
  }
  const Answer plain = ask(session, DecoderSpec{}), fast = ask(session, drafted);
  for (const Answer* answer : {&plain, &fast}) {
    if (answer->finish == "error") {
      return {"answer", Severity::kProblem, "no answer: " + answer->error, "see the checks of memory and model"};
    }
  }
  const std::string found =
      std::to_string(fast.tokens.size()) + " tokens, " + std::to_string(fast.stats.verify_steps) + " checking steps";
  if (plain.tokens == fast.tokens) return {"answer", Severity::kOk, found + "; drafted and plain are the same", ""};
  return {"answer", Severity::kProblem, found + "; drafted and plain differ",
          "this must not happen: use --drafter none, and report it with the output of ashlar doctor --json"};
}

Finding check_drafting(Session& session) {
  const DrafterCheck check = check_drafter(session);
  char text[128];
  std::snprintf(text, sizeof text, "; first draft accepted in %.0f %% of steps, %.2f tokens a step",
                100 * check.first_rate(), check.mean_length);
  const std::string found = check.drafter + " fits" + text;
  if (!check.suspicious()) return {"drafter", Severity::kOk, found, ""};
  if (check.repair) {
    return {"drafter", Severity::kWarning, found,
            "its " + check.settings + " is wrong: with " + check.repair->what + " it drafts well; correct that there"};
  }
  return {"drafter", Severity::kWarning, found,
          "it hardly predicts the model; ashlar inspect names the usual causes, --drafter none does without"};
}

// A file that a server refuses; nothing where it takes it.
std::optional<Finding> check_sampling_defaults(const std::filesystem::path& model) {
  try {
    read_sampling_defaults(model);
    return std::nullopt;
  } catch (const Error& error) {
    return Finding{"sampling", Severity::kProblem, error.what(), "correct that field, or take it out of the file"};
  }
}

// Of a model that a server would fetch first.
Finding check_hub(const MissingModel& model) {
  const hub::Settings settings = hub::settings_from_environment();
  const std::string name = hub::name_of(model.ref), found = model.here.warning(model.ref, settings);
  if (settings.offline) {
    return {"model", Severity::kProblem, found + ", and HF_HUB_OFFLINE forbids to fetch it",
            "ashlar pull " + name + " without HF_HUB_OFFLINE"};
  }
  return {"model", Severity::kWarning,
          found + "; a server fetches it from " + hub::without_password(settings.endpoint) + " when it starts",
          "ashlar pull " + name + " fetches it now; then run ashlar doctor again"};
}

}  // namespace

Finding check_memory(const MemorySituation& situation) {
  try {
    const MemoryBudget budget = budget_memory(situation);
    const int64_t wished = situation.wishes.positions;
    if (budget.positions >= wished) return {"memory", Severity::kOk, budget.describe(), ""};
    return {"memory", Severity::kWarning,
            budget.describe() + ": sequences of " + std::to_string(budget.positions) + " of " + std::to_string(wished) +
                " tokens",
            "free memory or raise the limit for longer ones; --max-context says how much you need"};
  } catch (const Error& error) {
    return {"memory", Severity::kProblem, error.what(), "free memory, raise the limit, or take a smaller model"};
  }
}

std::vector<Finding> check_model(const SessionOptions& given) {
  std::vector<Finding> out;
  SessionOptions options = given;
  options.quiet = true;
  try {
    for (const MissingModel& model : missing_models(options)) out.push_back(check_hub(model));
    if (!out.empty()) return out;
    const ModelChoice choice = locate_models(options.model, options.drafter, model_roots());
    const std::unique_ptr<Ops> ops = make_device(options.device, options.device_options);
    const Json facts = inspect_model(*ops, choice.model, choice.drafter, options.dflash, options.engine.max_sequences);
    if (facts.contains("problem")) {
      out.push_back({"model", Severity::kProblem, facts["problem"], "fetch its weights, or name another model"});
      return out;
    }
    const bool fits = choice.drafter && facts["drafter"]["fits"].get<bool>();
    const ModelConfig config = read_model_config(choice.model);
    std::optional<DrafterFacts> drafter;
    if (fits) drafter = drafter_facts(*choice.drafter, config, options.dflash, options.engine.max_sequences);
    out.push_back(check_memory(memory_situation(*ops, config, drafter ? &*drafter : nullptr, options)));
    if (auto finding = check_sampling_defaults(choice.model)) out.push_back(std::move(*finding));
    if (choice.drafter && !fits) {
      out.push_back({"drafter", Severity::kProblem, facts["drafter"].value("problem", "does not fit"),
                     "name the drafter of this model with --drafter, or none"});
      options.drafter = "none";
    }
    if (out.front().severity == Severity::kProblem) return out;
    Session session(options);
    out.push_back({"model", Severity::kOk, session.describe() + "; loaded from " + choice.model.string(), ""});
    if (!session.has_drafter()) {
      if (!choice.drafter) {
        out.push_back(
            {"drafter", Severity::kOk, session.drafts() ? "none: n-gram drafts" : "none: plain decoding", ""});
      }
      return out;
    }
    out.push_back(check_drafting(session));
    out.push_back(check_equality(session));
  } catch (const std::bad_alloc&) {
    out.push_back({"model", Severity::kProblem, "memory ran out", "a smaller --max-context, --kv-memory or model"});
  } catch (const std::exception& error) {
    out.push_back({"model", Severity::kProblem, error.what(), "ashlar inspect MODEL shows what a model holds"});
  }
  return out;
}

}  // namespace ashlar::doctor
