// SPDX-License-Identifier: Apache-2.0
#include "io/file_watch.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

namespace ashlar {

// Watches are used again and never freed: the handler walks their list without a lock.
class FileWatch {
 public:
  std::atomic<uintptr_t> begin{0};  // 0: free
  std::atomic<size_t> bytes{0};
  std::atomic<bool> cut{false};
  FileWatch* next = nullptr;
};

namespace {

std::atomic<FileWatch*> all_watches{nullptr};
std::mutex changes;  // of the list and of the handler
int watched = 0;
struct sigaction before {};
const auto page_bytes = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));

// Puts zeros where the file has ended. Only calls what a signal handler may: mmap is a system call and no more.
bool replace_with_zeros(uintptr_t address) {
  for (FileWatch* watch = all_watches.load(); watch != nullptr; watch = watch->next) {
    const uintptr_t begin = watch->begin.load();
    if (begin == 0 || address < begin || address - begin >= watch->bytes.load()) continue;
    const uintptr_t from = address / page_bytes * page_bytes;
    const size_t size = begin + watch->bytes.load() - from;
    watch->cut.store(true);
    return mmap(reinterpret_cast<void*>(from), size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE,
                -1, 0) != MAP_FAILED;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  const bool is_fault = info->si_code > 0;  // not sent by a process
  if (is_fault && replace_with_zeros(reinterpret_cast<uintptr_t>(info->si_addr))) {
    errno = error;
    return;
  }
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    // The fault comes again when this returns, and then ends the program as it would have.
    ::signal(signal, SIG_DFL);
    if (!is_fault) ::raise(signal);
  }
  errno = error;
}

void install_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGBUS, &action, &before);
}

// Not if somebody has put another one in its place since.
void remove_handler() {
  struct sigaction now {};
  sigaction(SIGBUS, nullptr, &now);
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_bus_error) sigaction(SIGBUS, &before, nullptr);
}

FileWatch& free_watch() {
  for (FileWatch* watch = all_watches.load(); watch != nullptr; watch = watch->next) {
    if (watch->begin.load() == 0) return *watch;
  }
  auto* watch = new FileWatch;
  watch->next = all_watches.load();
  all_watches.store(watch);
  return *watch;
}

}  // namespace

FileWatch* watch_file(const std::byte* begin, size_t bytes) {
  const std::lock_guard lock(changes);
  FileWatch& watch = free_watch();
  watch.cut.store(false);
  watch.bytes.store(bytes);
  watch.begin.store(reinterpret_cast<uintptr_t>(begin));
  if (watched++ == 0) install_handler();
  return &watch;
}

void end_watch(FileWatch* watch) {
  const std::lock_guard lock(changes);
  watch->begin.store(0);
  if (--watched == 0) remove_handler();
}

bool was_cut(const FileWatch& watch) { return watch.cut.load(); }

}  // namespace ashlar
