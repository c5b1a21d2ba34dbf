// SPDX-License-Identifier: Apache-2.0
// generate MODEL PROMPT...: answers prompts, all at once, and shows the first while it comes.
#include <ashlar/llm.h>

#include <cstdio>

int main(int argc, char** argv) try {
  if (argc < 3) {
    std::fprintf(stderr, "usage: generate MODEL PROMPT...\n");
    return 2;
  }
  ashlar::LlmOptions options;
  options.model = argv[1];
  const ashlar::Llm llm(options);
  std::vector<ashlar::LlmPrompt> prompts;
  for (int i = 2; i < argc; ++i) prompts.push_back(ashlar::chat(argv[i]));

  ashlar::LlmParams params;
  params.max_tokens = 48;
  const auto answers = llm.generate(prompts, params, [](const ashlar::LlmChunk& chunk) {
    if (chunk.index == 0) std::fputs(chunk.text.c_str(), stdout);
  });
  std::printf("\n");
  for (size_t i = 1; i < answers.size(); ++i) std::printf("%s\n", answers[i].text.c_str());
  for (const ashlar::LlmAnswer& answer : answers) {
    std::fprintf(stderr, "%s after %zu tokens, %.2f a forward\n", answer.finish.c_str(), answer.tokens.size(),
                 answer.figures.tokens_per_forward);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
