// SPDX-License-Identifier: Apache-2.0
#pragma once
// How one API words an answer. One object for each request; not thread-safe.

#include <memory>
#include <string>
#include <vector>

#include "server/generation.h"

namespace ashlar::server {

/// What a format must know of a request besides its events.
struct FormatContext {
  std::string id;         ///< unique, without a prefix: "4f1c..."
  std::string model;      ///< the name served
  int64_t created_s = 0;  ///< Unix time
  Generation generation;
  std::vector<std::string> prompt_texts;  ///< for echo, one a prompt
};

class Format {
 public:
  virtual ~Format() = default;

  /// The whole body of a request that does not stream. `answers` are in order of index.
  virtual std::string body(const std::vector<FinishedAnswer>& answers, const Usage& usage) = 0;

  // A stream, as bytes of stream_type(api) ready to send ("data: ...\n\n", "event: ...\ndata: ...\n\n", or a line of
  // JSON); any of them may be empty. Order: begin, deltas and ends of the answers interleaved, finish or failed. After
  // deltas, pause: what a format has held back because a later delta might have made it needless.
  virtual std::string begin(const Usage& prompt_usage) = 0;
  /// Before the deltas of an answer, where log-probabilities of its prompt are wanted.
  virtual std::string prompt(int32_t /*index*/, const std::vector<TokenPiece>& /*tokens*/) { return {}; }
  virtual std::string delta(const AnswerDelta& delta) = 0;
  virtual std::string pause() { return {}; }
  /// For a stream that has nothing to send for a while, so that neither client nor proxy takes it for dead. After
  /// begin.
  virtual std::string keep_alive() { return ": keep-alive\n\n"; }
  /// Not of an answer that failed or was cut off: there `failed` follows.
  virtual std::string end(const AnswerEnd& end) = 0;
  virtual std::string finish(const Usage& usage) = 0;
  /// Something broke after the stream had begun.
  virtual std::string failed(const ApiError& error) = 0;
};

}  // namespace ashlar::server
