// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "app/chat/chat_line.h"
#include "app/chat/chat_state.h"
#include "app/command_line/flags.h"
#include "app/command_line/validators.h"
#include "app/commands/commands.h"
#include "app/figures.h"
#include "app/ordered_output.h"
#include "base/error.h"
#include "session/answers.h"
#include "session/interrupt.h"
#include "session/output.h"

namespace ashlar {
namespace {

struct ChatOptions {
  SessionOptions session;
  ChatState state;
  std::string system;
  bool show_stats = false;
  bool no_history = false;
  ColorMode color = ColorMode::kAuto;
};

class LivePrinter final : public AnswerListener {
 public:
  explicit LivePrinter(bool color) : color_(color) {}
  void on_text(size_t, std::string_view text, bool drafted) override {
    const std::string styled = tinted(text, drafted, color_);
    write_output(styled);
    flush_output();
  }

 private:
  bool color_;
};

class Chat {
 public:
  Chat(ChatOptions& options, Session& session)
      : options_(options), state_(options.state), session_(session), color_(use_color(options.color, STDOUT_FILENO)) {
    color_messages(options.color);
  }

  void loop() {
    const bool terminal = is_terminal(STDIN_FILENO);
    const auto reader = make_line_reader(options_.no_history ? "" : default_history_file());
    if (terminal && !options_.session.quiet) print_note("/help lists the commands; Ctrl-D leaves");
    // The blank after the last marker is needed: libedit drops what has nothing to stand before.
    const std::string prompt = color_ ? "\1\033[1m\1>\1\033[0m\1 " : "> ";
    for (;;) {
      if (output_error() != 0) return;
      const LineReader::Line line = reader->read(prompt);
      if (line.end == LineReader::End::kEof) return;
      if (line.end == LineReader::End::kInterrupted || line.text.find_first_not_of(" \t\n") == std::string::npos)
        continue;
      if (line.text[0] != '/') {
        state_.add("user", line.text);
        answer();
        continue;
      }
      const ChatCommandResult result = run_chat_command(state_, line.text);
      if (result.quit) return;
      if (!result.reply.empty()) std::printf("%s\n", result.reply.c_str());
      if (result.wants_stats) print_stats();
      if (result.retry) answer();
      flush_output();
    }
  }

 private:
  AnswerJob make_job() const {
    AnswerJob job;
    job.request.prompt = session_.encode_chat(state_.messages);
    job.request.sampling = state_.sampling;
    job.request.max_tokens = state_.max_tokens;
    job.request.width = state_.width;
    job.request.stop_ids = session_.stop_ids();
    return job;
  }

  void choose_seed_once() {
    if (state_.seed_is_given || !choose_seed(state_.sampling)) return;
    state_.seed_is_given = true;
    if (!options_.session.quiet) print_note("seed " + std::to_string(state_.sampling.seed));
  }

  // Answers the conversation as it stands. A question that cannot be answered is taken back.
  void answer() {
    try {
      choose_seed_once();
      std::vector<AnswerJob> jobs{make_job()};
      LivePrinter printer(color_);
      const InterruptScope scope;
      const Answer answer = run_answers(session_.engine(), session_.tokenizer(), std::move(jobs), printer)[0];
      if (const std::string lost = session_.engine().lost(); !lost.empty()) throw DeviceLost("chat", lost);
      if (answer.finish == "error")
        throw Error("chat", answer.error + (answer.refused ? " (/reset starts afresh)" : ""));
      std::printf(answer.text.ends_with('\n') ? "" : "\n");
      flush_output();
      state_.add("assistant", answer.text);
      totals_.add(answer);
      if (answer.finish == "cancelled") print_note("(stopped)");
      if (answer.finish == "length") print_note("(stopped at the length limit)");
      if (options_.show_stats) print_note(stats_line({answer}, answer.seconds(), steps()));
    } catch (const DeviceLost&) {  // no other question would fare better
      throw;
    } catch (const Error& error) {
      print_error(error.what());
      if (!state_.messages.empty() && state_.messages.back()["role"] == "user")
        state_.messages.erase(state_.messages.size() - 1);
    }
  }

  StepKind steps() const { return session_.is_block_diffusion() ? StepKind::kForward : StepKind::kVerify; }

  void print_stats() const {
    if (totals_.answers == 0) {
      std::printf("no answer yet\n");
      return;
    }
    std::printf("%lld answers, %lld tokens, %.1f tokens/s\n", static_cast<long long>(totals_.answers),
                static_cast<long long>(totals_.tokens), totals_.decode_rate());
    std::printf("prompts: %lld tokens, %lld of them cached\n", static_cast<long long>(totals_.prompt_tokens),
                static_cast<long long>(totals_.cached_tokens));
    if (totals_.drafted == 0 && !session_.is_block_diffusion()) return;
    std::printf("tokens per step: %.2f on average; share of the steps that gave\n", totals_.mean_length());
    for (const std::string& line : histogram_lines(totals_.lengths, 60)) std::printf("%s\n", line.c_str());
  }

  ChatOptions& options_;
  ChatState& state_;
  Session& session_;
  AnswerTotals totals_;
  bool color_;
};

void chat(ChatOptions& options) {
  options.session.engine.max_sequences = 4;  // one answer at a time; the self-test runs its texts together
  const std::unique_ptr<Session> session = open_session(options.session);
  if (!session->has_chat_template()) {
    throw Error("template", session->choice().model.string() +
                                ": has no chat template, so it cannot chat; ashlar run --raw continues a text");
  }
  note_ignored_options(*session, options.state.sampling);
  if (!options.system.empty()) options.state.set_system(options.system);
  Chat(options, *session).loop();
}

}  // namespace

CLI::App* add_chat_command(CLI::App& app) {
  auto options = std::make_shared<ChatOptions>();
  CLI::App* command = app.add_subcommand("chat", "Talk to a model");
  command->add_option("--system", options->system, "System message")->type_name("STR");
  command->add_option("-n,--max-tokens", options->state.max_tokens, "Longest answer (default: to its end)")
      ->type_name("N")
      ->transform(whole(1, 1 << 24));
  command->add_flag("--show-stats", options->show_stats, "Figures after each answer");
  command->add_flag("--no-history", options->no_history, "Neither read nor keep a history of typed lines");
  command->add_flag("-q,--quiet", options->session.quiet, "No notes, answers only");
  add_color_flag(*command, options->color);
  add_session_flags(*command, options->session);
  CLI::Option* seed = add_sampling_flags_with_fresh_seed(*command, options->state.sampling);
  command->footer("In the chat, /help lists the commands: /reset /system /retry /set /save /load /stats /quit.");
  command->callback([options, seed] {
    options->state.seed_is_given = seed->count() > 0;
    chat(*options);
  });
  return command;
}

}  // namespace ashlar
