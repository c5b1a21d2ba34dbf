// SPDX-License-Identifier: Apache-2.0
#pragma once
// Drafters with other heads for the bundled model: its DFlash drafter, and what a head adds to it. For DFlash2 its rows
// know a little of those before them and its candidates a little of each other, as do those of LiLiCorr, for DSpark its
// logits a little of the token before, for Domino and xPress of all tokens before, and a confidence head rates DSpark's
// drafts. What is new is noise, too little to spoil its drafts and enough to choose others.

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "equivalence/configurations.h"
#include "golden/golden_data.h"
#include "io/weights/safetensors_writer.h"
#include "temp_folder.h"

namespace ashlar::testing {

class HeadDrafter {
 public:
  /// "dflash2", "dspark", "lilicorr", "domino" or "xpress". confidence: the logit around which a confidence head rates
  /// its drafts.
  explicit HeadDrafter(const std::string& head, float confidence = 1)
      : has_trees_(head == "dflash2" || head == "lilicorr") {
    const auto plain = models_folder() / "pebble-11m-dflash";
    Json config = read_json_file(plain / "config.json");
    Json& keys = config["dflash_config"];
    keys["projector_type"] = head;
    if (head == "dspark") {
      keys.update({{"markov_rank", kRank}, {"markov_head_type", "gated"}, {"sample_from_anchor", false}});
      keys.update({{"enable_confidence_head", true}, {"confidence_head_with_markov", true}});
    } else if (head == "domino") {
      keys.update({{"emb_dim", kRank}, {"gru_hidden_dim", kRank}, {"pure_draft_prefix_len", 1}});
    } else if (head == "xpress") {
      keys.update({{"xpress_rank", kRank}, {"xpress_mlp_hidden", 2 * kRank}, {"xpress_num_passes", 4}});
    } else if (head == "lilicorr") {
      keys.update({{"lilicorr_candidate_topk", kRanks}, {"lilicorr_hidden_size", kRank}, {"lilicorr_num_layers", 1}});
      keys.update({{"lilicorr_num_heads", 2}, {"lilicorr_mlp_ratio", 2.0}, {"lilicorr_factor_dim", kFactor}});
      keys.update({{"lilicorr_vector_eps", 1e-4}, {"lilicorr_logit_scale", 8.0}});
    } else {
      keys.update({{"conv_kernel_size", 2}, {"conv_group_size", 16}, {"selector_rank", kRank}, {"selector_top_k", 16}});
    }
    folder_.write("config.json", config.dump());

    const SafetensorsFile file(plain / "model.safetensors");
    for (const auto& [name, tensor] : file.tensors()) {
      std::vector<float> values;
      for (size_t i = 0; i < tensor.bytes; i += sizeof(BFloat16)) {
        BFloat16 value;
        std::memcpy(&value, tensor.data + i, sizeof value);
        values.push_back(to_float(value));
      }
      add(name, tensor.shape, std::move(values));
    }
    const int64_t hidden = config["hidden_size"].get<int64_t>(), vocab = config["vocab_size"].get<int64_t>();
    const int64_t block = (config.contains("block_size") ? config : keys)["block_size"].get<int64_t>();
    if (head == "dspark") {
      add_markov(hidden, vocab);
      add("confidence_head.proj.weight", {1, hidden + kRank}, noise(hidden + kRank, 0.05F));
      add("confidence_head.proj.bias", {1}, {confidence});
    } else if (head == "domino") {
      add("prefix_gru.weight_ih_l0", {3 * kRank, hidden}, noise(3 * kRank * hidden, 0.3F));
      add("prefix_gru.weight_hh_l0", {3 * kRank, kRank}, noise(3 * kRank * kRank, 0.2F));
      add("embed_proj.0.weight", {kRank, hidden + kRank}, noise(kRank * (hidden + kRank), 0.05F));
      add("embed_proj.2.weight", {vocab, kRank}, noise(vocab * kRank, 0.2F));
    } else if (head == "xpress") {
      add_refiner(block, hidden, vocab);
    } else if (head == "lilicorr") {
      add_lattice(block - 1, hidden);
    } else {
      add_selector(config["num_hidden_layers"].get<int64_t>(), hidden, vocab);
    }
    std::vector<TensorToWrite> tensors;
    for (const Stored& stored : stored_) {
      tensors.push_back({stored.name, stored.shape, stored.values, TensorToWrite::Type::kBF16});
    }
    write_safetensors(folder_ / "model.safetensors", tensors);
  }
  const std::filesystem::path& folder() const { return folder_.path(); }

  /// Ways to draft with it.
  std::vector<Configuration> methods() const {
    std::vector<Configuration> all;
    const auto add = [&](const std::string& name, const DflashOptions& options) -> Configuration& {
      Configuration& configuration = all.emplace_back();
      configuration.name = name;
      configuration.decoder = {"dflash", folder(), options};
      return configuration;
    };
    add("width 16", {.width = 16});
    add("width 16 in a chain", {.width = 16, .branches = 0});
    add("width 5 in a chain", {.width = 5, .branches = 0});
    if (has_trees_) add("all branches", {.width = 16, .branches = 15});
    add("width chosen", {}).decoder.ngram = NgramUse::kNever;
    add("n-gram drafts wherever there are any", {}).decoder.ngram = NgramUse::kAlways;
    add("window of 32", {.width = 16, .window = 32});
    return all;
  }

 private:
  static constexpr int64_t kRank = 32, kRanks = 8, kFactor = 16;
  struct Stored {
    std::string name;
    std::vector<int64_t> shape;
    std::vector<float> values;
  };

  void add_selector(int64_t layers, int64_t hidden, int64_t vocab) {
    for (int64_t layer = 0; layer < layers; ++layer) {
      for (const std::string conv : {".attention_conv.", ".mlp_conv."}) {
        const std::string base = "layers." + std::to_string(layer) + conv;
        std::vector<float> kernel = noise(4 * hidden, 0.05F);
        for (int64_t side = 0; side < 2; ++side) {
          for (int64_t c = 0; c < hidden; ++c) kernel[static_cast<size_t>(2 * side * hidden + c)] += 1;
        }
        add(base + "base_kernel", {2, 2, hidden}, std::move(kernel));
        add(base + "kernel_projection.weight", {hidden / 4, hidden}, noise(hidden * hidden / 4, 0.002F));
      }
    }
    add("candidate_selector.hidden_projection.weight", {kRank, hidden}, noise(kRank * hidden, 0.06F));
    add("candidate_selector.predecessor_codebook", {vocab, kRank}, noise(vocab * kRank, 0.4F));
    add("candidate_selector.successor_codebook", {vocab, kRank}, noise(vocab * kRank, 0.4F));
  }
  void add_markov(int64_t hidden, int64_t vocab) {
    add("markov_head.markov_w1.weight", {vocab, kRank}, noise(vocab * kRank, 1));
    add("markov_head.markov_w2.weight", {vocab, kRank}, noise(vocab * kRank, 0.2F));
    add("markov_head.gate_proj.weight", {kRank, hidden + kRank}, noise(kRank * (hidden + kRank), 0.03F));
    add("markov_head.gate_proj.bias", {kRank}, noise(kRank, 0.1F));
  }
  void add_refiner(int64_t block, int64_t hidden, int64_t vocab) {
    const std::string head = "xpress_head.";
    add(head + "w1.weight", {vocab, kRank}, noise(vocab * kRank, 1));
    add(head + "down_h.weight", {kRank, hidden}, noise(kRank * hidden, 0.03F));
    add(head + "down_g.weight", {kRank, hidden}, noise(kRank * hidden, 0.03F));
    add(head + "in_proj.weight", {kRank, 3 * kRank}, noise(3 * kRank * kRank, 0.15F));
    add(head + "mix.L", {kRank, block, block}, noise(kRank * block * block, 0.2F));
    add(head + "mlp.gate_proj.weight", {2 * kRank, kRank}, noise(2 * kRank * kRank, 0.15F));
    add(head + "mlp.up_proj.weight", {2 * kRank, kRank}, noise(2 * kRank * kRank, 0.15F));
    add(head + "mlp.down_proj.weight", {kRank, 2 * kRank}, noise(2 * kRank * kRank, 0.15F));
    add(head + "w2.weight", {vocab, kRank}, noise(vocab * kRank, 0.1F));
  }
  // A lattice that prefers likely candidates: channel 0 knows the rank, which is what the vectors compare, and the next
  // ones are constant, so that norms leave that as it is.
  void add_lattice(int64_t slots, int64_t hidden) {
    const auto linear = [&](const std::string& name, int64_t rows, int64_t cols, float deviation) {
      add("lilicorr." + name + ".weight", {rows, cols}, noise(rows * cols, deviation));
      add("lilicorr." + name + ".bias", {rows}, noise(rows, deviation));
    };
    const auto norm = [&](const std::string& name, int64_t n) {
      add("lilicorr." + name + ".weight", {n}, std::vector<float>(static_cast<size_t>(n), 1.0F));
    };
    const auto change = [&](const std::string& name, int64_t at, float by) {
      for (Stored& stored : stored_) {
        if (stored.name == "lilicorr." + name) stored.values[static_cast<size_t>(at)] += by;
      }
    };
    linear("token_proj", kRank, hidden, 0.03F);
    linear("pass_hidden_proj", kRank, hidden, 0.03F);
    norm("feature_mlp.0", 5);
    add("lilicorr.feature_mlp.0.bias", {5}, noise(5, 0.1F));
    linear("feature_mlp.1", kRank, 5, 0.3F);
    linear("feature_mlp.3", kRank, kRank, 0.1F);
    add("lilicorr.slot_embedding", {1, 1, slots, 1, kRank}, noise(slots * kRank, 0.1F));
    add("lilicorr.rank_embedding", {1, 1, 1, kRanks, kRank}, noise(kRanks * kRank, 0.1F));
    for (int64_t slot = 0; slot < slots; ++slot) {
      for (int64_t channel = 1; channel < 5; ++channel) change("slot_embedding", slot * kRank + channel, 2);
    }
    change("rank_embedding", 0, 4);
    change("rank_embedding", kRank, 1.5F);
    add("lilicorr.relative_slot_bias", {2, 2 * slots + 1}, noise(2 * (2 * slots + 1), 1));
    add("lilicorr.same_slot_bias", {2}, noise(2, 1));
    linear("context_proj", kRank, hidden, 0.1F);
    for (const std::string part : {"layers.0.attn_norm", "layers.0.mlp_norm", "output_norm", "anchor_norm"}) {
      norm(part, kRank);
    }
    add("lilicorr.layers.0.attn.in_proj_weight", {3 * kRank, kRank}, noise(3 * kRank * kRank, 0.2F));
    add("lilicorr.layers.0.attn.in_proj_bias", {3 * kRank}, noise(3 * kRank, 0.1F));
    linear("layers.0.attn.out_proj", kRank, kRank, 0.1F);
    linear("layers.0.mlp.0", 2 * kRank, kRank, 0.1F);
    linear("layers.0.mlp.2", kRank, 2 * kRank, 0.1F);
    linear("factor_input_proj", kRank, 3 * kRank, 0.03F);
    for (int64_t i = 0; i < kRank; ++i) change("factor_input_proj.weight", i * 3 * kRank + i, 1);
    for (const std::string head : {"out_head", "in_head", "anchor_out_head"}) linear(head, kFactor, kRank, 0.05F);
    change("out_head.bias", 0, 3);
    change("anchor_out_head.bias", 0, 3);
    change("in_head.weight", 0, 1);
    change("in_head.bias", 1, 2.5F);
  }
  void add(const std::string& name, const std::vector<int64_t>& shape, std::vector<float> values) {
    stored_.push_back({name, shape, std::move(values)});
  }
  std::vector<float> noise(int64_t n, float deviation) {
    std::vector<float> values(static_cast<size_t>(n));
    std::uniform_real_distribution<float> uniform(-1.73F * deviation, 1.73F * deviation);
    for (float& value : values) value = uniform(random_);
    return values;
  }

  bool has_trees_;
  TempFolder folder_;
  std::mt19937 random_{11};
  std::vector<Stored> stored_;
};

}  // namespace ashlar::testing
