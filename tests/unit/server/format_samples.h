// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random answers, and what a client makes of a stream.

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "server/api/format/formats.h"

namespace ashlar::server::test {

struct Sample {
  FormatContext context;
  std::vector<FinishedAnswer> answers;
  Usage usage;
  std::string body;
  std::string stream;
};

inline std::string words(std::mt19937& random, int most) {
  static const std::vector<std::string> kWords = {"one ", "zwölf", " ",   "\n",   "\"quoted\"", "\\",
                                                  "日本", "😀",     "<b>", "\t{}", "end."};
  std::string text = "w";
  for (int n = static_cast<int>(random() % most); n > 0; --n) text += kWords[random() % kWords.size()];
  return text;
}

inline TokenPiece random_token(std::mt19937& random) {
  static const std::vector<std::string> kBytes = {"a", " b", "\xE6\x97", "\xA5", "\xF0\x9F", "\n", "", "é"};
  TokenPiece piece{static_cast<int32_t>(random() % 100), kBytes[random() % kBytes.size()], {}, {}};
  piece.logprobs.token = -0.25f;
  piece.logprobs.n_top = 2;
  for (int i = 0; i < 2; ++i) {
    piece.logprobs.top_ids[i] = i + 1;
    piece.logprobs.top_values[i] = i == 0 ? -0.25f : -INFINITY;
    piece.top_bytes.push_back(kBytes[random() % kBytes.size()]);
  }
  return piece;
}

inline RequestStats some_stats() {
  RequestStats stats;
  stats.prompt_tokens = 11;
  stats.cached_tokens = 4;
  stats.generated_tokens = 9;
  stats.verify_steps = 3;
  stats.drafted = 12;
  stats.accepted = 6;
  stats.drafted_at = {3, 3, 3, 3};
  stats.accepted_at = {3, 2, 1, 0};
  stats.lengths = {0, 0, 1, 1, 1};
  stats.finished_ns = 1000000;
  return stats;
}

inline FinishedAnswer random_answer(Api api, int32_t index, bool logprobs, std::mt19937& random) {
  const bool chat = api != Api::kCompletions && api != Api::kGenerate && api != Api::kOllamaGenerate;
  FinishedAnswer answer;
  answer.end.index = index;
  answer.end.stats = some_stats();
  if (chat && random() % 2 == 0) answer.reasoning = words(random, 12);
  if (random() % 5 != 0) answer.content = words(random, 20);
  const int calls = chat && random() % 2 == 0 ? 1 + static_cast<int>(random() % 2) : 0;
  for (int i = 0; i < calls; ++i) {
    const Json arguments = {{"text", words(random, 9)}, {"n", i}};
    answer.tool_calls.push_back({i, "call_" + std::to_string(i), "f" + std::to_string(i), arguments.dump()});
  }
  answer.end.tokens = 9;
  answer.end.reason = calls > 0           ? AnswerEnd::Reason::kToolCalls
                      : random() % 3 == 0 ? AnswerEnd::Reason::kLength
                                          : AnswerEnd::Reason::kStop;
  if (calls == 0 && answer.end.reason == AnswerEnd::Reason::kStop && random() % 2 == 0) {
    answer.end.stop_string = "STOP";
  } else if (answer.end.reason != AnswerEnd::Reason::kLength) {
    answer.end.stop_token = 2;
  }
  if (logprobs && !answer.content.empty()) {
    for (int n = 1 + static_cast<int>(random() % 5); n > 0; --n) answer.tokens.push_back(random_token(random));
  }
  answer.parts = parts_of(answer);
  // A model may write on after a call, and call again.
  const bool more = calls > 0 && random() % 2 == 0;
  for (int call = calls; more && call < calls + 2; ++call) {
    append(answer, {.index = index, .content = words(random, 5)});
    if (random() % 3 == 0) break;
    append(answer, {.index = index, .tool_calls = {{call, "call_" + std::to_string(call), "g", R"({"a": 1})"}}});
  }
  return answer;
}

/// Cuts text anywhere but inside a character.
inline std::vector<std::string> cut(const std::string& text, std::mt19937& random) {
  std::vector<std::string> pieces;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.size(), at + 1 + random() % 6);
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

inline std::vector<AnswerDelta> deltas_of(const FinishedAnswer& answer, std::mt19937& random) {
  std::vector<AnswerDelta> deltas;
  const auto add = [&]() -> AnswerDelta& {
    deltas.emplace_back();
    deltas.back().index = answer.end.index;
    deltas.back().n_tokens = 1;
    return deltas.back();
  };
  for (const AnswerDelta& part : answer.parts) {
    for (const std::string& piece : cut(part.reasoning, random)) add().reasoning = piece;
    size_t token = 0;
    for (const std::string& piece : cut(part.content, random)) {
      AnswerDelta& delta = add();
      delta.content = piece;
      if (token < part.tokens.size()) delta.tokens.push_back(part.tokens[token++]);
    }
    if (token < part.tokens.size())
      add().tokens.assign(part.tokens.begin() + static_cast<std::ptrdiff_t>(token), part.tokens.end());
    for (const ToolCallDelta& call : part.tool_calls) {
      add().tool_calls.push_back({call.index, call.id, call.name, ""});
      for (const std::string& piece : cut(call.arguments, random))
        add().tool_calls.push_back({call.index, "", "", piece});
    }
  }
  return deltas;
}

/// A request and its answer, streamed and not.
inline Sample make_sample(Api api, std::mt19937& random) {
  Sample sample;
  FormatContext& context = sample.context;
  context.id = "4f1c";
  context.model = "m";
  context.created_s = 1700000000;
  Generation& generation = context.generation;
  const bool ollama = api == Api::kOllamaChat || api == Api::kOllamaGenerate;
  const bool many = api != Api::kResponses && api != Api::kMessages && !ollama;
  const bool prompts = api == Api::kCompletions || api == Api::kGenerate;
  generation.prompts.resize(prompts ? 1 + random() % 2 : 1, TextPrompt{"p"});
  generation.batched = generation.prompts.size() > 1;
  generation.n = many ? 1 + static_cast<int32_t>(random() % 2) : 1;
  generation.include_usage = random() % 2 == 0;
  const bool logprobs = api != Api::kMessages && random() % 2 == 0;
  generation.sampling.top_logprobs = logprobs ? 2 : -1;
  generation.echo = api == Api::kCompletions && !logprobs && random() % 2 == 0;
  context.prompt_texts.assign(generation.prompts.size(), "prompt: ");
  sample.usage = {11, 4, 9, 2};
  const auto answers = static_cast<int32_t>(generation.prompts.size()) * generation.n;
  std::vector<std::vector<AnswerDelta>> queues;
  for (int32_t i = 0; i < answers; ++i) {
    sample.answers.push_back(random_answer(api, i, logprobs, random));
    queues.push_back(deltas_of(sample.answers.back(), random));
  }
  sample.body = make_format(api, context)->body(sample.answers, sample.usage);
  const auto format = make_format(api, context);
  sample.stream = format->begin({11, 4, 0, 0});
  std::vector<size_t> at(queues.size());
  for (size_t ended = 0; ended < queues.size();) {
    const size_t i = random() % queues.size();
    if (at[i] < queues[i].size()) {
      sample.stream += format->delta(queues[i][at[i]++]);
      if (random() % 3 == 0) sample.stream += format->pause();
    } else if (at[i]++ == queues[i].size()) {
      sample.stream += format->end(sample.answers[i].end);
      ++ended;
    }
  }
  sample.stream += format->finish(sample.usage);
  return sample;
}

}  // namespace ashlar::server::test
