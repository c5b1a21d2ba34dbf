// SPDX-License-Identifier: Apache-2.0
#pragma once
// Configurations of DFlash drafters as files.

#include "model/drafters/dflash_config.h"
#include "unit/model/tiny_model.h"

namespace ashlar::testing {

inline DflashConfig read(const Json& config) {
  const TempFolder folder;
  folder.write("config.json", config.dump());
  return read_dflash_config(folder.path());
}

/// The error has all of `parts`, and names the file.
inline void refuse(const Json& config, std::vector<std::string> parts) {
  SCOPED_TRACE(config.dump());
  parts.push_back("config.json");
  expect_error([&] { read(config); }, parts);
}

}  // namespace ashlar::testing
