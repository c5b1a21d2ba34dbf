// SPDX-License-Identifier: Apache-2.0
#include "app/train/regeneration.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "decode/check_sampling.h"
#include "measure/report/table.h"
#include "session/answers.h"
#include "session/interrupt.h"
#include "session/progress.h"
#include "session/terminal.h"
#include "train/data/answer_file.h"
#include "train/data/document_encoder.h"

namespace ashlar {
namespace {

class Writer final : public AnswerListener {
 public:
  Writer(AnswerFile& file, int64_t total)
      : file_(file), first_(file.done()), progress_("answering", total, ProgressUnit::kCount, ended_of(file)) {}

  void on_end(size_t index, const Answer& answer) override {
    if (answer.finish == "cancelled") return;
    if (answer.finish == "error")
      throw Error("train", "prompt " + std::to_string(first_ + index + 1) + " of those with answers: " + answer.error);
    file_.add(first_ + index, answer.tokens, answer.finish, answer.text);
    tokens += static_cast<int64_t>(answer.tokens.size());
    progress_.update(static_cast<int64_t>(first_) + ++ended_);
  }

  int64_t tokens = 0;

 private:
  static int64_t ended_of(const AnswerFile& file) { return static_cast<int64_t>(file.done()); }

  AnswerFile& file_;
  size_t first_;
  int64_t ended_ = 0;
  Progress progress_;
};

struct Wishes {
  std::vector<AnswerWish> all;
  std::vector<DataPart> parts;  // one for each file
};

// Prompts with what decides their answers; those that leave no room for two tokens are left out.
Wishes wishes_of(const Session& session, const TrainOptions& train, const RegenerationOptions& options,
                 int32_t longest) {
  const DocumentEncoder encoder(session.tokenizer(), session.chat_template(), session.stop_ids(),
                                session.config().vocab);
  Wishes out;
  std::vector<AnswerWish>& wishes = out.all;
  int64_t left_out = 0;
  const Activity activity("reading the prompts");
  for (const DataFile& file : train.data) {
    read_examples(
        file.path,
        [&](const TrainingExample& example) {
          std::vector<int32_t> prompt = encoder.encode_prompt(example);
          const int32_t room = longest - static_cast<int32_t>(std::min<size_t>(prompt.size(), INT32_MAX));
          if (prompt.empty() || room < 2) {
            ++left_out;
            return;
          }
          const auto index = static_cast<int32_t>(wishes.size());
          const double temperature = options.temperatures[wishes.size() % options.temperatures.size()];
          wishes.push_back({train.target, std::move(prompt), temperature, choice_seed(train.seed, index),
                            std::min(options.max_tokens, room)});
        },
        Responses::kOptional);
    out.parts.push_back({static_cast<int64_t>(wishes.size()), file.weight});
  }
  if (left_out > 0) {
    print_note(std::to_string(left_out) +
               " lines of the data are not answered: no prompt is in them, or it has more "
               "than " +
               std::to_string(longest - 2) + " tokens (--max-length)");
  }
  if (wishes.empty()) throw Error("train", "the data have no prompt that the model could answer");
  return out;
}

std::vector<AnswerJob> jobs_of(const std::vector<AnswerWish>& wishes, size_t first, const Session& session) {
  std::vector<AnswerJob> jobs;
  for (size_t i = first; i < wishes.size(); ++i) {
    Request& request = jobs.emplace_back().request;
    request.prompt = wishes[i].prompt;
    request.max_tokens = wishes[i].max_tokens;
    request.sampling.temperature = static_cast<float>(wishes[i].temperature);
    request.sampling.seed = wishes[i].seed;
    request.stop_ids = session.stop_ids();
  }
  return jobs;
}

}  // namespace

std::optional<RegeneratedData> regenerate(Session& session, const TrainOptions& train,
                                          const RegenerationOptions& options, int32_t longest) {
  // Where memory is short, the context may be; what is answered must not depend on that.
  if (longest < std::min(train.max_length, session.config().max_positions)) {
    throw Error("train", "a context of " + std::to_string(longest) +
                             " tokens has room in memory, which is less than --max-length; lower --max-length or "
                             "--answer-batch");
  }
  std::filesystem::create_directories(train.output);
  const std::filesystem::path path = train.output / RegenerationOptions::kFile;
  const auto [wishes, parts] = wishes_of(session, train, options, longest);
  AnswerFile file(path, wishes);
  if (file.done() == wishes.size()) return RegeneratedData{path, parts};
  const int64_t begin = now_ns();
  int64_t tokens = 0;
  {
    const InterruptScope interruptible(InterruptScope::Signals::kInterruptAndTerminate);
    Engine& engine = session.start(DecoderSpec{});
    Writer writer(file, static_cast<int64_t>(wishes.size()));
    run_answers(engine, session.tokenizer(), jobs_of(wishes, file.done(), session), writer);
    tokens = writer.tokens;
  }
  session.stop();
  const double seconds = static_cast<double>(now_ns() - begin) * 1e-9;
  print_note(std::to_string(file.done()) + " of " + std::to_string(wishes.size()) + " prompts are answered in " +
             path.string() + ": " + std::to_string(tokens) + " tokens in " + fixed(seconds, 1) + " s");
  if (file.done() < wishes.size() || InterruptScope::requested()) return std::nullopt;
  return RegeneratedData{path, parts};
}

}  // namespace ashlar
