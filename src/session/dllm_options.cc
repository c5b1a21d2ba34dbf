// SPDX-License-Identifier: Apache-2.0
#include "session/dllm_options.h"

#include <cmath>
#include <set>

#include "base/error.h"
#include "io/flat_map.h"
#include "io/json.h"
#include "io/mapped_file.h"

namespace ashlar {
namespace {

// As large as the parser takes, and a byte more, to see that it is larger.
constexpr size_t kMaxBytes = (64 << 10) + 1;

// Other engines' files spell keys with hyphens too.
std::string underscored(std::string key) {
  for (char& c : key) c = c == '-' ? '_' : c;
  return key;
}

int32_t block_size_of(const FlatEntry& entry, const std::string& name) {
  const double value = number_of(entry, name);
  if (!(value >= 1 && value <= kMaxWidth) || value != std::floor(value)) {
    throw Error("config", place_of(entry, name) + "block_size is " + for_message(entry.value) +
                              "; expected a whole number from 1 to " + std::to_string(kMaxWidth));
  }
  return static_cast<int32_t>(value);
}

}  // namespace

BlockOptions parse_block_options(const DllmOptions& options, std::string_view text, const std::string& name) {
  const std::vector<FlatEntry> entries = parse_flat_map(text, name);
  BlockOptions out;
  out.algorithm.name = options.algorithm;
  std::set<std::string> keys;  // parse_flat_map() knows one spelling of each only
  for (const FlatEntry& entry : entries) {
    if (!keys.insert(underscored(entry.key)).second) {
      throw Error("config", place_of(entry, name) + "\"" + for_message(entry.key) + "\" is there twice");
    }
    if (underscored(entry.key) == "block_size") out.block_size = block_size_of(entry, name);
    if (entry.key != "algorithm") continue;
    try {
      const AlgorithmDescription& algorithm = find_algorithm(entry.value);
      if (options.algorithm.empty()) out.algorithm.name = algorithm.name;
    } catch (const Error& error) {
      throw Error("config", place_of(entry, name) + std::string(error.message()));
    }
  }
  const AlgorithmDescription& algorithm = find_algorithm(out.algorithm.name);
  for (const FlatEntry& entry : entries) {
    const std::string key = underscored(entry.key);
    if (key == "algorithm" || key == "block_size") continue;
    const bool known = find_parameter(algorithm, key) != nullptr;
    const double value = known ? number_of(entry, name) : 0;
    const std::string problem = problem_with(algorithm, key, value);
    if (!problem.empty()) {
      throw Error("config", place_of(entry, name) + "the algorithm " + algorithm.name + problem +
                                (known ? "" : ", algorithm, block_size"));
    }
    out.algorithm.values.emplace(key, value);
  }
  if (options.block_size > 0) out.block_size = options.block_size;
  return out;
}

BlockOptions block_options(const DllmOptions& options) {
  const std::string text = options.config_file.empty() ? "" : read_text_file(options.config_file, kMaxBytes);
  return parse_block_options(options, text, options.config_file);
}

}  // namespace ashlar
