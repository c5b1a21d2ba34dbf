// SPDX-License-Identifier: Apache-2.0
#pragma once
// One streamed answer of an OpenAI-compatible server, with the time of each piece.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "measure/serve/sse_reader.h"

namespace ashlar {

/// What became of one request. Times in nanoseconds of base/clock.h.
struct RequestRecord {
  int64_t start_ns = 0;  ///< when it was sent, or in an open loop should have been
  int64_t first_ns = 0;  ///< first chunk with text
  int64_t last_ns = 0;   ///< last chunk with text
  int64_t end_ns = 0;
  int64_t chunks = 0;            ///< with text
  int64_t tokens = 0;            ///< usage.completion_tokens; the chunks where the server does not say
  bool tokens_reported = false;  ///< whether it did
  int64_t prompt_tokens = 0;
  bool drafting_reported = false;
  int64_t drafted = 0, accepted = 0;
  std::vector<double> gaps_s;  ///< between chunks with text
  std::string error;           ///< its kind, the same for all of a kind; empty: a whole answer came
  std::string detail;          ///< of the error, for people

  bool ok() const { return error.empty(); }
  double ttft_s() const { return static_cast<double>(first_ns - start_ns) * 1e-9; }
  double whole_s() const { return static_cast<double>(end_ns - start_ns) * 1e-9; }
  /// Whether itl_s() was measured: what comes in one chunk, as one token does, has no time between tokens.
  bool has_itl() const { return tokens > 1 && chunks > 1; }
  /// Time a token after the first chunk.
  double itl_s() const { return static_cast<double>(last_ns - first_ns) * 1e-9 / static_cast<double>(tokens - 1); }
};

/// Takes in the bytes of one answer. They come from outside: anything malformed ends in an error kind.
class StreamRecorder {
 public:
  explicit StreamRecorder(int64_t start_ns) { record_.start_ns = start_ns; }

  /// A piece of the body of an answer with this HTTP status.
  void bytes(long status, std::string_view piece, int64_t now_ns);
  /// The end. `problem`: kind of a failure of the connection, empty if the body came whole.
  RequestRecord finish(long status, const std::string& problem, const std::string& detail, int64_t now_ns);

 private:
  void event(std::string_view data, int64_t now_ns);
  void chunk(const Json& json, int64_t now_ns);
  void fail(const std::string& kind, std::string detail);

  SseReader reader_;
  RequestRecord record_;
  std::string refusal_;    // the body of an error answer, or its beginning
  bool done_ = false;      // [DONE] came
  bool finished_ = false;  // a finish_reason came
};

}  // namespace ashlar
