// SPDX-License-Identifier: Apache-2.0
#pragma once
// What it costs in quality to keep fewer bits of something: a perplexity of the bundled model.

#include <fstream>
#include <iterator>
#include <stdexcept>

#include "equivalence/suite.h"
#include "measure/evaluation/perplexity.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar::testing {

/// Of pebble-11m on a legal text, far from what it was trained on, in windows of 256 tokens.
inline double perplexity_of_legal_text(Ops& ops) {
  const auto folder = models_folder() / "pebble-11m";
  std::ifstream file(std::filesystem::path(ASHLAR_SOURCE_DIR) / "LICENSE");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  PerplexityOptions options;
  options.window = 256;
  const auto windows = text_windows(Tokenizer::from_model(folder).encode(text), std::nullopt, options);
  if (windows.size() < 9) throw std::runtime_error("the text has few windows");
  const auto model = Model::load(ops, folder, options.window);
  return measure_perplexity(*open_engine(ops, *model, {}, options.window), windows, options, {}).value();
}

}  // namespace ashlar::testing
