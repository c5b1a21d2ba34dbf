// SPDX-License-Identifier: Apache-2.0
// The bundled models on a GPU against PyTorch in float32. Activations are bf16 there, so logits are a hundredth off and
// answers part where the two best logits of the golden lie close together.

#include "cuda/on_gpu.h"
#include "golden/direct_decoding.h"
#include "golden/engine_answers.h"

namespace ashlar::testing {
namespace {

class PebbleOnGpu : public OnGpu {};

TEST_F(PebbleOnGpu, LogitsAgree) {
  const auto model = Model::load(*ops_, models_folder() / "pebble-11m", 320);
  const Json json = read_json_file(data_folder() / "pebble-11m" / "goldens.json");
  const SafetensorsFile tensors(data_folder() / "pebble-11m" / "goldens.safetensors");
  DirectDecoder decoder(*model, nullptr, 320);
  const auto rows_of = [&](const Json& golden) {
    const Tensor logits = decoder.target(golden["prompt_ids"].get<std::vector<int32_t>>(), 0, {});
    std::vector<float> rows(static_cast<size_t>(logits.rows) * static_cast<size_t>(logits.cols));
    ops_->download(static_cast<const std::byte*>(logits.data), rows.data(), sizeof(float) * rows.size());
    return rows;
  };
  const auto vocab = static_cast<size_t>(model->config().vocab);
  double worst = 0;
  const std::vector<float> golden = floats(tensors, "case0.logits");
  const std::vector<float> found = rows_of(json["cases"][0]);
  const std::vector<int32_t> there = ints(tensors, "case0.rows");
  ASSERT_EQ(golden.size(), there.size() * vocab);
  for (size_t i = 0; i < there.size(); ++i) {
    const float* row = found.data() + static_cast<size_t>(there[i]) * vocab;
    worst = std::max(worst, relative_error(row, golden.data() + i * vocab, vocab));
  }
  for (size_t i = 1; i < json["cases"].size(); ++i) {
    const std::string name = "case" + std::to_string(i) + ".last_logits";
    if (!tensors.tensors().contains(name)) continue;
    const std::vector<float> last = floats(tensors, name);
    const std::vector<float> rows = rows_of(json["cases"][i]);
    worst = std::max(worst, relative_error(rows.data() + rows.size() - vocab, last.data(), vocab));
  }
  std::printf("worst relative error of a row of logits: %.2g\n", worst);
  EXPECT_LT(worst, 0.03);
}

TEST_F(PebbleOnGpu, AnswersAndAcceptLengthsAgree) {
  expect_answers_of_pytorch(*ops_, {.near_tie = 0.25, .most_near_ties = 4, .chain_error = 0.05, .tree_gain = 1.1});
}

// The block-diffusion model: as many tokens of the goldens as rounding to bf16 leaves.
TEST_F(PebbleOnGpu, BlocksAgree) {
  const auto model = Model::load(*ops_, models_folder() / "pebble-11m-sdar", 512);
  const Json json = read_json_file(data_folder() / "pebble-11m-sdar" / "goldens.json");
  size_t same = 0;
  size_t cases = 0;
  for (const Json& golden : json["cases"]) {
    Configuration configuration;
    configuration.decoder.block = {golden["block_size"].get<int32_t>(),
                                   {"low_confidence", {{"threshold", golden["threshold"].get<double>()}}},
                                   true};
    const auto engine = open_engine(*ops_, *model, configuration, 512);
    Request request;
    request.prompt = golden["prompt_ids"].get<std::vector<int32_t>>();
    const auto expected = golden["tokens"].get<std::vector<int32_t>>();
    request.max_tokens = static_cast<int32_t>(expected.size());
    const Answer answer = run_together(*engine, {request})[0];
    same += answer.tokens == expected ? 1 : 0;
    ++cases;
  }
  std::printf("%zu of %zu answers in blocks are those of PyTorch in float32\n", same, cases);
  EXPECT_GE(same * 4, cases * 3);
}

}  // namespace
}  // namespace ashlar::testing
