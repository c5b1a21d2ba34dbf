// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ashlar {

/// Cuts a text/event-stream (WHATWG HTML, server-sent events) into the data of its events, whatever pieces it comes in.
/// Fields other than `data` and comments are skipped.
class SseReader {
 public:
  /// Calls `on_data` for each event that `bytes` completes; the view is valid during the call. False, now and ever
  /// after, once an event is larger than 8 MiB.
  bool feed(std::string_view bytes, const std::function<void(std::string_view)>& on_data);
  /// Whether an event has begun that has not ended.
  bool midway() const { return has_data_ || !line_.empty(); }

 private:
  void end_line(const std::function<void(std::string_view)>& on_data);

  std::string line_, data_;
  bool has_data_ = false;
  bool after_cr_ = false;  // "\r\n" ends one line, not two
  bool failed_ = false;
};

}  // namespace ashlar
