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
#include <vector>

namespace ashlar {

struct HiddenServerOptions {
  std::string url;      ///< http or https, with or without /v1 at its end; empty: no server
  std::string api_key;  ///< empty: none
  int32_t at_once = 8;  ///< most requests on their way
  int32_t attempts = 5;
  std::chrono::milliseconds timeout{120'000};  ///< of an attempt
  std::chrono::milliseconds pause{1'000};      ///< before the second attempt; twice as long before each further one
};

class HiddenServer {
 public:
  /// Asks which model is served. Throws Error("train", ...) if that is not answered.
  explicit HiddenServer(HiddenServerOptions options);
  ~HiddenServer();
  HiddenServer(const HiddenServer&) = delete;
  HiddenServer& operator=(const HiddenServer&) = delete;

  /// Files with the hidden states of these documents, whole and the caller's to remove(). What may pass, such as a full
  /// server, is tried again. Throws Error("train", ...) with the server's own words where it refuses, or where the path
  /// leads to no file here.
  std::vector<std::filesystem::path> ask(std::span<const std::span<const int32_t>> documents);
  /// Takes a file away that has been read, with what locked it.
  static void remove(const std::filesystem::path& path);

 private:
  struct Reply;
  class Client;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ashlar
