// SPDX-License-Identifier: Apache-2.0
#include "measure/serve/serve_stream.h"

#include <algorithm>

#include "base/error.h"

namespace ashlar {
namespace {

constexpr size_t kMaxRefusalBytes = 4096;
constexpr int64_t kMaxCount = int64_t{1} << 40;

// Null where there is no such member, or no object.
const Json* member(const Json& json, const char* key) {
  if (!json.is_object()) return nullptr;
  const auto at = json.find(key);
  return at == json.end() || at->is_null() ? nullptr : &*at;
}

bool is_text(const Json* json) {
  return json != nullptr && json->is_string() && !json->get_ref<const std::string&>().empty();
}

// Whether a choice carries something that the model wrote.
bool has_text(const Json& choice) {
  if (is_text(member(choice, "text"))) return true;
  const Json* delta = member(choice, "delta");
  if (delta == nullptr) return false;
  for (const char* key : {"content", "reasoning_content", "reasoning", "refusal"}) {
    if (is_text(member(*delta, key))) return true;
  }
  const Json* calls = member(*delta, "tool_calls");
  return calls != nullptr && calls->is_array() && !calls->empty();
}

bool read_count(const Json* json, int64_t& count) {
  if (json == nullptr || !json->is_number_integer()) return false;
  const auto value = json->get<int64_t>();
  if (value < 0 || value > kMaxCount) return false;
  count = value;
  return true;
}

// {"error": {"message": ...}} or {"error": "..."} or whatever else stands there.
std::string message_of(const Json& json) {
  const Json* error = member(json, "error");
  const Json* message = error == nullptr ? member(json, "message") : member(*error, "message");
  if (message == nullptr) message = error;
  return message != nullptr && message->is_string() ? for_message(message->get<std::string>()) : "";
}

std::string message_of_body(const std::string& body) {
  try {
    return message_of(parse_json(body, "body"));
  } catch (const Error&) {
    return for_message(body);
  }
}

}  // namespace

void StreamRecorder::fail(const std::string& kind, std::string detail) {
  if (!record_.error.empty()) return;
  record_.error = kind;
  record_.detail = std::move(detail);
}

void StreamRecorder::bytes(long status, std::string_view piece, int64_t now_ns) {
  if (status != 200) {
    refusal_ += piece.substr(0, kMaxRefusalBytes - std::min(kMaxRefusalBytes, refusal_.size()));
    return;
  }
  if (!record_.error.empty()) return;
  if (!reader_.feed(piece, [&](std::string_view data) { event(data, now_ns); })) {
    fail("malformed stream", "an event is larger than 8 MiB");
  }
}

void StreamRecorder::event(std::string_view data, int64_t now_ns) {
  if (done_ || !record_.error.empty()) return;
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  try {
    chunk(parse_json(data, "a chunk"), now_ns);
  } catch (const Error& error) {
    fail("malformed stream", error.what());
  }
}

void StreamRecorder::chunk(const Json& json, int64_t now_ns) {
  if (!json.is_object()) return fail("malformed stream", "a chunk is no JSON object");
  if (member(json, "error") != nullptr) return fail("error in the stream", message_of(json));
  bool wrote = false;
  if (const Json* choices = member(json, "choices"); choices != nullptr && choices->is_array()) {
    for (const Json& choice : *choices) {
      wrote = wrote || has_text(choice);
      finished_ = finished_ || is_text(member(choice, "finish_reason"));
    }
  }
  if (wrote) {
    if (record_.chunks++ == 0) {
      record_.first_ns = now_ns;
    } else {
      record_.gaps_s.push_back(static_cast<double>(now_ns - record_.last_ns) * 1e-9);
    }
    record_.last_ns = now_ns;
  }
  if (const Json* usage = member(json, "usage")) {  // the last one counts: some servers send one with every chunk
    if (read_count(member(*usage, "completion_tokens"), record_.tokens)) record_.tokens_reported = true;
    read_count(member(*usage, "prompt_tokens"), record_.prompt_tokens);
  }
  const Json* metrics = member(json, "metrics");
  const Json* drafting = metrics == nullptr ? nullptr : member(*metrics, "speculative_decoding");
  if (drafting != nullptr && read_count(member(*drafting, "drafted"), record_.drafted) &&
      read_count(member(*drafting, "accepted"), record_.accepted)) {
    record_.drafting_reported = true;
  }
}

RequestRecord StreamRecorder::finish(long status, const std::string& problem, const std::string& detail,
                                     int64_t now_ns) {
  record_.end_ns = now_ns;
  if (!record_.tokens_reported) record_.tokens = record_.chunks;
  if (!problem.empty() && !done_) {
    fail(problem, detail);
  } else if (status != 200) {
    fail("HTTP " + std::to_string(status), message_of_body(refusal_));
  } else if (!done_ && !finished_) {
    fail(record_.chunks == 0 ? "malformed stream" : "ended early",
         record_.chunks == 0 ? "no event of a completion came" : "neither [DONE] nor a finish_reason came");
  } else if (record_.chunks == 0) {
    fail("empty answer", "no chunk had text");
  }
  return std::move(record_);
}

}  // namespace ashlar
