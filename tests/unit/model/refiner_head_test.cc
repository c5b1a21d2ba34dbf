// SPDX-License-Identifier: Apache-2.0
// What a config must say of a head that chooses all drafts of a block again in rounds, and what its checkpoint must
// hold in each of its two forms.

#include "unit/model/head_json.h"

namespace ashlar::testing {
namespace {

Json xpress(const std::string& patch = "{}") {
  Json config = with_head();
  config["architectures"] = {"Qwen3XPressModel"};
  config["dflash_config"] = parse_json(R"({"mask_token_id":19,"target_layer_ids":[0,1]})", "xpress");
  return patched(config, patched(parse_json(R"({"xpress_rank":3,"xpress_mlp_hidden":6,"xpress_block_size":4,
    "xpress_num_passes":2,"xpress_topc":512,"sample_from_anchor":false})",
                                            "xpress"),
                                 patch)
                             .dump());
}

Json in_speculators(const std::string& patch = "{}") {
  return speculators(
      patched(parse_json(R"({"speculators_model_type":"xpress","block_size":4,"xpress_rank":3})", "xpress"), patch)
          .dump());
}

TEST(RefinerHead, IsWhatItsConfigSays) {
  const DflashConfig config = read(xpress());
  EXPECT_EQ(config.head, "xpress");
  ASSERT_TRUE(config.refiner && config.drafts_chains() && !config.in_turn());
  EXPECT_EQ(config.refiner->rank, 3);
  EXPECT_EQ(config.refiner->inner, 6);
  EXPECT_EQ(config.refiner->rounds, 2);
  EXPECT_EQ(config.max_width(), 4);
  EXPECT_EQ(read(xpress(R"({"xpress_num_passes":"<absent>"})")).refiner->rounds, 6);
  // Speculators has words and values of its own.
  const DflashConfig other = read(in_speculators(R"({"xpress_mlp_ratio":4,"num_jacobi_passes":5})"));
  EXPECT_EQ(other.refiner->inner, 12);
  EXPECT_EQ(other.refiner->rounds, 5);
  const DflashConfig bare = read(in_speculators(R"({"xpress_rank":"<absent>"})"));
  EXPECT_EQ(bare.refiner->rank, 256);
  EXPECT_EQ(bare.refiner->inner, 512);
  EXPECT_EQ(bare.refiner->rounds, 6);
  EXPECT_FALSE(bare.sample_from_anchor);

  for (const char* key : {"xpress_rank", "xpress_mlp_hidden"}) {
    refuse(xpress("{\"" + std::string(key) + "\":\"<absent>\"}"), {key, "found nothing"});
    refuse(xpress("{\"" + std::string(key) + "\":0}"), {key, "found 0"});
  }
  refuse(xpress(R"({"xpress_num_passes":65})"), {"xpress_num_passes", "1 to 64"});
  refuse(xpress(R"({"xpress_block_size":5})"), {"xpress_block_size", "the drafter's own, 4"});
  refuse(in_speculators(R"({"block_size":17})"), {"block_size", "at most 16, with this head"});
}

class RefinerLoading : public HeadLoading {
 protected:
  static Tensors whole(bool own_form) {
    const std::pair<const char*, std::vector<int64_t>> kParts[][2] = {
        {{"xpress_head.w1.weight", {20, 3}}, {"refiner_head.token_embed.weight", {20, 3}}},
        {{"xpress_head.down_h.weight", {3, 8}}, {"refiner_head.down_h.weight", {3, 8}}},
        {{"xpress_head.down_g.weight", {3, 8}}, {"refiner_head.down_g.weight", {3, 8}}},
        {{"xpress_head.in_proj.weight", {3, 9}}, {"refiner_head.in_proj.weight", {3, 9}}},
        {{"xpress_head.mix.L", {3, 4, 4}}, {"refiner_head.mix_l", {3, 4, 4}}},
        {{"xpress_head.mlp.gate_proj.weight", {6, 3}}, {"refiner_head.mlp_gate.weight", {6, 3}}},
        {{"xpress_head.mlp.up_proj.weight", {6, 3}}, {"refiner_head.mlp_up.weight", {6, 3}}},
        {{"xpress_head.mlp.down_proj.weight", {3, 6}}, {"refiner_head.mlp_down.weight", {3, 6}}},
        {{"xpress_head.w2.weight", {20, 3}}, {"refiner_head.readout.weight", {20, 3}}}};
    Tensors result = backbone();
    for (const auto& part : kParts) {
      const auto& [name, shape] = part[own_form ? 0 : 1];
      add_random(result, name, shape);
      // The same numbers by either name.
      if (own_form) result[name].bytes = whole(false).at(part[1].first).bytes;
    }
    if (own_form) return result;
    add_random(result, "embed_tokens.weight", {20, 8});
    add_random(result, "lm_head.weight", {20, 8});
    return result;
  }
  // What logits grow by in a block of three rows.
  std::vector<float> correction(const Json& config, const Tensors& tensors) {
    const ModelFolder folder(config, tensors);
    const auto drafter = DflashDrafter::load(*model_, folder.path());
    std::vector<float> hidden(24), out(40);
    for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = static_cast<float>(i % 7) - 3;
    const BlockRefiner::Block block = {0, 3};
    const int32_t before[] = {5, 6, 7}, wanted[] = {1, 2};
    drafter->refiner()->reserve(*ops_, 3);
    drafter->refiner()->begin(*ops_, {hidden.data(), 3, 8, 8}, {&block, 1});
    drafter->refiner()->correct(*ops_, before, wanted, {out.data(), 2, 20, 20});
    return out;
  }
};

TEST_F(RefinerLoading, TakesAWholeCheckpointOfEitherFormAndNoOther) {
  const Json other = in_speculators(R"({"xpress_mlp_ratio":2})");
  const std::vector<float> found = correction(xpress(), whole(true));
  EXPECT_EQ(found, correction(other, whole(false)));
  EXPECT_NE(found, std::vector<float>(40));
  refuse_each(xpress(), whole(true));
  Tensors biased = whole(true);
  add_random(biased, "xpress_head.in_proj.bias", {3});
  expect_error([&] { load(xpress(), biased); }, {"xpress_head.in_proj.bias", "no such tensor"});
}

}  // namespace
}  // namespace ashlar::testing
