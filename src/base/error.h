#pragma once
// Errors of start-up and of outside data. On the request path use Result (base/result.h) instead.

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
      : std::runtime_error("[" + std::string(tag) + "] " + std::string(message)) {}
};

}  // namespace ashlar
