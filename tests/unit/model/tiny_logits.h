// SPDX-License-Identifier: Apache-2.0
#pragma once
// What tiny models compute.

#include <cmath>

#include "base/bf16.h"
#include "golden/direct_decoding.h"
#include "unit/model/tiny_model.h"

namespace ashlar::testing {

/// Logits of all rows of a short prompt.
inline std::vector<float> tiny_logits(Ops& ops, const ModelFolder& folder) {
  const std::unique_ptr<Model> model = Model::load(ops, folder.path());
  DirectDecoder decoder(*model, nullptr, 16);
  const Tensor rows = decoder.target({1, 7, 3, 19, 0}, 0, {});
  std::vector<float> values;
  for (int32_t r = 0; r < rows.rows; ++r) values.insert(values.end(), rows.row(r), rows.row(r) + rows.cols);
  return values;
}

/// `tensor`, which is of bf16, as f32.
inline TensorSpec widened(const TensorSpec& tensor) {
  std::vector<float> values(tensor.bytes.size() / 2);
  for (size_t i = 0; i < values.size(); ++i) {
    BFloat16 value;
    std::memcpy(&value, tensor.bytes.data() + i * 2, 2);
    values[i] = to_float(value);
  }
  return floats_of(tensor.name, tensor.shape, values);
}

/// On every device a model of f32, but for these tensors, computes with them in bf16 what it computes with the same
/// values in f32, bit for bit; and every device what `ref` does, up to rounding.
inline void expect_types_mix(const Json& config, Tensors tensors, const std::vector<std::string>& names) {
  for (const std::string& name : names) add_random(tensors, name, tensors.at(name).shape, "BF16");
  const ModelFolder mixed(config, tensors);
  for (const std::string& name : names) tensors[name] = widened(tensors.at(name));
  const ModelFolder wide(config, tensors);
  const std::vector<float> want = tiny_logits(*make_device("ref", {}), wide);
  std::vector<std::string> isas = isa_choices();
  isas.push_back("ref");
  for (const std::string& isa : isas) {
    SCOPED_TRACE(isa);
    const auto ops = isa == "ref" ? make_device("ref", {}) : make_device("cpu", {2, isa, KvDType::kF32});
    const std::vector<float> got = tiny_logits(*ops, mixed);
    EXPECT_EQ(got, tiny_logits(*ops, wide));
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], 2e-5 * (1 + std::abs(want[i]))) << i;
  }
}

}  // namespace ashlar::testing
