// SPDX-License-Identifier: Apache-2.0
// Every usual mistake in a drafter's configuration is among those that are undone, and named as the file must say it.

#include "model/drafters/drafter_repairs.h"

#include <algorithm>

#include "unit/model/head_json.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kMask = 19, kOther = 17;

Json dflash(const std::string& patch) {
  Json config = patched(tiny_config(), R"({"num_hidden_layers":1,"num_target_layers":6,"block_size":4,"is_causal":false,
    "dflash_config":{"mask_token_id":19,"target_layer_ids":[1,2,4]}})");
  config["dflash_config"] = patched(config["dflash_config"], patch);
  return config;
}

Json dflash_of_speculators(const std::string& patch) {
  Json config = patched(parse_json(R"({"speculators_model_type":"dflash","aux_hidden_state_layer_ids":[2,3,5],
    "mask_token_id":19,"draft_vocab_size":20})",
                                   "speculators"),
                        patch);
  config["transformer_layer_config"] = tiny_config();
  return config;
}

Json eagle3(const std::string& patch) {
  return patched(patched(tiny_config("llama"), R"({"num_hidden_layers":1,"draft_vocab_size":20,
    "eagle_config":{"eagle_aux_hidden_state_layer_ids":[1,2,4]}})"),
                 patch);
}

Json peagle(const std::string& patch) {
  Json config = patched(parse_json(R"({"speculators_model_type":"peagle","draft_vocab_size":20,"mask_token_id":19,
    "norm_before_residual":true,"eagle_aux_hidden_state_layer_ids":[2,3,5]})",
                                   "speculators"),
                        patch);
  config["transformer_layer_config"] = tiny_config("llama");
  return config;
}

struct Mistake {
  const char* name;
  Json (*config)(const std::string& patch);
  const char* wrong;  // what is changed in it
  const char* named;  // what undoes it
};

class UsualMistake : public ::testing::TestWithParam<Mistake> {
 protected:
  UsualMistake() {
    target_.stack.n_layers = 6;
    target_.stack.hidden = 8;
    target_.vocab = 20;
    target_.stack.layers.resize(6);
    for (LayerAttention& layer : target_.stack.layers) layer.rope.theta = 1000;
  }
  template <class Config>
  static Config read_as(const Json& json);
  template <class Config>
  void expect_named(bool (*same)(const Config&, const Config&)) const {
    const Config right = read_as<Config>(GetParam().config("{}"));
    const Config wrong = read_as<Config>(GetParam().config(GetParam().wrong));
    EXPECT_FALSE(same(right, wrong));
    const std::vector<int32_t> masks = {kMask, kOther};
    const auto repairs = usual_repairs(wrong, target_, masks);
    const auto named =
        std::ranges::find_if(repairs, [](const auto& repair) { return repair.what == GetParam().named; });
    ASSERT_NE(named, repairs.end());
    EXPECT_TRUE(named->what.starts_with(named->setting + " "));
    EXPECT_TRUE(same(named->config, right));
    EXPECT_EQ(std::ranges::count_if(repairs, [&](const auto& repair) { return same(repair.config, right); }), 1);
    // Where nothing is wrong nothing is tried twice, or as it is.
    for (const auto& repair : usual_repairs(right, target_, masks)) EXPECT_FALSE(same(repair.config, right));
  }
  ModelConfig target_;
};

template <>
DflashConfig UsualMistake::read_as(const Json& json) {
  return read(json);
}

template <>
Eagle3Config UsualMistake::read_as(const Json& json) {
  const TempFolder folder;
  folder.write("config.json", json.dump());
  return read_eagle3_config(folder.path());
}

bool same_layers(const StackConfig& a, const StackConfig& b) {
  const auto alike = [](const LayerAttention& x, const LayerAttention& y) {
    return x.rope == y.rope && x.causal == y.causal;
  };
  return std::ranges::equal(a.layers, b.layers, alike);
}

TEST_P(UsualMistake, IsUndoneAndNamed) {
  const TempFolder folder;
  folder.write("config.json", GetParam().config("{}").dump());
  if (is_eagle3_folder(folder.path())) {
    expect_named<Eagle3Config>([](const Eagle3Config& a, const Eagle3Config& b) {
      return a.aux_layers == b.aux_layers && a.mask_id == b.mask_id && a.normed_residual == b.normed_residual &&
             a.normed_output == b.normed_output && same_layers(a.stack, b.stack);
    });
  } else {
    expect_named<DflashConfig>([](const DflashConfig& a, const DflashConfig& b) {
      return a.aux_layers == b.aux_layers && a.mask_id == b.mask_id && a.sample_from_anchor == b.sample_from_anchor &&
             same_layers(a.stack, b.stack);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Drafters, UsualMistake,
    ::testing::Values(
        Mistake{"DflashHigher", dflash, R"({"target_layer_ids":[2,3,5]})", "target_layer_ids one lower, [1, 2, 4]"},
        Mistake{"DflashLower", dflash, R"({"target_layer_ids":[0,1,3]})", "target_layer_ids one higher, [1, 2, 4]"},
        Mistake{"DflashOrder", dflash, R"({"target_layer_ids":[4,2,1]})",
                "target_layer_ids in ascending order, [1, 2, 4]"},
        Mistake{"DflashMask", dflash, R"({"mask_token_id":5})", "mask_token_id 19"},
        Mistake{"DflashSlots", dflash, R"({"sample_from_anchor":true})", "sample_from_anchor false"},
        Mistake{"SpeculatorsHigher", dflash_of_speculators, R"({"aux_hidden_state_layer_ids":[3,4,6]})",
                "aux_hidden_state_layer_ids one lower, [2, 3, 5]"},
        Mistake{"Eagle3Higher", eagle3, R"({"eagle_config":{"eagle_aux_hidden_state_layer_ids":[2,3,5]}})",
                "eagle_aux_hidden_state_layer_ids one lower, [1, 2, 4]"},
        Mistake{"Eagle3Lower", eagle3, R"({"eagle_config":{"eagle_aux_hidden_state_layer_ids":[0,1,3]}})",
                "eagle_aux_hidden_state_layer_ids one higher, [1, 2, 4]"},
        Mistake{"Eagle3Order", eagle3, R"({"eagle_config":{"eagle_aux_hidden_state_layer_ids":[4,2,1]}})",
                "eagle_aux_hidden_state_layer_ids in ascending order, [1, 2, 4]"},
        Mistake{"Eagle3Convention", eagle3, R"({"eagle_aux_hidden_state_layer_ids":[1,2,4]})",
                "eagle_aux_hidden_state_layer_ids one higher, [2, 3, 5]"},
        Mistake{"Eagle3Residual", eagle3, R"({"norm_before_residual":true})", "norm_before_residual false"},
        Mistake{"Eagle3Output", eagle3, R"({"norm_output":true})", "norm_output false"},
        Mistake{"Eagle3Rope", eagle3, R"({"rope_theta":10})", "rope_theta as the target's, 1000 with its rope_scaling"},
        Mistake{"PeagleHigher", peagle, R"({"eagle_aux_hidden_state_layer_ids":[3,4,6]})",
                "eagle_aux_hidden_state_layer_ids one lower, [2, 3, 5]"},
        Mistake{"PeagleMask", peagle, R"({"mask_token_id":5})", "mask_token_id 19"}),
    [](const auto& info) { return std::string(info.param.name); });

// What z-lab's form has around `dflash_config`.
Json dflash_outside(const std::string& patch) { return patched(dflash("{}"), patch); }
INSTANTIATE_TEST_SUITE_P(Outside, UsualMistake,
                         ::testing::Values(Mistake{"Causal", dflash_outside, R"({"is_causal":true})",
                                                   "is_causal false"},
                                           Mistake{"Bidirectional",
                                                   [](const std::string& patch) {
                                                     return patched(dflash_outside(R"({"is_causal":true})"), patch);
                                                   },
                                                   R"({"is_causal":false})", "is_causal true"},
                                           Mistake{"Rope", dflash_outside, R"({"rope_theta":10})",
                                                   "rope_theta as the target's, 1000 with its rope_scaling"}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace ashlar::testing
