// SPDX-License-Identifier: Apache-2.0
#pragma once
// Load on an OpenAI-compatible server: streamed requests, n at a time (closed loop) or n a second whatever becomes
// of them (open loop).

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "measure/prompt_file.h"
#include "measure/serve/load_schedule.h"
#include "measure/serve/serve_stream.h"

namespace ashlar {

enum class LoadApi { kChat, kCompletions };

struct ServeLoadOptions {
  std::string url;    ///< "http://127.0.0.1:8080", with or without /v1
  std::string model;  ///< empty: the first that the server lists
  std::string api_key;
  LoadApi api = LoadApi::kChat;
  int32_t max_tokens = 128;
  double temperature = 0;
  int64_t requests = 0;    ///< of each level; 0: as many as fit into `duration_s`
  double duration_s = 0;   ///< of sending, for each level; 0: until `requests` are sent. Answers are waited for
  uint64_t seed = 0;       ///< of the arrivals of an open loop
  double timeout_s = 600;  ///< of one request
};

struct LevelRun {
  LoadLevel level;
  double seconds = 0;  ///< from the first request to the last answer
  std::vector<RequestRecord> records;
};

/// The body of a request. Throws Error("bench", ...) if the API cannot take the prompt: chat takes no token ids.
std::string load_request_body(const ServeLoadOptions& options, const EvalPrompt& prompt);

class ServeLoad {
 public:
  using Progress = std::function<void(int64_t done, int64_t total)>;

  /// Asks the server for its model unless one is named. Throws Error("bench", ...) if it cannot be reached, or if a
  /// prompt does not suit the API.
  ServeLoad(ServeLoadOptions options, const std::vector<EvalPrompt>& prompts);
  ~ServeLoad();
  ServeLoad(const ServeLoad&) = delete;
  ServeLoad& operator=(const ServeLoad&) = delete;

  const ServeLoadOptions& options() const;
  /// One request outside all measurements: connects, and has the server do what it does only once. Throws
  /// Error("bench", ...) if it fails.
  void warm_up();
  /// Sends a level's requests, in the order of the prompts, from the first one on; waits for all answers. `progress`
  /// counts answers, or tenths of seconds where only the duration is known.
  LevelRun run(const LoadLevel& level, const Progress& progress = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ashlar
