// SPDX-License-Identifier: Apache-2.0
#include "io/weights/gguf_reader.h"

#include <algorithm>

#include "base/error.h"

namespace ashlar {

void GgufReader::fail(const std::string& message) const {
  throw Error("gguf", path_.string() + ": " + what_ + (what_.empty() ? "" : " ") + message);
}

std::span<const std::byte> GgufReader::take(uint64_t count, const char* what) {
  const uint64_t left = bytes_.size() - at_;
  if (count > left) {
    fail("ends within " + std::string(what) + ", which takes " + std::to_string(count) + " bytes; " +
         std::to_string(left) + " are left (is the file truncated?)");
  }
  const auto out = bytes_.subspan(at_, count);
  at_ += count;
  return out;
}

std::string_view GgufReader::string(const char* what, uint64_t most) {
  const auto length = number<uint64_t>(what);
  if (length > most) {
    fail("has " + std::to_string(length) + " bytes as " + what + "; expected at most " + std::to_string(most));
  }
  return text(length, what);
}

void GgufReader::check_count(const char* what, uint64_t count, uint64_t most, uint64_t least) const {
  if (count > most) {
    fail("claims " + std::to_string(count) + " " + what + "; expected at most " + std::to_string(most));
  }
  const uint64_t left = bytes_.size() - at_;
  if (count > left / least) {
    fail("claims " + std::to_string(count) + " " + what + ", and " + std::to_string(left) +
         " bytes follow (is the file truncated?)");
  }
}

}  // namespace ashlar
