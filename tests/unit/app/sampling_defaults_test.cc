// SPDX-License-Identifier: Apache-2.0
#include "app/sampling_defaults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

using testing::AllOf;
using testing::HasSubstr;

server::SamplingDefaults defaults_of(const std::string& config) {
  const TempFolder folder;
  folder.write("generation_config.json", config);
  return read_sampling_defaults(folder.path());
}

void expect(const server::SamplingDefaults& defaults, const server::SamplingDefaults& wanted) {
  EXPECT_EQ(defaults.temperature, wanted.temperature);
  EXPECT_EQ(defaults.top_p, wanted.top_p);
  EXPECT_EQ(defaults.top_k, wanted.top_k);
  EXPECT_EQ(defaults.min_p, wanted.min_p);
  EXPECT_EQ(defaults.repetition_penalty, wanted.repetition_penalty);
}

std::string refusal_of(const std::string& config) {
  try {
    defaults_of(config);
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

TEST(SamplingDefaults, AreTheirOwnWithoutAFile) {
  const server::SamplingDefaults own = {1.0, 1.0, 0, 0.0, 1.0};
  expect(read_sampling_defaults(TempFolder().path()), own);
  expect(defaults_of("{}"), own);
}

TEST(SamplingDefaults, AreThoseOfTheFile) {
  constexpr const char* kRest =
      R"("temperature": 0.7, "top_p": 0.9, "top_k": 20, "min_p": 0.05, "repetition_penalty": 1.05})";
  for (const char* do_sample : {R"({"do_sample": true, )", R"({"do_sample": null, )", "{"}) {
    SCOPED_TRACE(do_sample);
    expect(defaults_of(std::string(do_sample) + kRest), {0.7, 0.9, 20, 0.05, 1.05});
  }
  // Greedy; the rest is for a request with a temperature of its own.
  expect(defaults_of(std::string(R"({"do_sample": false, )") + kRest), {0.0, 0.9, 20, 0.05, 1.05});
}

TEST(SamplingDefaults, TakeATopKAsItIsWritten) {
  EXPECT_EQ(defaults_of(R"({"top_k": -1})").top_k, 0);
  EXPECT_EQ(defaults_of(R"({"top_k": 0})").top_k, 0);
  EXPECT_EQ(defaults_of(R"({"top_k": 50.0})").top_k, 50);
  EXPECT_EQ(defaults_of(R"({"top_k": 2147483647})").top_k, 2147483647);
}

// What a request may not say a file may not say for it: every request would be refused.
TEST(SamplingDefaults, RefuseWhatARequestMayNotSay) {
  for (const char* key : {"temperature", "top_p", "top_k", "min_p", "repetition_penalty"}) {
    for (const char* value : {"-2", "1e300", "\"1\"", "[]"}) {
      EXPECT_THAT(refusal_of(std::string("{\"") + key + "\": " + value + "}"),
                  AllOf(HasSubstr("generation_config.json"), HasSubstr(key), HasSubstr("found ")))
          << value;
    }
  }
  EXPECT_THAT(refusal_of(R"({"top_k": 50.5})"), HasSubstr("an integer from -1 (off) to 2147483647, found 50.5"));
  EXPECT_THAT(refusal_of(R"({"top_k": 2147483648})"), HasSubstr("top_k"));
  EXPECT_THAT(refusal_of(R"({"top_p": 0})"), HasSubstr("a number above 0, at most 1, found 0"));
  EXPECT_THAT(refusal_of(R"({"repetition_penalty": 0})"), HasSubstr("a number above 0, at most 100, found 0"));
  EXPECT_THAT(refusal_of(R"({"do_sample": 0})"), HasSubstr("true or false"));
}

}  // namespace
}  // namespace ashlar
