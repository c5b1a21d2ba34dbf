// SPDX-License-Identifier: Apache-2.0
#pragma once
// Hidden states from a server: `ashlar serve --allow-hidden-states`, or vLLM with its connector for them. A prompt of
// token ids is answered with the path of a file on a file system that both see. Source: vllm-project/speculators,
// data_generation; vllm-project/vllm, example_hidden_states_connector.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace ashlar {

struct HiddenServerOptions {
  std::string url;      ///< http or https, with or without /v1 at its end; empty: no server
  std::string api_key;  ///< empty: none
  int32_t at_once = 8;  ///< most requests on their way
  int32_t attempts = 5;
  std::chrono::milliseconds timeout{120'000};  ///< of an attempt
  std::chrono::milliseconds pause{1'000};      ///< before the second attempt; twice as long before each further one
};

/// A file with a document's hidden states.
struct ServedFile {
  std::filesystem::path path;
  bool is_new = false;    ///< written since it was asked for: not a file that was here before
  bool has_lock = false;  ///< with a lock next to it, as vLLM's connector writes
};

/// The server gives no hidden states: thrown before anything of a step was computed.
class HiddenServerError : public Error {
 public:
  explicit HiddenServerError(std::string_view message) : Error("train", message) {}
};

class HiddenServer {
 public:
  /// Asks which model is served. Throws HiddenServerError if that is not answered.
  explicit HiddenServer(HiddenServerOptions options);
  ~HiddenServer();
  HiddenServer(const HiddenServer&) = delete;
  HiddenServer& operator=(const HiddenServer&) = delete;

  /// Files with the hidden states of these documents, whole and the caller's to remove(). What may pass, such as a full
  /// server, is tried again. Throws HiddenServerError with the server's own words where it refuses, or where the path
  /// leads to no file here; nothing is left then.
  std::vector<ServedFile> ask(std::span<const std::span<const int32_t>> documents);
  /// Takes files away, with what locked them: those alone that were written for these questions, whatever a server
  /// says.
  static void remove(std::span<const ServedFile> files);

 private:
  struct Reply;
  class Client;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ashlar
