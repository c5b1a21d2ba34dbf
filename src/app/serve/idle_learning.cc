// SPDX-License-Identifier: Apache-2.0
#include "app/serve/idle_learning.h"

#include <cmath>
#include <csignal>
#include <utility>

#include "app/train/calibration.h"
#include "base/clock.h"
#include "base/error.h"
#include "io/durable_folder.h"
#include "session/memory_plan.h"

namespace ashlar {
namespace {

constexpr std::chrono::milliseconds kTurn{200};
constexpr std::chrono::seconds kBetweenTries{5};  // to make an engine where there is no memory for one
constexpr int kNothingWonExit = 3;

double gain_of(const std::string& output) {
  const Json report = Json::parse(output, nullptr, false);
  const auto gain = report.is_object() ? report.find("gain") : report.end();
  return report.is_object() && gain != report.end() && gain->is_number() ? gain->get<double>() : 0;
}

// By the name that people know it by, unless another version has that by now.
std::vector<std::string> this_program() {
  const std::filesystem::path self = "/proc/self/exe";
  std::error_code failed;
  const std::filesystem::path named = std::filesystem::read_symlink(self, failed);
  const bool same = !failed && std::filesystem::equivalent(self, named, failed);
  return {(same ? named : self).string()};
}

// To milliseconds: further digits of a log are noise.
double seconds_since(int64_t begin_ns) { return std::round(static_cast<double>(now_ns() - begin_ns) * 1e-6) * 1e-3; }

std::string text_of(const ChildProcess::Exit& exit) {
  if (exit.signal == 0) return "exit code " + std::to_string(exit.code);
  const char* name = sigabbrev_np(exit.signal);
  return "SIG" + (name != nullptr ? std::string(name) : std::to_string(exit.signal));
}

}  // namespace

std::filesystem::path IdleLearning::drafter_folder(const std::filesystem::path& traffic) {
  CalibrationOptions options;
  options.traffic = traffic;
  return options.folder();
}

std::string warning_about_room(const MemorySituation& calibration) {
  if (calibration.available.owner.empty()) return {};
  try {
    budget_memory(calibration);
    return {};
  } catch (const NoRoom& no_room) {
    return "training in idle time loads the model once more, which takes " + format_bytes(no_room.needed) + ", and " +
           format_bytes(no_room.available.bytes) + " of " + no_room.available.owner +
           "'s memory are free: it will fail unless --kv-memory leaves room, or --device cpu serves";
  }
}

IdleLearning::IdleLearning(Options options, Session& session, server::Service& service, const TrafficFiles& traffic,
                           Log& log)
    : options_(std::move(options)),
      session_(session),
      service_(service),
      traffic_(traffic),
      log_(log),
      learner_(options_.policy),
      exchange_(session, drafter_folder(options_.traffic)),
      thread_([this] { run(); }) {}

IdleLearning::~IdleLearning() {
  stop();
  thread_.join();
}

// Wakes up when a request comes, so that training gives way at once.
void IdleLearning::run() {
  bool idle = false;
  while (!stop_) {
    try {
      look_after();
      act(learner_.next(now_ns(), idle, traffic_.counts()));
    } catch (const DeviceLost& error) {
      lose(error);
    } catch (const std::exception& error) {  // no memory; the next turn may have some
      fail(message_of(error));
    }
    const auto next_turn = std::chrono::steady_clock::now() + kTurn;
    idle = idle ? !service_.wait_busy(next_turn) : service_.wait_idle(next_turn);
  }
  child_.reset();
}

void IdleLearning::act(IdleLearner::Action action) {
  switch (action) {
    case IdleLearner::Action::kNone:
      return;
    case IdleLearner::Action::kBegin:
      return begin();
    case IdleLearner::Action::kPause:
      if (child_) child_->pause();
      return;
    case IdleLearner::Action::kGoOn:
      if (child_) child_->resume();
      return;
    case IdleLearner::Action::kReplace:
      return replace();
  }
}

void IdleLearning::begin() {
  const SessionOptions& asked = session_.options();
  std::vector<std::string> command = options_.program.empty() ? this_program() : options_.program;
  for (const std::string& part :
       {std::string("calibrate"), session_.choice().model.string(), std::string("--learn"), options_.traffic.string(),
        std::string("--drafter"), exchange_.drafter(), std::string("--device"), asked.device, std::string("--threads"),
        std::to_string(asked.device_options.threads), std::string("--json")}) {
    command.push_back(part);
  }
  if (!asked.device_options.isa.empty()) command.push_back("--isa=" + asked.device_options.isa);
  log_.write(LogLevel::kInfo, "nothing to do: the drafter is trained on with the traffic that was kept",
             {{"answers", traffic_.counts().answers}});
  service_.metrics().training_began();
  child_.emplace(std::move(command),
                 [this](const std::string& line) { log_.write(LogLevel::kInfo, "training: " + line); });
}

void IdleLearning::look_after() {
  if (!child_) return;
  const std::optional<ChildProcess::Exit> exit = child_->poll();
  if (exit) finish(*exit);
}

void IdleLearning::finish(const ChildProcess::Exit& exit) {
  const std::string output = child_->output();
  child_.reset();
  if (exit == ChildProcess::Exit{0, 0}) {
    gain_ = gain_of(output);
    log_.write(LogLevel::kInfo, "training has ended: the new drafter is better", {{"gain", gain_}});
    return learner_.ended(now_ns(), IdleLearner::Outcome::kWon);
  }
  if (exit == ChildProcess::Exit{kNothingWonExit, 0}) {
    log_.write(LogLevel::kInfo, "training has ended: the drafter in use stays", {{"gain", gain_of(output)}});
    return learner_.ended(now_ns(), IdleLearner::Outcome::kNotWon);
  }
  fail(text_of(exit));
}

// Without memory a line is lost; what follows must not be.
void IdleLearning::fail(std::string_view what) noexcept {
  child_.reset();
  learner_.ended(now_ns(), IdleLearner::Outcome::kFailed);
  try {
    log_.write(LogLevel::kWarn, "training has failed, and is tried again after more answers: " + std::string(what));
  } catch (const std::exception&) {
  }
}

// Only an exchange asks anything of the device. The server ends for it, and the drafter that it was to go over to is
// not at fault: it stays for the next start.
void IdleLearning::lose(const DeviceLost& error) noexcept {
  stop_ = true;
  service_.lose_device(copy_or_less(error.what()));
}

// Requests that come while nothing can be answered wait, so whatever happens here must end with an engine, or with
// DeviceLost.
void IdleLearning::replace() {
  if (!service_.begin_change()) return;
  learner_.replaced();
  const int64_t begin = now_ns();
  std::string problem;
  Engine* engine = nullptr;
  try {
    engine = &exchange_.change();
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    problem = copy_or_less(message_of(error));
  }
  const bool changed = engine != nullptr;
  if (!changed) engine = change_back();
  if (engine == nullptr) return;
  service_.end_change(*engine, description());
  if (changed) service_.metrics().drafter_replaced(gain_);
  const double seconds = seconds_since(begin);
  if (changed) {
    log_.write(LogLevel::kInfo, "the new drafter is in use", {{"seconds", seconds}});
  } else {
    log_.write(LogLevel::kError,
               "the new drafter cannot be used, and the one before " +
                   std::string(exchange_.drafts() ? "is again" : "neither: answers come without") + ": " + problem,
               {{"seconds", seconds}});
  }
}

// As in fail().
void IdleLearning::report(const std::exception& error, bool keeps_serving) noexcept {
  try {
    const std::string problem = (keeps_serving ? "" : "no engine can be made: ") + std::string(message_of(error));
    log_.write(LogLevel::kError, problem);
    if (!keeps_serving) service_.report_change(problem);
  } catch (const std::exception&) {
  }
}

// Without memory for a line there is none.
std::string IdleLearning::description() const noexcept {
  try {
    return exchange_.describe();
  } catch (const std::exception&) {
    return {};
  }
}

// Tries once where the server ends, too: requests that came before wait. Null if there is no engine by then.
// Throws DeviceLost where none can be made.
Engine* IdleLearning::change_back() {
  bool undone = true;
  try {
    DurableFolder::undo(drafter_folder(options_.traffic));
  } catch (const std::exception& error) {
    undone = false;
    report(error, true);
  }
  for (bool reported = false;; reported = true) {
    try {
      return &exchange_.change_back(undone);
    } catch (const DeviceLost&) {
      throw;
    } catch (const std::exception& error) {
      if (!reported) report(error, false);
    }
    const auto until = std::chrono::steady_clock::now() + kBetweenTries;
    while (!stop_ && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(kTurn);
    if (stop_) return nullptr;
  }
}

}  // namespace ashlar
