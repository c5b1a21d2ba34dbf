// SPDX-License-Identifier: Apache-2.0
#include "measure/serve/serve_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ashlar {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kMs = 1'000'000;

std::vector<std::string> events_of(std::string_view bytes, size_t step) {
  SseReader reader;
  std::vector<std::string> events;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    EXPECT_TRUE(reader.feed(bytes.substr(0, step), [&](std::string_view data) { events.emplace_back(data); }));
  }
  return events;
}

// Cases of the event stream's definition: every line ending, comments, several data lines, no blank after the colon.
TEST(SseReader, ReadsWhatTheDefinitionAllows) {
  const std::string stream =
      ": comment\n\ndata: a\n\nevent: x\nid: 7\ndata:b\ndata: c\n\ndata\n\ndata: d\r\n\r\ndata: e\r\rdata:  f\n\ndata: "
      "unfinished\n";
  for (size_t step = 1; step < stream.size() + 1; ++step) {
    EXPECT_THAT(events_of(stream, step), ElementsAre("a", "b\nc", "", "d", "e", " f")) << step;
  }
}

TEST(SseReader, EndlessEventsAreRefused) {
  SseReader reader;
  const std::string megabyte(1 << 20, 'x');
  bool good = reader.feed("data: ", [](std::string_view) {});
  for (int i = 0; i < 9; ++i) good = reader.feed(megabyte, [](std::string_view) {});
  EXPECT_FALSE(good);
}

std::string chunk(const std::string& content) {
  return R"(data: {"choices":[{"index":0,"delta":{"content":")" + content + R"("},"finish_reason":null}]})" + "\n\n";
}

// First text at 10 ms, two chunks more at 14 and 30, for 6 tokens: 20 ms over 5 tokens after the first.
TEST(StreamRecorder, TimesAndCounts) {
  StreamRecorder recorder(0);
  recorder.bytes(200, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n", 5 * kMs);
  recorder.bytes(200, chunk("a"), 10 * kMs);
  recorder.bytes(200, chunk("b c"), 14 * kMs);
  recorder.bytes(200, chunk("d e f"), 30 * kMs);
  recorder.bytes(200, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n", 31 * kMs);
  recorder.bytes(200,
                 "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":6},"
                 "\"metrics\":{\"speculative_decoding\":{\"drafted\":8,\"accepted\":3}}}\n\ndata: [DONE]\n\n",
                 32 * kMs);
  const RequestRecord record = recorder.finish(200, "", "", 33 * kMs);
  EXPECT_TRUE(record.ok()) << record.error;
  EXPECT_DOUBLE_EQ(record.ttft_s(), 0.010);
  EXPECT_DOUBLE_EQ(record.itl_s(), 0.004);
  EXPECT_DOUBLE_EQ(record.whole_s(), 0.033);
  EXPECT_THAT(record.gaps_s, ElementsAre(DoubleNear(0.004, 1e-12), DoubleNear(0.016, 1e-12)));
  EXPECT_EQ(record.chunks, 3);
  EXPECT_EQ(record.tokens, 6);
  EXPECT_TRUE(record.tokens_reported);
  EXPECT_EQ(record.prompt_tokens, 9);
  EXPECT_TRUE(record.drafting_reported);
  EXPECT_EQ(record.drafted, 8);
  EXPECT_EQ(record.accepted, 3);
}

TEST(StreamRecorder, CountsChunksWhereNoUsageComes) {
  StreamRecorder recorder(0);
  recorder.bytes(
      200, "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"choices\":[{\"text\":\"b\"}],\"usage\":null}\n\n", kMs);
  recorder.bytes(200, "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\n", kMs);
  const RequestRecord record = recorder.finish(200, "", "", kMs);
  EXPECT_TRUE(record.ok());  // some servers send no [DONE]
  EXPECT_EQ(record.tokens, 2);
  EXPECT_FALSE(record.tokens_reported);
}

TEST(StreamRecorder, ReasoningIsText) {
  StreamRecorder recorder(0);
  recorder.bytes(200, "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\ndata: [DONE]\n\n", 3 * kMs);
  EXPECT_DOUBLE_EQ(recorder.finish(200, "", "", 4 * kMs).ttft_s(), 0.003);
}

std::string kind_of(const std::string& body, long status = 200, const std::string& problem = "") {
  StreamRecorder recorder(0);
  recorder.bytes(status, body, 1);
  return recorder.finish(status, problem, "", 2).error;
}

TEST(StreamRecorder, WhatIsWrongHasAKind) {
  EXPECT_EQ(kind_of(chunk("a")), "ended early");
  EXPECT_EQ(kind_of(chunk("a"), 200, "connection lost"), "connection lost");
  EXPECT_EQ(kind_of(chunk("a") + "data: [DONE]\n\n", 200, "connection lost"), "");
  EXPECT_EQ(kind_of("data: {\"choices\": oops}\n\n"), "malformed stream");
  EXPECT_EQ(kind_of("data: 7\n\n"), "malformed stream");
  EXPECT_EQ(kind_of("{\"choices\":[]}"), "malformed stream");
  EXPECT_EQ(kind_of(""), "malformed stream");
  EXPECT_EQ(kind_of("data: [DONE]\n\n"), "empty answer");
  EXPECT_EQ(kind_of(chunk("a") + "data: {\"error\":{\"message\":\"out of memory\"}}\n\n"), "error in the stream");
  EXPECT_EQ(kind_of("{}", 429), "HTTP 429");
  for (const char* odd :
       {"{\"choices\":7}", "{\"choices\":[7]}", "{\"choices\":[{\"delta\":[]}],\"usage\":[]}",
        "{\"usage\":{\"completion_tokens\":-5}}", "{\"usage\":{\"completion_tokens\":1e300}}",
        "{\"metrics\":{\"speculative_decoding\":7}}", "{\"choices\":[{\"delta\":{\"content\":7}}]}"}) {
    EXPECT_EQ(kind_of(chunk("a") + "data: " + odd + "\n\ndata: [DONE]\n\n"), "") << odd;
  }
}

TEST(StreamRecorder, ARefusalIsQuoted) {
  StreamRecorder recorder(0);
  recorder.bytes(429, R"({"error":{"message":"slow down)", 1);
  recorder.bytes(429, R"( please"}})", 1);
  EXPECT_EQ(recorder.finish(429, "", "", 2).detail, "slow down please");
}

}  // namespace
}  // namespace ashlar
