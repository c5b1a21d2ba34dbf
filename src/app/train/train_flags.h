// SPDX-License-Identifier: Apache-2.0
#pragma once
// The flags of `ashlar train`.

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "app/train/regeneration.h"
#include "session/session.h"
#include "train/run/train_options.h"

namespace ashlar {

struct TrainCommand {
  SessionOptions session;
  TrainOptions train;
  RegenerationOptions regeneration;
  std::vector<std::string> data;
  std::string output, from, preset, config, json;
  std::string method = "dflash";
  std::string mask_token;
  bool dry_run = false;
  bool evaluate = false;
  bool capture = false;
};

void add_train_flags(CLI::App& app, TrainCommand& command);

/// Throws Error("train", ...) for a flag that means nothing to the method.
void check_train_flags(const CLI::App& app, const TrainCommand& command);

/// What the flags say of the training itself, with its paths.
TrainOptions train_options(const TrainCommand& command);

}  // namespace ashlar
