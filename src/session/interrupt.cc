// SPDX-License-Identifier: Apache-2.0
#include "session/interrupt.h"

#include <array>
#include <csignal>

namespace ashlar {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM};

volatile std::sig_atomic_t interrupted = 0;
std::array<struct sigaction, kSignals.size()> previous;

size_t number_of(InterruptScope::Signals signals) { return signals == InterruptScope::Signals::kInterrupt ? 1 : 2; }

void on_signal(int) { interrupted = 1; }

}  // namespace

InterruptScope::InterruptScope(Signals signals) : signals_(signals) {
  interrupted = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  for (size_t i = 0; i < number_of(signals_); ++i) sigaction(kSignals[i], &action, &previous[i]);
}

InterruptScope::~InterruptScope() {
  for (size_t i = 0; i < number_of(signals_); ++i) sigaction(kSignals[i], &previous[i], nullptr);
}

bool InterruptScope::requested() { return interrupted != 0; }

}  // namespace ashlar
