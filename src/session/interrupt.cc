#include "session/interrupt.h"

#include <csignal>

namespace ashlar {
namespace {

volatile std::sig_atomic_t interrupted = 0;
struct sigaction previous;

void on_signal(int) { interrupted = 1; }

}  // namespace

InterruptScope::InterruptScope() {
  interrupted = 0;
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, &previous);
}

InterruptScope::~InterruptScope() { sigaction(SIGINT, &previous, nullptr); }

bool InterruptScope::requested() { return interrupted != 0; }

}  // namespace ashlar
