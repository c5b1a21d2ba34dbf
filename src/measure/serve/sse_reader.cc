// SPDX-License-Identifier: Apache-2.0
#include "measure/serve/sse_reader.h"

#include <algorithm>

namespace ashlar {
namespace {

constexpr size_t kMaxEventBytes = size_t{8} << 20;

}  // namespace

bool SseReader::feed(std::string_view bytes, const std::function<void(std::string_view)>& on_data) {
  if (after_cr_ && !bytes.empty()) {
    if (bytes.front() == '\n') bytes.remove_prefix(1);
    after_cr_ = false;
  }
  while (!bytes.empty() && !failed_) {
    const size_t end = bytes.find_first_of("\r\n");
    line_ += bytes.substr(0, end);
    failed_ = line_.size() + data_.size() > kMaxEventBytes;
    if (end == std::string_view::npos || failed_) break;
    const bool carriage = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    if (carriage) {
      after_cr_ = bytes.empty();
      if (!bytes.empty() && bytes.front() == '\n') bytes.remove_prefix(1);
    }
    end_line(on_data);
  }
  return !failed_;
}

void SseReader::end_line(const std::function<void(std::string_view)>& on_data) {
  if (line_.empty()) {
    if (has_data_) on_data(data_);
    data_.clear();
    has_data_ = false;
    return;
  }
  std::string_view value = line_;
  if (value == "data" || value.starts_with("data:")) {
    value.remove_prefix(std::min<size_t>(5, value.size()));
    if (value.starts_with(' ')) value.remove_prefix(1);
    if (has_data_) data_ += '\n';
    data_ += value;
    has_data_ = true;
  }
  line_.clear();
}

}  // namespace ashlar
