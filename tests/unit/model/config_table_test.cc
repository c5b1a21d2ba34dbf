// SPDX-License-Identifier: Apache-2.0
// Every key of config.json in old and new spellings, held against what transformers reads
// (tools/goldens/make_config_goldens.py).

#include <cmath>

#include "unit/model/tiny_model.h"

namespace ashlar::testing {
namespace {

// Keys whose value says that they are not there, at any depth that the table has, go.
Json without_absent(const Json& object) {
  Json out = Json::object();
  for (const auto& [key, value] : object.items()) {
    if (value == "<absent>") continue;
    out[key] = value.is_object() ? without_absent(value) : value;
  }
  return out;
}

// What a config means, by the names of the table.
Json reading_of(const ModelConfig& config, const std::unique_ptr<Ops>& ops) {
  const StackConfig& stack = config.stack;
  const AttentionShape& shape = stack.layers[0].shape;
  const Rope rope(*ops, stack.layers[0].rope, shape.head_dim, 2);
  Json frequencies = Json::array(), windows = Json::array(), mixtures = Json::array();
  double amplitude = 0;
  for (int32_t i = 0; i < rope.table().rotary_dim / 2; ++i) {  // of the row of position 1
    const double cos = rope.table().cos[rope.table().rotary_dim / 2 + i];
    const double sin = rope.table().sin[rope.table().rotary_dim / 2 + i];
    frequencies.push_back(std::atan2(sin, cos));
    amplitude = std::hypot(sin, cos);
  }
  for (const LayerAttention& layer : stack.layers) windows.push_back(layer.window);
  Json out = {{"heads", shape.n_heads},     {"kv_heads", shape.n_kv_heads},       {"head_dim", shape.head_dim},
              {"norm_eps", stack.norm_eps}, {"inverse_frequencies", frequencies}, {"amplitude", amplitude},
              {"windows", windows},         {"tied", config.tied_head},           {"eos", config.stop_ids},
              {"qkv_bias", stack.qkv_bias}, {"output_bias", stack.output_bias},   {"qk_norm", stack.qk_norm},
              {"mlp_bias", stack.mlp_bias}};
  if (!stack.moe) return out;
  for (const bool mixture : stack.moe->layers) mixtures.push_back(mixture);
  out["mixtures"] = mixtures;
  out["experts"] = stack.moe->n_experts;
  out["experts_per_token"] = stack.moe->routing.top_k;
  out["normalise"] = stack.moe->routing.normalise;
  return out;
}

bool same(const Json& expected, const Json& found) {
  if (expected.is_array()) {
    if (expected.size() != found.size()) return false;
    for (size_t i = 0; i < expected.size(); ++i) {
      if (!same(expected[i], found[i])) return false;
    }
    return true;
  }
  if (!expected.is_number_float()) return expected == found;
  const auto value = expected.get<double>();
  return std::abs(value - found.get<double>()) <= 2e-6 * std::abs(value);
}

TEST(ConfigTable, EveryKeyMeansWhatItMeansToTransformers) {
  const Json table = read_json_file(std::filesystem::path(ASHLAR_SOURCE_DIR) / "tests/data/configs.json");
  const auto ops = make_device("ref", {});
  std::map<std::string, Json> usual;
  int read = 0, refused = 0;
  for (const Json& item : table["cases"]) {
    const auto family = item["family"].get<std::string>();
    SCOPED_TRACE(family + " with " + item["replaced"].dump());
    Json config = table["base"];
    config["model_type"] = family;
    if (family.ends_with("_moe")) config.update(table["mixture"]);
    config.update(item["replaced"]);
    const TempFolder folder;
    folder.write("config.json", without_absent(config).dump());
    if (item.contains("refused")) {
      expect_error([&] { read_model_config(folder.path()); }, {"config.json", item["refused"].get<std::string>()});
      ++refused;
      continue;
    }
    if (item.contains("theirs")) continue;  // they cannot use it: nothing to hold ours against
    Json expected = item["reading"];
    if (item["replaced"].empty()) {
      usual[family] = expected;
    } else {
      Json whole = usual.at(family);
      whole.update(expected);
      expected = whole;
    }
    Json found;
    ASSERT_NO_THROW(found = reading_of(read_model_config(folder.path()), ops));
    for (const auto& [key, value] : expected.items()) {
      EXPECT_TRUE(same(value, found[key])) << key << ": expected " << value.dump() << ", found " << found[key].dump();
    }
    ++read;
  }
  EXPECT_GE(read, 350);
  EXPECT_GE(refused, 16);
}

}  // namespace
}  // namespace ashlar::testing
