// SPDX-License-Identifier: Apache-2.0
#include "app/sampling_defaults.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "io/json.h"
#include "io/mapped_file.h"

namespace ashlar {
namespace {

constexpr int32_t kMaxTopK = std::numeric_limits<int32_t>::max();

double above_zero(const JsonFields& fields, const char* key, double high, double fallback) {
  const double value = fields.number(key, 0, high, fallback);
  if (value > 0) return value;
  std::ostringstream expected;
  expected << "a number above 0, at most " << high;
  fields.fail(key, expected.str());
}

// Programs that write these files make 50.0 of 50, and -1 of a top-k that is off.
int32_t top_k(const JsonFields& fields, int32_t fallback) {
  if (!fields.has("top_k")) return fallback;
  const Json& value = fields.raw("top_k");
  const double number = value.is_number() ? value.get<double>() : -2;
  if (!(number >= -1 && number <= kMaxTopK && number == std::floor(number))) {
    fields.fail("top_k", "an integer from -1 (off) to " + std::to_string(kMaxTopK));
  }
  return std::max(static_cast<int32_t>(number), 0);
}

}  // namespace

server::SamplingDefaults read_sampling_defaults(const std::filesystem::path& folder) {
  server::SamplingDefaults out;
  const std::filesystem::path path = folder / "generation_config.json";
  if (!file_exists(path)) return out;
  const Json config = read_json_file(path);
  const JsonFields fields(config, path.string(), "config");
  out.temperature = fields.number("temperature", 0, 100, out.temperature);
  if (!fields.boolean("do_sample", true)) out.temperature = 0;
  out.top_p = above_zero(fields, "top_p", 1, out.top_p);
  out.top_k = top_k(fields, out.top_k);
  out.min_p = fields.number("min_p", 0, 1, out.min_p);
  out.repetition_penalty = above_zero(fields, "repetition_penalty", 100, out.repetition_penalty);
  return out;
}

}  // namespace ashlar
