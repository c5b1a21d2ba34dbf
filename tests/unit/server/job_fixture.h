// SPDX-License-Identifier: Apache-2.0
#pragma once
// A job without an engine, whose events a test makes up.

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <random>

#include "server/http/connection/exchange_core.h"
#include "server/service/job.h"

namespace ashlar::server {

class JobTest : public ::testing::Test {
 protected:
  JobTest()
      : tokenizer_(
            Tokenizer::from_file(std::filesystem::path(ASHLAR_SOURCE_DIR) / "models/pebble-11m/tokenizer.json")) {
    model_.name = "m";
    model_.tokenizer = &tokenizer_;
    format_.generation.prompts = {TextPrompt{"p"}};
    format_.prompt_texts = {"p"};
  }

  std::shared_ptr<Job> begin(Api api, Engine* engine = nullptr, Delivery* delivery = nullptr) {
    core_ = std::make_shared<ExchangeCore>(HttpRequest{}, size_t{1} << 20, [] {});
    auto exchange = std::make_shared<Exchange>(core_);
    const Job::Context context{engine, &model_, delivery, &metrics_, true, false, [this](const RequestRecord& record) {
                                 record_ = record;
                                 recorded_.set_value();
                               }};
    recorded_ = {};
    std::vector<AnswerPlan> plans(static_cast<size_t>(format_.generation.n));
    for (AnswerPlan& plan : plans) {
      if (engine == nullptr) break;
      plan.request.prompt = {1, 2, 3};
      plan.request.max_tokens = 5;
    }
    return std::make_shared<Job>(context, std::move(exchange), api, format_, std::move(plans), 0);
  }

  std::vector<int32_t> ids(const std::string& text) const { return tokenizer_.encode(text, {.parse_special = false}); }

  /// The events of one answer, its tokens in chunks of 1 to `most`.
  static void run(Job& job, int32_t answer, const std::vector<int32_t>& ids, size_t most, std::mt19937& random,
                  const EndEvent& end) {
    for (size_t at = 0; at < ids.size();) {
      const size_t n = std::min(ids.size() - at, 1 + random() % most);
      TokenChunk chunk;
      chunk.tokens.assign(ids.begin() + static_cast<int64_t>(at), ids.begin() + static_cast<int64_t>(at + n));
      job.on_tokens(answer, chunk);
      if (random() % 2 == 0) job.on_pause();
      at += n;
    }
    job.on_end(answer, end);
    job.on_pause();
  }

  /// What the client has been sent since the last call, without its head.
  std::string sent() {
    const std::string bytes = core_->take(true).bytes;
    const size_t body = bytes.find("\r\n\r\n");
    return body == std::string::npos ? bytes : bytes.substr(body + 4);
  }

  Tokenizer tokenizer_;
  ServedModel model_;
  ServiceMetrics metrics_;
  FormatContext format_;
  std::shared_ptr<ExchangeCore> core_;
  RequestRecord record_;
  std::promise<void> recorded_;
};

}  // namespace ashlar::server
