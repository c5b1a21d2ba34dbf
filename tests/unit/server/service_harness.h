// SPDX-License-Identifier: Apache-2.0
#pragma once
// The service and its routes on an engine without a model, asked without sockets.

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "device/device.h"
#include "engine/engine.h"
#include "scenario/fake_decoder.h"
#include "server/http/connection/exchange_core.h"
#include "server/service/routes/routes.h"
#include "server/service/service.h"

namespace ashlar::server::test {

struct Reply {
  int status = 0;    ///< 0: the answer was cut before it began
  bool cut = false;  ///< it has no end
  std::string body;  ///< of a stream with its chunks' sizes
};

/// A request. Between begin() and end(), which may be on one thread only, lies what its client waits for.
class Asked {
 public:
  Asked(std::string path, std::string body, std::string method = "POST") {
    HttpRequest request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.body = std::move(body);
    request.id = "an-id";
    core_ = std::make_shared<ExchangeCore>(std::move(request), size_t{1} << 20, [] {});
    exchange_ = std::make_shared<Exchange>(core_);
  }
  /// As a connection does it.
  void begin(const Router& router) {
    try {
      router.handle(exchange_);
    } catch (const std::exception&) {  // the exchange, once let go, answers
    }
    exchange_.reset();
  }
  /// The next bytes of an answer that has not ended.
  std::string wait_for_more() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < deadline) {
      const std::string bytes = core_->take(true).bytes;
      core_->set_in_flight(0);
      if (!bytes.empty()) return bytes;
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    throw std::runtime_error("nothing came");
  }
  Reply end() {
    Reply reply;
    std::string bytes;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    for (bool last = false; !last;) {
      const ExchangeCore::Output out = core_->take(true);
      bytes += out.bytes;
      last = out.last;
      reply.cut = out.cut;
      if (last || std::chrono::steady_clock::now() < deadline) {
        std::this_thread::sleep_for(std::chrono::microseconds(20));
        continue;
      }
      ADD_FAILURE() << "never answered";
      break;
    }
    core_->detach();
    if (bytes.empty()) return reply;
    reply.status = std::stoi(bytes.substr(bytes.find(' ') + 1));
    reply.body = bytes.substr(bytes.find("\r\n\r\n") + 4);
    return reply;
  }

 private:
  std::shared_ptr<ExchangeCore> core_;
  std::shared_ptr<Exchange> exchange_;
};

/// Texts are those of pebble-11m's tokenizer and template; answers are nonsense.
class ServiceHarness {
 public:
  /// `missing`: of the last tokens, which the model has no embedding for.
  /// `refusing`: the template refuses every conversation.
  explicit ServiceHarness(ServiceOptions options = {}, int32_t missing = 0, bool refusing = false)
      : folder_(std::filesystem::path(ASHLAR_SOURCE_DIR) / "models" / "pebble-11m"),
        tokenizer_(Tokenizer::from_file(folder_ / "tokenizer.json")),
        template_(refusing ? ChatTemplate::from_source("{{ raise_exception('no') }}", "test")
                           : *ChatTemplate::from_model(folder_)),
        ops_(make_device("ref", {})) {
    vocab_ = tokenizer_.vocab_size() - missing;
    make_engine();
    ServedModel model;
    model.name = "pebble-11m";
    model.tokenizer = &tokenizer_;
    model.chat_template = &template_;
    model.max_positions = 1024;
    model.trie = std::make_shared<const grammar::TokenTrie>(tokenizer_);
    ApiLimits limits;
    limits.vocab = vocab_;
    service_ = std::make_unique<Service>(*engine_, model, limits, std::move(options));
    context_.service = service_.get();
    add_routes(router_, context_);
  }

  /// Another one, in the place of the one that there is.
  Engine& make_engine() {
    engine_.reset();
    auto decoder = std::make_unique<ashlar::testing::FakeDecoder>(2, 1024, vocab_);
    decoder_ = decoder.get();
    EngineOptions options;
    options.max_sequences = 4;
    options.kv_pages = 256;
    engine_ = std::make_unique<Engine>(*ops_, std::move(decoder), options);
    return *engine_;
  }

  Reply ask(const std::string& path, const std::string& body, const std::string& method = "POST") {
    Asked asked(path, body, method);
    asked.begin(router_);
    return asked.end();
  }
  const Router& router() const { return router_; }
  Service& service() { return *service_; }
  ashlar::testing::FakeDecoder& decoder() const { return *decoder_; }

 private:
  std::filesystem::path folder_;
  Tokenizer tokenizer_;
  ChatTemplate template_;
  std::unique_ptr<Ops> ops_;
  int32_t vocab_ = 0;
  ashlar::testing::FakeDecoder* decoder_ = nullptr;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Service> service_;
  RouteContext context_;
  Router router_;
};

}  // namespace ashlar::server::test
