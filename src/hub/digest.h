// SPDX-License-Identifier: Apache-2.0
#pragma once
// The hash that a file's ETag promises, taken while the file comes in.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "hub/names.h"

namespace ashlar::hub {

/// SHA-256 of the bytes, or the SHA-1 that git gives a blob: that of "blob SIZE\0" and the bytes.
class Digest {
 public:
  /// `size` in bytes of the whole file; git's hash begins with it. `kind` is not kNone.
  Digest(EtagKind kind, int64_t size);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void update(std::string_view bytes);
  /// Hexadecimal digits in lower case; the end of this digest.
  std::string finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace ashlar::hub
