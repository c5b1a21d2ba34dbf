// SPDX-License-Identifier: Apache-2.0
#include "app/process/stack_room.h"

#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>

#include "base/error.h"

namespace ashlar {
namespace {

constexpr rlim_t kEnough = rlim_t{1} << 20;
constexpr rlim_t kWanted = rlim_t{8} << 20;

bool raise_limit(rlimit limit) {
  // Only a privileged process may raise the upper limit; any may go up to it.
  for (const rlim_t upper : {std::max(limit.rlim_max, kWanted), limit.rlim_max}) {
    const rlimit raised = {std::min(upper, kWanted), upper};
    if (raised.rlim_cur >= kEnough && setrlimit(RLIMIT_STACK, &raised) == 0) return true;
  }
  return false;
}

struct Call {
  const std::function<int()>& work;
  int code;
  sigset_t signals;
};

void* run(void* argument) {
  auto& call = *static_cast<Call*>(argument);
  pthread_sigmask(SIG_SETMASK, &call.signals, nullptr);
  call.code = call.work();
  return nullptr;
}

}  // namespace

int with_stack_room(const std::function<int()>& work) {
  rlimit limit{};
  if (getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kEnough) return work();
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kWanted);
  pthread_setattr_default_np(&attributes);
  if (raise_limit(limit)) {
    pthread_attr_destroy(&attributes);
    return work();
  }
  // Signals are for the thread that works: the first one waits for its end, and for nothing else.
  Call call = {work, 1, {}};
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &call.signals);
  pthread_t thread;
  const int failed = pthread_create(&thread, &attributes, run, &call);
  pthread_attr_destroy(&attributes);
  if (failed != 0) {
    throw Error("stack", "the stack is limited to " + std::to_string(limit.rlim_cur >> 10) +
                             " KiB, and there is no memory for a larger one; raise the limit: ulimit -s 8192");
  }
  pthread_join(thread, nullptr);
  return call.code;
}

}  // namespace ashlar
