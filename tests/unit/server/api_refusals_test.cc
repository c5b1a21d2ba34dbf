// SPDX-License-Identifier: Apache-2.0
// What the other endpoints refuse, and what all do.

#include <gtest/gtest.h>

#include "unit/server/refusal_rows.h"

namespace ashlar::server::test {
namespace {

TEST(ApiRefusals, Completions) {
  check_rows(Endpoint::kCompletions, {
                                         {R"("prompt":null)", "prompt"},
                                         {R"("prompt":"")", "prompt"},
                                         {R"("prompt":[])", "prompt"},
                                         {R"("prompt":{})", "prompt"},
                                         {R"("prompt":5)", "prompt"},
                                         {R"("prompt":[-1])", "prompt[0]"},
                                         {R"("prompt":[1,"a"])", "prompt[1]"},
                                         {R"("prompt":[1,4294967296])", "prompt[1]"},
                                         {R"("prompt":["a",""])", "prompt[1]"},
                                         {R"("prompt":["a",null])", "prompt[1]"},
                                         {R"("prompt":[[1],[]])", "prompt[1]"},
                                         {R"("prompt":[[1],[2,-3]])", "prompt[1][1]"},
                                         {R"("prompt":[[[1]]])", "prompt[0]"},
                                         {R"("suffix":"x")", "suffix"},
                                         {R"("echo":1)", "echo"},
                                         {R"("echo":true,"max_tokens":-2)", "max_tokens"},
                                         {R"("logprobs":true)", "logprobs"},
                                         {R"("logprobs":21)", "logprobs"},
                                         {R"("best_of":2)", "best_of"},
                                         {R"("n":2,"best_of":1)", "best_of"},
                                         {R"("messages":[])", "messages"},
                                         {R"("max_tokens":0)", "max_tokens"},
                                         {R"("use_beam_search":true)", "use_beam_search"},
                                         {R"("prompt_logprobs":21)", "prompt_logprobs"},
                                         {R"("prompt_logprobs":-1)", "prompt_logprobs"},
                                         {R"("prompt_logprobs":1,"stream":true)", "prompt_logprobs"},
                                         {R"("min_tokens":4)", "min_tokens"},
                                     });
}

TEST(ApiRefusals, Responses) {
  check_rows(
      Endpoint::kResponses,
      {
          {R"("input":null)", "input"},
          {R"("input":5)", "input"},
          {R"("input":[])", "input"},
          {R"("input":["a"])", "input[0]"},
          {R"("input":[{"role":"user"}])", "input[0].content"},
          {R"("input":[{"role":"robot","content":"a"}])", "input[0].role"},
          {R"("input":[{"type":"message","role":"user","content":[{"type":"input_image","image_url":"x"}]}])",
           "input[0].content[0].type"},
          {R"("input":[{"type":"item_reference","id":"a"}])", "input[0].type"},
          {R"("input":[{"type":"function_call","name":"f","arguments":"{}"}])", "input[0].call_id"},
          {R"("input":[{"type":"function_call","call_id":"a","arguments":"{}"}])", "input[0].name"},
          {R"("input":[{"type":"function_call","call_id":"a","name":"f","arguments":false}])", "input[0].arguments"},
          {R"("input":[{"role":"user","content":"a"},{"type":"function_call_output","output":"x"}])",
           "input[1].call_id"},
          {R"("input":[{"type":"function_call_output","call_id":"a"}])", "input[0].output"},
          {R"("input":[{"type":"function_call_output","call_id":"a","output":[{"type":"input_image"}]}])",
           "input[0].output[0].type"},
          {R"("input":[{"type":"reasoning","summary":5}])", "input[0].summary"},
          {R"("instructions":[1])", "instructions"},
          {R"("previous_response_id":"resp_1")", "previous_response_id"},
          {R"("background":true)", "background"},
          {R"("conversation":"c")", "conversation"},
          {R"("prompt":{"id":"p"})", "prompt"},
          {R"("truncation":"auto")", "truncation"},
          {R"("max_output_tokens":0)", "max_output_tokens"},
          {R"("max_tokens":5)", "max_tokens"},
          {R"("text":{"format":{}})", "text.format.type"},
          {R"("text":{"format":{"type":"json_schema"}})", "text.format.schema"},
          {R"("text":{"format":{"type":"json_schema","schema":{},"oops":1}})", "text.format.oops"},
          {R"("text":{"oops":1})", "text.oops"},
          {R"("reasoning":{"effort":"huge"})", "reasoning.effort"},
          {R"("reasoning":"low")", "reasoning"},
          {R"("reasoning":{"oops":1})", "reasoning.oops"},
          {R"("tools":[{"type":"function"}])", "tools[0].name"},
          {R"("tools":[{"name":"f"}])", "tools[0].type"},
          {R"("tool_choice":{"type":"function","name":"f"})", "tool_choice.name"},
          {R"("tool_choice":{"type":"web_search"})", "tool_choice.type"},
          {R"("tools":[{"type":"web_search"}],"tool_choice":"required")", "tool_choice"},
          {R"("top_logprobs":21)", "top_logprobs"},
          {R"("include":"x")", "include"},
          {R"("stream_options":{"include_usage_":true})", "stream_options.include_usage_"},
      });
}

TEST(ApiRefusals, Messages) {
  check_rows(
      Endpoint::kMessages,
      {
          {R"("max_tokens":null)", "max_tokens"},
          {R"("max_tokens":0)", "max_tokens"},
          {R"("messages":[])", "messages"},
          {R"("messages":[{"role":"robot","content":"x"}])", "messages[0].role"},
          {R"("messages":[{"role":"system","content":[{"type":"tool_result","tool_use_id":"a"}]}])",
           "messages[0].content[0].type"},
          {R"("speed":"fast")", "speed"},
          {R"("messages":[{"role":"user"}])", "messages[0].content"},
          {R"("messages":[{"role":"user","content":"a","oops":1}])", "messages[0].oops"},
          {R"("messages":[{"role":"user","content":[{"type":"image","source":{}}]}])", "messages[0].content[0].type"},
          {R"("messages":[{"role":"user","content":[{"type":"document"}]}])", "messages[0].content[0].type"},
          {R"("messages":[{"role":"user","content":[{"type":"tool_use","id":"a","name":"f","input":{}}]}])",
           "messages[0].content[0].type"},
          {R"("messages":[{"role":"user","content":[{"type":"tool_result"}]}])", "messages[0].content[0].tool_use_id"},
          {R"("messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"image"}]}]}])",
           "messages[0].content[0].content[0].type"},
          {R"("messages":[{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f"}]},{"role":"user","content":"b"}])",
           "messages[0].content[0].input"},
          {R"("messages":[{"role":"assistant","content":[{"type":"thinking"}]},{"role":"user","content":"b"}])",
           "messages[0].content[0].thinking"},
          {R"("messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}])", "messages[1].role"},
          {R"("system":5)", "system"},
          {R"("system":[{"type":"image"}])", "system[0].type"},
          {R"("stop_sequences":"a")", "stop_sequences"},
          {R"("stop_sequences":[1])", "stop_sequences[0]"},
          {R"("tools":[{"input_schema":{}}])", "tools[0].name"},
          {R"("tools":[{"name":"f","input_schema":1}])", "tools[0].input_schema"},
          {R"("tool_choice":"auto")", "tool_choice"},
          {R"("tool_choice":{"type":"required"})", "tool_choice.type"},
          {R"("tool_choice":{"type":"any"})", "tool_choice"},
          {R"("tool_choice":{"type":"tool"})", "tool_choice.name"},
          {R"("tool_choice":{"type":"tool","name":"f"})", "tool_choice.name"},
          {R"("thinking":{"type":"maybe"})", "thinking.type"},
          {R"("thinking":{"type":"enabled","budget_tokens":-1})", "thinking.budget_tokens"},
          {R"("output_config":{"effort":"none"})", "output_config.effort"},
          {R"("output_format":{"type":"json_schema"})", "output_format.schema"},
          {R"("mcp_servers":[{"url":"x"}])", "mcp_servers"},
          {R"("top_k":"5")", "top_k"},
          {R"("n":2)", "n"},
      });
}

TEST(ApiRefusals, GenerateAndTheSmallOnes) {
  check_rows(Endpoint::kGenerate, {
                                      {R"("text":null)", "text"},
                                      {R"("text":"a","input_ids":[1])", "text"},
                                      {R"("text":[])", "text"},
                                      {R"("text":["a",5])", "text[1]"},
                                      {R"("text":"")", "text"},
                                      {R"("text":null,"input_ids":[])", "input_ids"},
                                      {R"("text":null,"input_ids":["a"])", "input_ids[0]"},
                                      {R"("text":null,"input_ids":[[1],[-2]])", "input_ids[1][0]"},
                                      {R"("sampling_params":5)", "sampling_params"},
                                      {R"("sampling_params":[{},{}])", "sampling_params"},
                                      {R"("text":["a","b"],"sampling_params":[{},{"top_k":1}])", "sampling_params[1]"},
                                      {R"("sampling_params":{"temperature":-1})", "sampling_params.temperature"},
                                      {R"("sampling_params":{"max_new_tokens":0})", "sampling_params.max_new_tokens"},
                                      {R"("sampling_params":{"max_tokens":1})", "sampling_params.max_tokens"},
                                      {R"("sampling_params":{"json_schema":"["})", "sampling_params.json_schema"},
                                      {R"("sampling_params":{"regex":"a","ebnf":"b"})", "sampling_params.regex"},
                                      {R"("return_logprob":[true])", "return_logprob"},
                                      {R"("top_logprobs_num":2)", "top_logprobs_num"},
                                      {R"("logprob_start_len":-2)", "logprob_start_len"},
                                      {R"("rid":["a","b"])", "rid"},
                                      {R"("temperature":1)", "temperature"},
                                      {R"("image_data":"x")", "image_data"},
                                  });
  check_rows(Endpoint::kTokenize, {
                                      {R"("prompt":null)", "prompt"},
                                      {R"("prompt":5)", "prompt"},
                                      {R"("content":"x")", "prompt"},
                                      {R"("add_special":1)", "add_special"},
                                      {R"("prompt":null,"messages":[{"role":"x"}])", "messages[0].role"},
                                      {R"("chat_template":"x")", "chat_template"},
                                  });
  check_rows(Endpoint::kDetokenize, {
                                        {R"("tokens":null)", "tokens"},
                                        {R"("tokens":"a")", "tokens"},
                                        {R"("tokens":[1,-1])", "tokens[1]"},
                                        {R"("tokens":[1.5])", "tokens[0]"},
                                        {R"("prompt":"a")", "prompt"},
                                    });
  check_rows(Endpoint::kApplyTemplate, {{R"("messages":null)", "messages"}, {R"("temperature":1)", "temperature"}});
  check_rows(Endpoint::kCountTokens,
             {{R"("messages":null)", "messages"}, {R"("max_tokens":5)", "max_tokens"}, {R"("stream":true)", "stream"}});
}

TEST(ApiRefusals, LimitsOfTheServer) {
  ApiLimits limits;
  limits.vocab = 100;
  limits.prompts = 4;
  limits.schema_bytes = 20;
  limits.messages = 1;
  limits.parts = 1;
  limits.tools = 1;
  limits.logit_bias = 1;
  const auto param = [&](Endpoint endpoint, const char* members) {
    const auto error = refusal_of(endpoint, with(endpoint, members), limits);
    return error ? error->param : "accepted";
  };
  EXPECT_EQ(param(Endpoint::kCompletions, R"("prompt":[99])"), "accepted");
  EXPECT_EQ(param(Endpoint::kCompletions, R"("prompt":[100])"), "prompt[0]");
  EXPECT_EQ(param(Endpoint::kCompletions, R"("prompt":["a","b","c"],"n":2)"), "n");
  EXPECT_EQ(param(Endpoint::kCompletions, R"("prompt":["a","b","c","d","e"])"), "prompt");
  EXPECT_EQ(param(Endpoint::kCompletions, R"("logit_bias":{"100":1})"), "logit_bias");
  EXPECT_EQ(param(Endpoint::kCompletions, R"("logit_bias":{"1":1,"2":1})"), "logit_bias");
  EXPECT_EQ(param(Endpoint::kChat, R"("guided_json":{"type":"object","a":"b"})"), "guided_json");
  EXPECT_EQ(param(Endpoint::kChat, R"("messages":[{"role":"user","content":"a"},{"role":"user","content":"a"}])"),
            "messages");
  EXPECT_EQ(param(Endpoint::kChat,
                  R"("messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"a"}]}])"),
            "messages[0].content");
  EXPECT_EQ(param(Endpoint::kChat, R"("tools":[{},{}])"), "tools");
  Json body = with(Endpoint::kChat, "");
  body["stop"] = std::string(257, 'a');
  EXPECT_EQ(refusal_of(Endpoint::kChat, body)->param, "stop");
  body = with(Endpoint::kChat, "");
  body["cache_salt"] = std::string(129, 'a');
  EXPECT_EQ(refusal_of(Endpoint::kChat, body)->param, "cache_salt");
}

TEST(ApiRefusals, Bodies) {
  for (const std::string& bytes :
       {std::string(), std::string("{"), std::string("nul"), std::string("{\"a\":NaN}"), std::string("{\"a\":1e999}"),
        std::string("{\"a\":\"\xff\"}"), std::string("{\"a\":\"\\ud80\"}"), std::string("{\"a\":\\ud800}"),
        std::string("{\"a\":1,\"a\":2}"), std::string("{}\0", 3), std::string("{} {}"),
        std::string(65, '[') + std::string(65, ']')}) {
    const auto body = parse_body(bytes);
    ASSERT_FALSE(body.ok()) << bytes;
    EXPECT_EQ(body.error().status, 400);
    EXPECT_EQ(body.error().code, "invalid_json");
    EXPECT_TRUE(text::is_valid_utf8(body.error().message));
    EXPECT_EQ(body.error().message.rfind("the body", 0), 0u) << body.error().message;
  }
  for (const char* bytes : {"[]", "null", "\"hi\"", "3", "true"}) {
    for (int i = 0; i < kEndpoints; ++i) {
      const auto endpoint = static_cast<Endpoint>(i);
      if (endpoint == Endpoint::kSampling || endpoint == Endpoint::kOllamaOptions) continue;
      const auto error = refusal_of(static_cast<Endpoint>(i), parse_body(bytes).value());
      ASSERT_TRUE(error.has_value()) << bytes;
      EXPECT_EQ(error->message.rfind("the body", 0), 0u) << error->message;
    }
  }
}

}  // namespace
}  // namespace ashlar::server::test
