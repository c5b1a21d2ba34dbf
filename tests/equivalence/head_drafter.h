// SPDX-License-Identifier: Apache-2.0
#pragma once
// Drafters with other heads for the bundled model: its DFlash drafter, and what a head adds to it. For DFlash2 its rows
// know a little of those before them and its candidates a little of each other, for DSpark its logits a little of the
// token before, and a confidence head rates its drafts. What is new is noise, too little to spoil its drafts and enough
// to choose others.

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "golden/golden_data.h"
#include "io/weights/safetensors_writer.h"
#include "temp_folder.h"

namespace ashlar::testing {

class HeadDrafter {
 public:
  /// "dflash2" or "dspark". confidence: the logit around which a confidence head rates its drafts.
  explicit HeadDrafter(const std::string& head, float confidence = 1) {
    const auto plain = models_folder() / "pebble-11m-dflash";
    Json config = read_json_file(plain / "config.json");
    Json& keys = config["dflash_config"];
    keys["projector_type"] = head;
    if (head == "dspark") {
      keys.update({{"markov_rank", kRank}, {"markov_head_type", "gated"}, {"sample_from_anchor", false}});
      keys.update({{"enable_confidence_head", true}, {"confidence_head_with_markov", true}});
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
    if (head == "dspark") {
      add_markov(hidden, vocab);
      add("confidence_head.proj.weight", {1, hidden + kRank}, noise(hidden + kRank, 0.05F));
      add("confidence_head.proj.bias", {1}, {confidence});
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

 private:
  static constexpr int64_t kRank = 32;
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
  void add(const std::string& name, const std::vector<int64_t>& shape, std::vector<float> values) {
    stored_.push_back({name, shape, std::move(values)});
  }
  std::vector<float> noise(int64_t n, float deviation) {
    std::vector<float> values(static_cast<size_t>(n));
    std::uniform_real_distribution<float> uniform(-1.73F * deviation, 1.73F * deviation);
    for (float& value : values) value = uniform(random_);
    return values;
  }

  TempFolder folder_;
  std::mt19937 random_{11};
  std::vector<Stored> stored_;
};

}  // namespace ashlar::testing
