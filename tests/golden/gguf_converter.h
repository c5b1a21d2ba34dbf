// SPDX-License-Identifier: Apache-2.0
#pragma once
// The GGUF file that llama.cpp's converter makes of a folder of the families whose tensors it changes: gated delta
// nets, short convolutions, experts in pieces, layers that draft. Written from the converter, not from src/.

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gguf_writer.h"
#include "golden/gguf_converter_keys.h"
#include "golden/gguf_converter_names.h"
#include "golden/golden_data.h"
#include "io/weights/checkpoint.h"

namespace ashlar::testing {

class GgufConverter {
 public:
  explicit GgufConverter(const std::filesystem::path& folder)
      : keys_(read_json_file(folder / "config.json")), config_(keys_.config()), name_(keys_.architecture()) {
    take(Checkpoint(folder));
  }

  GgufWriter file() {
    keys_.write(file_);
    stack_experts();
    if (name_ == "qwen35moe") split_gates();
    if (config_.contains("linear_num_key_heads")) change_delta_nets();
    for (auto& [name, tensor] : tensors_) {
      if (name.find("conv.conv.") != std::string::npos || name.find("conv1d") != std::string::npos) {
        tensor.shape = {tensor.shape[0], tensor.shape[2]};
      }
      // Halves of what rotates are neighbours there.
      const bool turned = name_ == "llada" || name_ == "mistral3";
      if (turned && (name.ends_with(".q_proj.weight") || name.ends_with(".k_proj.weight"))) {
        const size_t heads = size_of(name.ends_with(".q_proj.weight") ? "num_attention_heads" : "num_key_value_heads");
        const auto rows = static_cast<size_t>(tensor.shape[0]), row = tensor.bytes.size() / rows;
        for (size_t h = 0; h < heads; ++h) {
          tensor.by_turns(tensor.bytes.size(), h * rows / heads * row, 2, rows / heads / 2, row);
        }
      }
      std::string as = converted_name(name);
      const std::string before_mlp = "post_attention_norm";  // which has its old name in older architectures
      const bool older = name_ == "dream" || name_ == "mistral3";
      if (const size_t at = as.find(before_mlp); older && at != std::string::npos) {
        as.replace(at, before_mlp.size(), "ffn_norm");
      }
      write(as, tensor);
    }
    if (name_ == "gemma4") keys_.write_frequencies(file_);
    return file_;
  }

 private:
  struct Tensor {
    std::string dtype;
    std::vector<int64_t> shape;
    std::string bytes;

    size_t item() const { return dtype == "F32" ? 4 : 2; }
    std::vector<float> numbers() const {
      std::vector<float> values(bytes.size() / item());
      for (size_t i = 0; i < values.size(); ++i) {
        uint32_t bits = 0;
        std::memcpy(reinterpret_cast<char*>(&bits) + 4 - item(), bytes.data() + i * item(), item());
        std::memcpy(&values[i], &bits, sizeof bits);
      }
      return values;
    }
    template <class Change>
    void change(Change by) {
      std::string changed;
      for (const float value : numbers()) changed += GgufWriter::raw(static_cast<float>(by(value)));
      bytes = changed;
      dtype = "F32";
    }
    /// Pieces of `size` bytes in rows of `groups` times `of_group`, from `first` on in each `length` bytes: the first
    /// of each group, then the second of each.
    void by_turns(size_t length, size_t first, size_t groups, size_t of_group, size_t size) {
      std::string out = bytes;
      for (size_t at = first; at < bytes.size(); at += length) {
        for (size_t g = 0; g < groups; ++g) {
          for (size_t i = 0; i < of_group; ++i) {
            out.replace(at + (i * groups + g) * size, size, bytes, at + (g * of_group + i) * size, size);
          }
        }
      }
      bytes = out;
    }
  };

  // Of the text model, under the names that it has without towers.
  void take(const Checkpoint& checkpoint) {
    for (const auto& [stored, tensor] : checkpoint.tensors()) {
      std::string name = stored;
      const auto replace = [&name](const std::string& from, const std::string& to) {
        if (name.starts_with(from)) name = to + name.substr(from.size());
      };
      replace("model.language_model.", "model.");
      replace("model.transformer.blocks.", "model.layers.");
      const auto next = "model.layers." + std::to_string(keys_.layers()) + ".";
      if (name.starts_with("mtp.")) keys_.need_drafting_layer();
      replace("mtp.layers.0.", next);
      replace("mtp.fc.", next + "eh_proj.");
      replace("mtp.pre_fc_norm_embedding.", next + "enorm.");
      replace("mtp.pre_fc_norm_hidden.", next + "hnorm.");
      replace("mtp.norm.", next + "shared_head.norm.");
      if (name.find("vis") != std::string::npos) continue;
      tensors_[name] = {tensor->dtype, tensor->shape, {reinterpret_cast<const char*>(tensor->data), tensor->bytes}};
    }
  }

  // "NAME.experts.3.X.weight" of all experts as "NAME.experts.X".
  void stack_experts() {
    constexpr std::string_view kExperts = ".experts.";
    std::map<std::string, Tensor> all;
    for (int e = 0;; ++e) {
      const std::string part = std::string(kExperts) + std::to_string(e) + ".";
      bool found = false;
      for (const auto& [name, tensor] : tensors_) {
        const size_t at = name.find(part);
        if (at == std::string::npos) continue;
        found = true;
        std::string merged = name.substr(0, at) + std::string(kExperts) + name.substr(at + part.size());
        Tensor& whole = all[merged.substr(0, merged.rfind(".weight"))];
        whole.dtype = tensor.dtype;
        whole.shape = {e + 1, tensor.shape[0], tensor.shape[1]};
        whole.bytes += tensor.bytes;
      }
      if (!found) break;
      std::erase_if(tensors_, [&](const auto& one) { return one.first.find(part) != std::string::npos; });
    }
    tensors_.merge(all);
  }

  void split_gates() {
    std::map<std::string, Tensor> halves;
    for (auto& [name, tensor] : tensors_) {
      const size_t at = name.find("gate_up_proj");
      if (at == std::string::npos) continue;
      const size_t half = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]) / 2;
      for (const size_t which : {0U, 1U}) {
        Tensor part = {tensor.dtype, {tensor.shape[0], tensor.shape[1] / 2, tensor.shape[2]}, {}};
        for (size_t e = which; e < 2 * static_cast<size_t>(tensor.shape[0]); e += 2) {
          part.bytes += tensor.bytes.substr(e * half, half);
        }
        halves[name.substr(0, at) + (which == 0 ? "gate_proj" : "up_proj")] = part;
      }
    }
    std::erase_if(tensors_, [](const auto& one) { return one.first.find("gate_up_proj") != std::string::npos; });
    tensors_.merge(halves);
  }

  size_t size_of(const char* key) const { return config_[key].get<size_t>(); }

  // Norms get the one that their weights lack, but for those inside of the nets, whose value heads change places in
  // Qwen3.5.
  void change_delta_nets() {
    const size_t k_heads = size_of("linear_num_key_heads"), of_k = size_of("linear_num_value_heads") / k_heads;
    const size_t v_dim = size_of("linear_value_head_dim"), keys = 2 * k_heads * size_of("linear_key_head_dim");
    std::map<std::string, Tensor> apart;
    for (auto& [name, tensor] : tensors_) {
      if (name.ends_with("norm.weight") && !name.ends_with("linear_attn.norm.weight")) {
        tensor.change([](float value) { return value + 1; });
      }
      if (name.ends_with("A_log")) tensor.change([](float value) { return -std::exp(value); });
      const size_t at = name.find("linear_attn.");
      if (at == std::string::npos) continue;
      if (name.find("in_proj_qkvz") != std::string::npos) split_qkvz(name, tensor, apart);
      if (name_ == "qwen3next") continue;
      const size_t all = tensor.bytes.size(), row = all / static_cast<size_t>(tensor.shape[0]), item = tensor.item();
      const std::string part = name.substr(at + 12);
      if (part.starts_with("in_proj_qkv") || part.starts_with("conv1d")) {
        tensor.by_turns(all, keys * row, k_heads, of_k, v_dim * row);
      } else if (part.starts_with("in_proj_z")) {
        tensor.by_turns(all, 0, k_heads, of_k, v_dim * row);
      } else if (part.starts_with("out_proj")) {
        tensor.by_turns(row, 0, k_heads, of_k, v_dim * item);
      } else if (!part.starts_with("norm")) {  // a number, or a row, for each head
        tensor.by_turns(all, 0, k_heads, of_k, row);
      }
    }
    std::erase_if(tensors_, [](const auto& one) { return one.first.find("in_proj_qkvz") != std::string::npos; });
    tensors_.merge(apart);
  }

  // Rows of q, k, v and z of each key head: those of a kind together, and z by itself.
  void split_qkvz(std::string name, const Tensor& tensor, std::map<std::string, Tensor>& apart) const {
    const size_t k_heads = size_of("linear_num_key_heads"), k_dim = size_of("linear_key_head_dim");
    const size_t values = size_of("linear_num_value_heads") / k_heads * size_of("linear_value_head_dim");
    const size_t row = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]), head = 2 * (k_dim + values);
    std::string rows[4];
    const size_t sizes[] = {k_dim, k_dim, values, values};
    for (size_t h = 0; h < k_heads; ++h) {
      size_t at = h * head;
      for (size_t kind = 0; kind < 4; at += sizes[kind++])
        rows[kind] += tensor.bytes.substr(at * row, sizes[kind] * row);
    }
    name.replace(name.find("in_proj_qkvz"), 12, "in_proj_");
    const size_t at = name.find("in_proj_") + 8;
    const auto put = [&](const char* which, const std::string& bytes) {
      apart[std::string(name).insert(at, which)] = {
          tensor.dtype, {static_cast<int64_t>(bytes.size() / row), tensor.shape[1]}, bytes};
    };
    put("qkv", rows[0] + rows[1] + rows[2]);
    put("z", rows[3]);
  }

  void write(const std::string& name, const Tensor& tensor) {
    file_.tensor(name, {tensor.shape.rbegin(), tensor.shape.rend()}, tensor.dtype == "F32" ? 0 : 30, tensor.bytes);
  }

  GgufConverterKeys keys_;
  const Json config_;
  const std::string name_;
  std::map<std::string, Tensor> tensors_;
  GgufWriter file_;
};

}  // namespace ashlar::testing
