// A model whose weights are not numbers says so, instead of an answer of whatever token stands first.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "decode/registry.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/event_queue.h"
#include "golden/golden_data.h"
#include "golden/seeded_checkpoint.h"

namespace ashlar::testing {
namespace {

// Every byte behind the header becomes 0xFF, which is a NaN in each floating-point type.
void damage(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    uint64_t header = 0;
    file.read(reinterpret_cast<char*>(&header), sizeof header);
    file.seekp(static_cast<std::streamoff>(sizeof header + header));
    const std::string ones(std::filesystem::file_size(entry.path()) - sizeof header - header, '\xFF');
    file.write(ones.data(), static_cast<std::streamsize>(ones.size()));
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
  damage(checkpoint.folder());
  SamplingParams warm;
  warm.temperature = 0.8;
  SamplingParams filtered = warm;
  filtered.top_p = 0.9;
  SamplingParams told;
  told.top_logprobs = 2;
  SamplingParams rejecting = warm;
  rejecting.scheme = SamplingScheme::kRejection;
  for (const char* device : {"ref", "cpu"}) {
    const auto ops = make_device(device, {});
    const auto model = Model::load(*ops, checkpoint.folder(), 64);
    Engine engine(*ops, make_decoder(*model, {}), {});
    for (const SamplingParams& sampling : {SamplingParams{}, warm, filtered, told, rejecting}) {
      int32_t tokens = 0;
      const EndEvent end = end_of(engine, sampling, tokens);
      EXPECT_EQ(end.reason, FinishReason::kError);
      EXPECT_THAT(end.error, ::testing::HasSubstr("the model's logits are not numbers"));
      EXPECT_EQ(tokens, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, DamagedWeights, ::testing::Values("families/qwen3", "blocks/sdar", "blocks/dream"));

}  // namespace
}  // namespace ashlar::testing
