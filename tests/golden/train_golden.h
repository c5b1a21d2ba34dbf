// SPDX-License-Identifier: Apache-2.0
#pragma once
// The training of tests/data/train: shape, settings, documents and weights as tools/goldens/make_train_goldens.py and
// make_eagle3_train_goldens.py and make_mtp_train_goldens.py have them.

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"
#include "train/drafter_trainer.h"

namespace ashlar::testing {

struct TrainGolden {
  explicit TrainGolden(const std::string& variant_name)
      : name(variant_name),
        make_network(variant_name.starts_with("eagle3") ? make_eagle3_network
                     : variant_name.starts_with("mtp")  ? make_mtp_network
                                                        : make_block_network),
        json(read_json_file(data_folder() / "train" /
                            (make_network == make_eagle3_network ? "eagle3.json"
                             : make_network == make_mtp_network  ? "mtp.json"
                                                                 : "goldens.json"))),
        variant(json["variants"][variant_name]) {
    read_shape();
    read_settings();
    embedding = noise("embedding", shape.vocab * shape.hidden, kUnit, 0);
    head = noise("head", shape.vocab * shape.hidden, kUnit * 0.3, 0);
    const Json& listed = json["documents"];
    for (size_t i = 0; i < listed.size(); ++i) {
      ids.push_back(listed[i]["ids"].get<std::vector<int32_t>>());
      supervised.push_back(listed[i]["supervised"].get<std::vector<uint8_t>>());
      const auto rows = static_cast<int64_t>(ids.back().size());
      aux_hidden.push_back(noise("aux_hidden." + std::to_string(i), rows * shape.aux_width, kUnit, 0));
      final_hidden.push_back(noise("final_hidden." + std::to_string(i), rows * shape.hidden, kUnit, 0));
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      const auto rows = static_cast<int32_t>(ids[i].size());
      documents.push_back({ids[i], supervised[i], {aux_hidden[i].data(), rows, shape.aux_width, shape.aux_width}});
      if (!settings.distribution) continue;
      documents.back().final_hidden = {final_hidden[i].data(), rows, shape.hidden, shape.hidden};
    }
  }

  /// The documents' hidden states to a device whose memory is not the host's, which outlives this.
  void move_to(TrainOps& ops) {
    const auto move = [&](const std::vector<float>& values, Tensor& to) {
      const size_t bytes = values.size() * sizeof(float);
      on_device.push_back(ops.allocate(bytes));
      ops.upload(values.data(), on_device.back()->data(), bytes);
      to.data = on_device.back()->data();
    };
    for (size_t i = 0; i < documents.size(); ++i) {
      move(aux_hidden[i], documents[i].aux_hidden);
      if (settings.distribution) move(final_hidden[i], documents[i].final_hidden);
    }
    ops.wait();
  }

  std::unique_ptr<DrafterTrainer> make_trainer(TrainOps& ops) const {
    auto trainer = std::make_unique<DrafterTrainer>(ops, shape, settings, embedding, head, nullptr, make_network);
    for (const TrainParameter& p : trainer->parameters()) {
      const bool vector = p.shape.size() == 1;
      const double scale = vector ? 0.3 : kUnit / std::sqrt(static_cast<double>(p.shape[1]));
      const std::vector<float> values = noise(p.name, static_cast<int64_t>(p.values.size()), scale, vector ? 1 : 0);
      std::copy(values.begin(), values.end(), p.values.begin());
    }
    return trainer;
  }

  /// Of the even or the odd steps.
  std::vector<DrafterTrainer::Anchors> anchors(size_t step) const {
    std::vector<DrafterTrainer::Anchors> out;
    for (const Json& document : json["documents"]) {
      out.push_back(document["anchors"][step % 2].get<DrafterTrainer::Anchors>());
    }
    return out;
  }

  std::vector<float> noise(const std::string& tensor, int64_t count, double scale, double offset) const {
    const std::string bytes = seeded_bytes({{"name", tensor},
                                            {"dtype", "F32"},
                                            {"shape", {count}},
                                            {"scale", static_cast<float>(scale)},
                                            {"offset", static_cast<float>(offset)}},
                                           json["seed"].get<uint64_t>());
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  static constexpr double kUnit = 1.7320508075688772;  // the deviation of the noise at this scale is 1
  std::string name;
  MakeNetwork make_network;
  Json json;
  Json variant;
  TrainShape shape;
  TrainSettings settings;
  std::vector<float> embedding, head;
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<uint8_t>> supervised;
  std::vector<std::vector<float>> aux_hidden, final_hidden;
  std::vector<TrainDocument> documents;
  std::vector<std::unique_ptr<Buffer>> on_device;

 private:
  void read_shape() {
    const Json& from = json["shape"];
    const auto read = [&](const char* key, auto& to) { from.at(key).get_to(to); };
    read("hidden", shape.hidden);
    read("layers", shape.layers);
    read("heads", shape.heads);
    read("kv_heads", shape.kv_heads);
    read("head_dim", shape.head_dim);
    read("intermediate", shape.intermediate);
    read("aux_width", shape.aux_width);
    read("vocab", shape.vocab);
    read("block", shape.block);
    read("eps", shape.eps);
    read("rope_theta", shape.rope_theta);
    read("mask_token_id", shape.mask_token_id);
    for (const Json& sight : variant.value("sights", Json::array())) {
      shape.sights.push_back({sight["window"].get<int32_t>(), sight["causal"].get<bool>()});
    }
    shape.embedding_scale = variant.value("embedding_scale", 1.0F);
    shape.output_multiplier = variant.value("output_multiplier", 1.0F);
    shape.target_multiplier = variant.value("target_multiplier", 1.0F);
    shape.draft_ids = variant.value("draft_ids", std::vector<int32_t>{});
    const auto part = [&](const char* of, const char* key) { return variant[of][key].get<int32_t>(); };
    if (variant.contains("convolutions")) {
      shape.convolutions = {part("convolutions", "taps"), part("convolutions", "group")};
    }
    if (variant.contains("own_layer")) {
      const Json& own = variant["own_layer"];
      shape.own_layer = {own["rotary_dim"].get<int32_t>(), own["output_gate"].get<bool>(), false,
                         noise("target_norm", shape.hidden, 0.3, 1)};
    }
    if (variant.contains("markov")) shape.markov = {part("markov", "rank"), part("markov", "rated_width")};
    if (variant.contains("selector")) shape.selector = {part("selector", "rank"), part("selector", "candidates")};
  }
  void read_settings() {
    const Json& from = json["settings"];
    const auto read = [&](const char* key, auto& to) { from.at(key).get_to(to); };
    read("learning_rate", settings.learning_rate);
    read("beta1", settings.beta1);
    read("beta2", settings.beta2);
    read("eps", settings.eps);
    read("clip", settings.clip);
    read("warmup_share", settings.warmup_share);
    read("total_steps", settings.total_steps);
    read("gamma", settings.gamma);
    read("alpha", settings.alpha);
    variant.at("weight_decay").get_to(settings.weight_decay);
    if (variant.contains("muon_rate")) {
      settings.matrices = MatrixOptimiser::kMuon;
      variant.at("muon_rate").get_to(settings.muon_rate);
      variant.at("muon_momentum").get_to(settings.muon_momentum);
      variant.at("muon_weight_decay").get_to(settings.muon_weight_decay);
    }
    if (variant.contains("loss")) {
      const std::map<std::string, DistributionLoss> losses = {{"kl", DistributionLoss::kKl},
                                                              {"tv", DistributionLoss::kTv},
                                                              {"nla", DistributionLoss::kOverlap},
                                                              {"lk", DistributionLoss::kLk}};
      settings.distribution = losses.at(variant["loss"].get<std::string>());
    }
    settings.selector_weight = variant.value("selector_weight", 1.0);
    settings.rating_weight = variant.value("rating_weight", 1.0);
    const bool linear = variant["schedule"] == "linear";
    settings.schedule = linear ? LearningRateSchedule::kLinear : LearningRateSchedule::kCosine;
    settings.weights = variant["weights"] == "dpace" ? PositionWeights::kDpace : PositionWeights::kDecay;
  }
};

}  // namespace ashlar::testing
