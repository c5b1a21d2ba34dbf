// SPDX-License-Identifier: Apache-2.0
#include "session/drafter_check.h"

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "base/error.h"
#include "io/weights/gguf.h"
#include "session/answers.h"
#include "session/progress.h"
#include "text/tokenizer/model_tokens.h"

namespace ashlar {
namespace {

// Texts that any model continues regularly, so that any drafter worth its name predicts something.
constexpr const char* kTexts[] = {
    "Turn this sentence into bullet points: Anna is a 41-year-old teacher who moved to Oslo in 1998.",
    "Write the name, age and city as JSON: Ben is 29 years old and lives in Rome.",
    "Repeat this sentence exactly: The wall was built of grey stone, and the gate was made of oak.",
    "Count from 1 to 20.",
};
// A large model takes a good part of a second a step, and somebody waits for its first answer. A few drafts a text
// separate a drafter that predicts nothing from one that works as well as whole blocks do: all texts together are rows
// enough.
constexpr int32_t kTokens = 12;
constexpr int32_t kWidth = 4;

DrafterCheck run_check(Session& session, DecoderSpec spec) {
  DrafterCheck check;
  const bool is_layer = session.choice().drafts_itself && spec.drafter == *session.choice().drafter;
  check.drafter = is_layer ? session.drafter_name() : spec.drafter.string();
  if (!is_layer) check.settings = is_gguf(spec.drafter) ? "metadata" : "config.json";
  check.target = session.choice().model.string();
  check.recorded_first = recorded_first_acceptance(spec.drafter);
  std::vector<AnswerJob> jobs;
  for (const char* text : kTexts) {
    AnswerJob& job = jobs.emplace_back();
    job.request.prompt = session.has_chat_template() ? session.encode_chat({{{"role", "user"}, {"content", text}}})
                                                     : session.encode_raw(text);
    job.request.max_tokens = kTokens;
    job.request.stop_ids = session.stop_ids();
  }
  // Drafts in every step: a width chosen by speed may well be one.
  if (spec.dflash.width == 0) {
    const int32_t most = spec.dflash_config ? spec.dflash_config->max_width()
                                            : drafter_facts(spec.drafter, session.config(), spec.dflash, 1).max_width;
    spec.dflash.width = std::min(most, kWidth);
  }
  spec.dflash.branches = 0;  // the record is of chains
  spec.ngram = NgramUse::kNever;
  Engine& engine = session.start(spec);
  AnswerListener listener;
  const int64_t begin = now_ns();
  int64_t tokens = 0, steps = 0;
  for (const Answer& answer : run_answers(engine, session.tokenizer(), std::move(jobs), listener)) {
    const RequestStats& stats = answer.stats;
    if (!stats.drafted_at.empty()) {
      check.steps += stats.drafted_at[0];
      check.first_accepted += stats.accepted_at[0];
    }
    steps += stats.verify_steps;
    for (size_t n = 0; n < stats.lengths.size(); ++n) tokens += static_cast<int64_t>(n) * stats.lengths[n];
  }
  if (const std::string lost = engine.lost(); !lost.empty()) throw DeviceLost("drafter", lost);
  check.seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  check.mean_length = steps > 0 ? static_cast<double>(tokens) / static_cast<double>(steps) : 0.0;
  session.stop();
  return check;
}

// The repair with which most first drafts are accepted, if that makes a drafter that would have passed.
void find_repair(Session& session, DrafterCheck& check, double seconds) {
  const Activity activity("looking for what is wrong with the drafter");
  const int64_t end = now_ns() + static_cast<int64_t>(seconds * 1e9);
  const std::vector<int32_t> masks = mask_tokens(session.tokenizer(), session.config().vocab, session.stop_ids());
  for (const DrafterRepair& repair : usual_repairs(session.model(), session.spec(), masks)) {
    if (now_ns() > end) {
      if (check.untried.empty() || check.untried.back() != repair.setting) check.untried.push_back(repair.setting);
      continue;
    }
    ++check.repairs_tried;
    DrafterCheck tried;
    try {
      tried = run_check(session, repair.spec);
    } catch (const DeviceLost&) {
      throw;
    } catch (const Error&) {  // what does not even load is no repair
      session.stop();
      continue;
    }
    if (tried.suspicious() || tried.steps < check.steps / 4) continue;
    const double best = check.repair ? check.repair->first_rate : check.first_rate();
    if (tried.first_rate() > best) check.repair = {repair.what, tried.first_rate(), tried.mean_length};
  }
}

std::string said_of_repairs(const DrafterCheck& check) {
  if (check.repairs_tried == 0) return {};
  return " (" + std::to_string(check.repairs_tried) + " other settings of its " + check.settings +
         " were tried; none drafts well)";
}

// What was tried without help is none of them.
std::string usual_causes(const DrafterCheck& check) {
  const std::string chat = "  - the chat template differs from the one of its training data\n";
  if (check.settings.empty()) {
    return "  - the model was trained on, merged or pruned, and the layer that drafts was left as it was\n" + chat;
  }
  std::string causes = "  - it was trained for another model, or for another version of this one\n";
  if (!check.untried.empty()) {
    std::string names;
    for (const std::string& name : check.untried) names += (names.empty() ? "" : ", ") + name;
    causes += "  - " + names + " of its " + check.settings + ", which there was no time to try\n";
  }
  return causes + chat + "  - layer_types, sliding_window or rope_scaling of its " + check.settings +
         " differ from its training\n";
}

}  // namespace

std::optional<double> recorded_first_acceptance(const std::filesystem::path& folder) {
  const auto path = folder / "acceptance.json";
  if (!std::filesystem::exists(path)) return std::nullopt;
  const Json root = read_json_file(path);
  const JsonFields fields(root, path.string(), "drafter");
  return fields.number("first_position", 0.01, 1.0);
}

DrafterCheck check_drafter(Session& session, double repair_seconds) {
  return check_drafter(session, session.spec(), repair_seconds);
}

DrafterCheck check_drafter(Session& session, const DecoderSpec& spec, double repair_seconds) {
  DrafterCheck check = run_check(session, spec);
  if (check.suspicious() && repair_seconds > 0) find_repair(session, check, repair_seconds);
  return check;
}

void refuse_if_blind(const DrafterCheck& check) {
  if (!check.predicts_nothing()) return;
  throw Error("drafter", check.drafter + ": predicts nothing: its first draft was accepted in " +
                             std::to_string(check.first_accepted) + " of " + std::to_string(check.steps) +
                             " steps of the self-test");
}

std::string warning_about(const DrafterCheck& check) {
  if (!check.suspicious()) return {};
  char figures[256];
  std::snprintf(
      figures, sizeof figures,
      "its first draft was accepted in %.0f %% of %lld steps (%s %.0f %%), and a step gave %.2f tokens on average",
      100 * check.first_rate(), static_cast<long long>(check.steps),
      check.recorded_first ? "its record says" : "expected at least",
      100 * (check.recorded_first ? *check.recorded_first : check.threshold()), check.mean_length);
  const std::string found = "the drafter " + check.drafter + " hardly predicts " + check.target + ": " + figures +
                            ".\n  Answers stay right but come slower than they could. ";
  if (check.repair) {
    std::snprintf(figures, sizeof figures, "in %.0f %% of steps, with %.2f tokens a step",
                  100 * check.repair->first_rate, check.repair->mean_length);
    return found + "Its " + check.settings + " is wrong: with " + check.repair->what +
           " its first draft is accepted\n  " + figures +
           ". Correct that there, or say --no-self-test to silence this.";
  }
  return found + "Usual causes" + said_of_repairs(check) + ":\n" + usual_causes(check) +
         "  Try --drafter none to compare the speed, or --no-self-test to silence this.";
}

}  // namespace ashlar
