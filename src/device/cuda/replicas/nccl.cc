// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/replicas/nccl.h"

#include <dlfcn.h>

#include <string>
#include <type_traits>

#include "base/error.h"

namespace ashlar::cuda {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";
// Of nccl.h, the same in all of NCCL 2.
constexpr int kSuccess = 0;
constexpr int kInProgress = 7;
constexpr int kFloat32 = 7;
constexpr int kSum = 0;

void* open_nccl() {
  if (void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL)) return library;
  const char* reason = dlerror();
  throw Error("cuda", std::string("training on several GPUs needs ") + kLibrary + ", which cannot be loaded (" +
                          (reason == nullptr ? "" : reason) +
                          "): install NCCL (package libnccl2, or nvidia-nccl-cu13 of pip) and name its folder in "
                          "LD_LIBRARY_PATH, or leave --gpus out");
}

}  // namespace

// Signatures of nccl.h, with its handles and enumerations as what they are in C.
struct Nccl::Calls {
  int (*init_all)(void** communicators, int n, const int* devices);
  int (*destroy)(void* communicator);
  int (*abort)(void* communicator);
  int (*async_error)(void* communicator, int* status);
  int (*all_reduce)(const void* from, void* to, size_t n, int type, int operation, void* communicator,
                    cudaStream_t stream);
  const char* (*message)(int status);
  const char* (*last_error)(void* communicator);

  Calls() {
    void* const library = open_nccl();  // stays until the program ends
    const auto find = [&](auto& to, const char* symbol) {
      void* const found = dlsym(library, symbol);
      if (found == nullptr)
        throw Error("cuda", std::string(kLibrary) + " lacks " + symbol + ": install NCCL 2.13 or newer");
      to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(found);
    };
    find(init_all, "ncclCommInitAll");
    find(destroy, "ncclCommDestroy");
    find(abort, "ncclCommAbort");
    find(async_error, "ncclCommGetAsyncError");
    find(all_reduce, "ncclAllReduce");
    find(message, "ncclGetErrorString");
    find(last_error, "ncclGetLastError");
  }
  static const Calls& loaded() {
    static const Calls calls;
    return calls;
  }
};

void Nccl::check(int status, const char* call) const {
  if (status == kSuccess) return;
  throw Error("cuda", std::string(call) + " failed: " + calls_.message(status) + " (" + calls_.last_error(nullptr) +
                          "); NCCL_DEBUG=WARN in the environment makes it say more");
}

Nccl::Nccl(std::span<const int32_t> devices) : calls_(Calls::loaded()), communicators_(devices.size()) {
  const std::vector<int> numbers(devices.begin(), devices.end());
  const int status = calls_.init_all(communicators_.data(), static_cast<int>(numbers.size()), numbers.data());
  if (status != kSuccess) communicators_.clear();
  check(status, "ncclCommInitAll");
}

Nccl::~Nccl() {
  // One whose peers are gone cannot be closed in order.
  for (void* const communicator : communicators_) {
    if (communicator != nullptr) (aborted_ ? calls_.abort : calls_.destroy)(communicator);
  }
}

void Nccl::check_queued(int32_t rank) const {
  int status = kSuccess;
  check(calls_.async_error(communicators_[static_cast<size_t>(rank)], &status), "ncclCommGetAsyncError");
  if (status != kInProgress) check(status, "ncclAllReduce");
}

void Nccl::abort(int32_t rank) {
  aborted_ = true;
  void*& communicator = communicators_[static_cast<size_t>(rank)];
  if (communicator != nullptr) calls_.abort(communicator);
  communicator = nullptr;
}

void Nccl::sum(int32_t rank, float* values, size_t n, cudaStream_t stream) {
  check(calls_.all_reduce(values, values, n, kFloat32, kSum, communicators_[static_cast<size_t>(rank)], stream),
        "ncclAllReduce");
}

}  // namespace ashlar::cuda
