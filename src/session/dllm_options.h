// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a block-diffusion model is to be decoded, as flags and a file say it.

#include <string>

#include "decode/block/block_decoder.h"

namespace ashlar {

struct DllmOptions {
  std::string algorithm;    ///< empty: what the file says, or the usual one
  std::string config_file;  ///< parameters of the algorithm; empty: its usual ones
  int32_t block_size = 0;   ///< 0: what the file says, or the model's own

  bool given() const { return !algorithm.empty() || !config_file.empty() || block_size != 0; }
};

/// Reads the file, if there is one: a flat map (io/flat_map.h) of `algorithm`, `block_size` and the algorithm's
/// parameters. The flags win over it. Throws Error("config", ...) naming file, line, what was found and expected.
BlockOptions block_options(const DllmOptions& options);

/// The same from the content of a file of that name.
BlockOptions parse_block_options(const DllmOptions& options, std::string_view text, const std::string& name);

}  // namespace ashlar
