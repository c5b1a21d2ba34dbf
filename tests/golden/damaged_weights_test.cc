// SPDX-License-Identifier: Apache-2.0
// A model whose weights are damaged says so, instead of an answer of whatever token stands first.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "decode/registry.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/event_queue.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"
#include "io/json.h"

namespace ashlar::testing {
namespace {

// Fills every tensor whose name has `part` in it with a byte, in all files.
void damage(const std::filesystem::path& folder, const std::string& part, char byte) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    uint64_t size = 0;
    file.read(reinterpret_cast<char*>(&size), sizeof size);
    std::string header(size, ' ');
    file.read(header.data(), static_cast<std::streamsize>(size));
    const Json tensors = Json::parse(header);
    for (const auto& [name, tensor] : tensors.items()) {
      if (name.find(part) == std::string::npos) continue;
      const auto begin = tensor["data_offsets"][0].get<uint64_t>();
      const auto end = tensor["data_offsets"][1].get<uint64_t>();
      file.seekp(static_cast<std::streamoff>(sizeof size + size + begin));
      const std::string bytes(end - begin, byte);
      file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
  }
}

EndEvent end_of(Engine& engine, const SamplingParams& sampling, int32_t& tokens) {
  const auto queue = std::make_shared<EventQueue>();
  Request request;
  request.prompt = {3, 4, 5};
  request.max_tokens = 12;
  request.sampling = sampling;
  request.sink = queue;
  EXPECT_TRUE(engine.submit(std::move(request)).ok());
  tokens = 0;
  for (;;) {
    Event event = queue->next();
    if (auto* end = std::get_if<EndEvent>(&event)) return *end;
    tokens += static_cast<int32_t>(std::get<TokenChunk>(event).tokens.size());
  }
}

class DamagedWeights : public ::testing::TestWithParam<std::string> {};

TEST_P(DamagedWeights, EndTheAnswerWithAnError) {
  const SeededCheckpoint checkpoint(data_folder() / GetParam());
  damage(checkpoint.folder(), "norm", '\x7F');  // 3.4e38: finite, but nothing that is multiplied by it
  SamplingParams warm;
  warm.temperature = 0.8;
  SamplingParams filtered = warm;
  filtered.top_p = 0.9;
  SamplingParams with_logprobs;
  with_logprobs.top_logprobs = 2;
  SamplingParams rejecting = warm;
  rejecting.scheme = SamplingScheme::kRejection;
  for (const char* device : {"ref", "cpu"}) {
    const auto ops = make_device(device, {});
    const auto model = Model::load(*ops, checkpoint.folder(), 64);
    Engine engine(*ops, make_decoder(*model, {}), {});
    for (const SamplingParams& sampling : {SamplingParams{}, warm, filtered, with_logprobs, rejecting}) {
      int32_t tokens = 0;
      const EndEvent end = end_of(engine, sampling, tokens);
      EXPECT_EQ(end.reason, FinishReason::kError);
      EXPECT_THAT(end.error, ::testing::HasSubstr("the model's logits are not numbers"));
      EXPECT_EQ(tokens, 0);
    }
  }
}

TEST_P(DamagedWeights, AreRefusedWhereTheyAreNoNumbers) {
  for (const char* part : {"norm", "mlp", "embed"}) {
    for (const char* device : {"ref", "cpu"}) {
      const SeededCheckpoint checkpoint(data_folder() / GetParam());
      damage(checkpoint.folder(), part, '\xFF');
      const auto ops = make_device(device, {});
      try {
        Model::load(*ops, checkpoint.folder(), 64);
        ADD_FAILURE() << "loaded";
      } catch (const Error& error) {
        EXPECT_THAT(error.what(),
                    ::testing::AllOf(::testing::HasSubstr(".safetensors: tensor "), ::testing::HasSubstr(part),
                                     ::testing::HasSubstr("found infinity or NaN at element 0")));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, DamagedWeights, ::testing::Values("families/qwen3", "blocks/sdar", "blocks/dream"));

}  // namespace
}  // namespace ashlar::testing
