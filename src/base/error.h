// SPDX-License-Identifier: Apache-2.0
#pragma once
// Errors of start-up and of outside data. On the request path use Result (base/result.h) instead.

#include <cstddef>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

namespace ashlar {

/// Thrown when outside data (a file, a flag, a template) is not what it must be.
/// what() reads "[tag] message": the tag names the reader ("safetensors"), the message names the file or field,
/// what was found, what was expected and, where it is not obvious, what to do.
class Error : public std::runtime_error {
 public:
  Error(std::string_view tag, std::string_view message)
      : std::runtime_error("[" + std::string(tag) + "] " + std::string(message)), tag_size_(tag.size() + 3) {}

  /// what() without the tag: for answers to people who do not know the readers.
  std::string_view message() const { return std::string_view(what()).substr(tag_size_); }

 private:
  size_t tag_size_;
};

/// Thrown when a device can compute nothing more in this process, as after an illegal address on a GPU: whatever is
/// asked of it from now on fails, so that the process has to end. Memory that runs out is not of this kind.
class DeviceLost : public Error {
 public:
  using Error::Error;
};

/// What an exception says, to people: memory that has run out says so by no more than a name.
inline const char* message_of(const std::exception& error) noexcept {
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? "out of memory" : error.what();
}

/// A copy for code that must report an error and not make another: what fits without memory, where the text does not.
inline std::string copy_or_less(std::string_view text) noexcept {
  try {
    return std::string(text);
  } catch (const std::bad_alloc&) {
    return "out of memory";
  }
}

}  // namespace ashlar
