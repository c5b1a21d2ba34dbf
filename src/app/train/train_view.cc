// SPDX-License-Identifier: Apache-2.0
#include "app/train/train_view.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/clock.h"
#include "measure/report/table.h"
#include "session/terminal.h"

namespace ashlar {
namespace {

constexpr int64_t kRenewNs = 200'000'000;
constexpr int64_t kPrintNs = 30'000'000'000;
constexpr int64_t kFirstLines = 5;

// The first column is of drafts by themselves, the others of drafts after which all before them are right, too.
std::string positions_text(const EvaluationFigures& figures) {
  const std::vector<double>& accuracy = figures.answers.position_accuracy;
  const std::vector<double> steps = figures.steps.by_position(), served = figures.served.unconditional();
  TextTable table({"draft", "right, teacher-forced", "accepted in the steps of serving", "accepted as served"});
  const auto cell = [](const std::vector<double>& shares, size_t i) {
    return i < shares.size() ? percent(shares[i]) : std::string("-");
  };
  for (size_t i = 0; i < std::max({accuracy.size(), steps.size(), served.size()}); ++i) {
    table.add({std::to_string(i + 1), cell(accuracy, i), cell(steps, i), cell(served, i)});
  }
  return table.render();
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<long long>(seconds + 0.5);
  char text[40];
  if (whole < 3600) {
    std::snprintf(text, sizeof text, "%02lld:%02lld", whole / 60, whole % 60);
  } else {
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return text;
}

std::string step_line(const StepFigures& figures, double tokens_per_second, double seconds_left) {
  std::string text = "step " + std::to_string(figures.step) + " of " + std::to_string(figures.steps);
  if (figures.report.skipped) {
    text += "  skipped: loss or gradient is no number";
  } else {
    text += "  loss " + fixed(figures.report.loss, 3) + "  acceptance " + fixed(figures.report.expected_acceptance, 2);
  }
  text += "  " + three_digits(tokens_per_second) + " tokens/s  " + duration_text(seconds_left) + " left";
  if (figures.skipped > 0) text += "  " + std::to_string(figures.skipped) + " skipped";
  return text;
}

TrainView::TrainView() : terminal_(is_terminal(STDERR_FILENO)) {}

TrainView::~TrainView() { hide(); }

void TrainView::hide() {
  if (shown_) std::fputs("\r\033[K", stderr);
  shown_ = false;
}

void TrainView::on_step(const StepFigures& figures) {
  seconds_ += figures.seconds;
  tokens_ += figures.tokens;
  ++steps_;
  const int64_t now = now_ns();
  const bool last = figures.step == figures.steps;
  const bool due = terminal_ ? now - printed_ns_ >= kRenewNs
                             : lines_ < kFirstLines || now - printed_ns_ >= kPrintNs || last || figures.report.skipped;
  if (!due) return;
  printed_ns_ = now;
  ++lines_;
  const double rate = seconds_ > 0 ? static_cast<double>(tokens_) / seconds_ : 0;
  const double left = seconds_ / static_cast<double>(steps_) * static_cast<double>(figures.steps - figures.step);
  const std::string line = step_line(figures, rate, left);
  if (terminal_) {
    const auto width = static_cast<size_t>(std::max(1, terminal_width(STDERR_FILENO) - 1));
    std::fprintf(stderr, "\r\033[K%s", line.substr(0, width).c_str());
    shown_ = true;
  } else {
    std::fprintf(stderr, "%s\n", line.c_str());
  }
  std::fflush(stderr);
}

void TrainView::on_checkpoint(int64_t step) {
  if (!terminal_) print_note("saved at step " + std::to_string(step));
}

void TrainView::on_warning(const std::string& what) {
  hide();
  print_warning(what);
}

std::string evaluation_text(const EvaluationFigures& figures) {
  const Ratio served = figures.served.acceptance_length_per_step();
  TextTable table({"held-out documents: " + std::to_string(figures.n_documents), "tokens per step", "first draft"});
  const auto first = [](const std::vector<double>& shares) {
    return shares.empty() ? std::string("-") : percent(shares.front());
  };
  const double documents = figures.documents.expected_acceptance, answers = figures.answers.expected_acceptance;
  table.add({"teacher-forced, blocks anywhere in the documents", fixed(documents, 3),
             first(figures.documents.position_accuracy)});
  table.add({"the same in the target's own answers", fixed(answers, 3), first(figures.answers.position_accuracy)});
  table.add(
      {"the same in the steps of serving", fixed(figures.steps.length(), 3), percent(figures.steps.first_rate())});
  table.add({"as served, temperature 0", fixed(served.value, 3), first(figures.served.unconditional())});
  const auto difference = [](double value, const char* meaning) {
    return (value < 0 ? "  " : "  +") + fixed(value, 3) + "  " + meaning + "\n";
  };
  return table.render() + positions_text(figures) +
         difference(answers - documents, "the target's own answers instead of the documents'") +
         difference(figures.steps.length() - answers,
                    "steps begin where a draft was wrong, so more often where the text is hard, and answers end") +
         difference(served.value - figures.steps.length(),
                    "serving itself: rounding, such as a head of 8 bits for drafts; more than that is an error");
}

Json evaluation_json(const EvaluationFigures& figures) {
  const Ratio served = figures.served.acceptance_length_per_step();
  return {{"documents", figures.n_documents},
          {"teacher_forced_documents", figures.documents.expected_acceptance},
          {"teacher_forced_answers", figures.answers.expected_acceptance},
          {"teacher_forced_in_steps", figures.steps.length()},
          {"served", served.value},
          {"served_error", served.error},
          {"served_steps", figures.served.steps()},
          {"documents_by_position", figures.documents.position_accuracy},
          {"answers_by_position", figures.answers.position_accuracy},
          {"in_steps_by_position", figures.steps.by_position()},
          {"served_by_position", figures.served.unconditional()}};
}

}  // namespace ashlar
