// SPDX-License-Identifier: Apache-2.0
// Good requests: what the parsers make of them.

#include <gtest/gtest.h>

#include "unit/server/api_support.h"

namespace ashlar::server::test {
namespace {

Generation accepted(const Parsed<Generation>& parsed) {
  EXPECT_TRUE(parsed.ok()) << parsed.error().message;
  return parsed.ok() ? parsed.value() : Generation{};
}
Generation chat(const std::string& members, const ApiLimits& limits = {}) {
  return accepted(parse_chat(with(Endpoint::kChat, members), limits));
}
Generation completions(const std::string& members) {
  return accepted(parse_completions(with(Endpoint::kCompletions, members), {}));
}
Generation responses(const std::string& members) {
  return accepted(parse_responses(with(Endpoint::kResponses, members), {}));
}
Generation messages(const std::string& members) {
  return accepted(parse_messages(with(Endpoint::kMessages, members), {}));
}
Generation generate(const std::string& members) {
  return accepted(parse_generate(with(Endpoint::kGenerate, members), {}));
}
const ChatPrompt& prompt_of(const Generation& generation) { return std::get<ChatPrompt>(generation.prompts.at(0)); }

TEST(ApiRequests, ChatDefaults) {
  const Generation generation = chat("");
  EXPECT_EQ(generation.sampling.temperature, 1.0);
  EXPECT_EQ(generation.sampling.top_p, 1.0);
  EXPECT_FALSE(generation.sampling.wants_logprobs());
  EXPECT_FALSE(generation.max_tokens.has_value());
  EXPECT_FALSE(generation.seed.has_value());
  EXPECT_EQ(generation.tool_choice, ToolChoice::kNone);
  EXPECT_EQ(generation.width, 0);
  EXPECT_EQ(generation.n, 1);
  ApiLimits limits;
  limits.defaults = {0.6, 0.95, 20, 0.0, 1.1};
  const SamplingParams sampling = chat(R"("top_k":-1)", limits).sampling;
  EXPECT_EQ(sampling.temperature, 0.6);
  EXPECT_EQ(sampling.top_p, 0.95);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.repetition_penalty, 1.1);
}

TEST(ApiRequests, ChatFields) {
  const Generation generation =
      chat(R"("model":"m","temperature":0.5,"top_p":0.9,"top_k":5.0,"min_p":0.1,"presence_penalty":1,
    "frequency_penalty":-1,"repetition_penalty":1.2,"logit_bias":{"7":-100,"8":2.5},"seed":-1,"n":3,"stop":"end","stop_token_ids":[4,5],
    "ignore_eos":true,"max_completion_tokens":32,"stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":5,
    "cache_salt":"s","speculative":false,"user":"u","store":true,"metadata":{"a":"b"},"parallel_tool_calls":false)");
  EXPECT_EQ(generation.model, "m");
  EXPECT_EQ(generation.sampling.top_k, 5);
  EXPECT_EQ(generation.sampling.frequency_penalty, -1);
  EXPECT_EQ(generation.sampling.logit_bias, (std::vector<std::pair<int32_t, float>>{{7, -100.f}, {8, 2.5f}}));
  EXPECT_EQ(generation.seed, UINT64_MAX);
  EXPECT_EQ(generation.n, 3);
  EXPECT_EQ(generation.stop, std::vector<std::string>{"end"});
  EXPECT_EQ(generation.stop_ids, (std::vector<int32_t>{4, 5}));
  EXPECT_TRUE(generation.ignore_eos && generation.stream && generation.include_usage);
  EXPECT_EQ(generation.max_tokens, 32);
  EXPECT_EQ(generation.sampling.top_logprobs, 5);
  EXPECT_EQ(generation.cache_salt, "s");
  EXPECT_EQ(generation.width, 1);
  EXPECT_FALSE(generation.parallel_tool_calls);
}

TEST(ApiRequests, AlgorithmsAndTheirParameters) {
  const std::string members = R"("dllm":{"algorithm":"a","threshold":0.5,"steps":3,"absent":null})";
  for (const Generation& generation :
       {chat(members), completions(members), responses(members), messages(members), generate(members)}) {
    EXPECT_EQ(generation.choice.algorithm, "a");
    EXPECT_EQ(generation.choice.values, (std::map<std::string, double>{{"threshold", 0.5}, {"steps", 3.0}}));
  }
  EXPECT_TRUE(chat("").choice.empty());
  EXPECT_EQ(refusal_of(Endpoint::kChat, with(Endpoint::kChat, R"("dllm":{"threshold":"high"})"))->param,
            "dllm.threshold");
  EXPECT_EQ(refusal_of(Endpoint::kGenerate, with(Endpoint::kGenerate, R"("dllm":{"algorithm":7})"))->param,
            "dllm.algorithm");
  EXPECT_EQ(refusal_of(Endpoint::kChat, with(Endpoint::kChat, R"("dllm":"fast")"))->param, "dllm");
}

TEST(ApiRequests, ChatConversation) {
  const Generation generation =
      chat(R"("messages":[{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
    {"role":"user","content":"q","name":"n"},
    {"role":"assistant","content":null,"reasoning_content":"r","refusal":null,"annotations":[],
     "tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\": 1}"}}]},
    {"role":"tool","tool_call_id":"c1","content":"ok"}],
    "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"x":{"type":"integer"}}}}}],
    "tool_choice":{"type":"function","function":{"name":"f"}},"chat_template_kwargs":{"enable_thinking":false})");
  const ChatPrompt& prompt = prompt_of(generation);
  EXPECT_EQ(prompt.messages, Json::parse(R"([{"role":"system","content":"ab"},{"role":"user","content":"q","name":"n"},
    {"role":"assistant","content":"","reasoning_content":"r","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":{"x":1}}}]},
    {"role":"tool","content":"ok","tool_call_id":"c1"}])"));
  EXPECT_EQ(prompt.tools[0]["function"]["parameters"]["properties"]["x"]["type"], "integer");
  EXPECT_EQ(generation.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(generation.tool_name, "f");
  EXPECT_EQ(prompt.template_kwargs, Json::parse(R"({"enable_thinking":false})"));
}

// Answers hand on what the model wrote; a client that sends it back goes on.
TEST(ApiRequests, TakesBackArgumentsThatAreCutOff) {
  const Json arguments = {{"raw_arguments", "{\"x\": [1, "}};
  const std::string text = Json(arguments["raw_arguments"]).dump();
  const Generation generations[] = {
      chat(R"("messages":[{"role":"user","content":"q"},{"role":"assistant","content":"",
           "tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":)" +
           text + R"(}}]},{"role":"tool","tool_call_id":"c","content":"?"}])"),
      responses(R"("input":[{"role":"user","content":"q"},{"type":"function_call","call_id":"c","name":"f",
           "arguments":)" +
                text + R"(},{"type":"function_call_output","call_id":"c","output":"?"}])")};
  for (const Generation& generation : generations) {
    EXPECT_EQ(prompt_of(generation).messages[1]["tool_calls"][0]["function"]["arguments"], arguments);
  }
}

TEST(ApiRequests, ReasoningAndTools) {
  EXPECT_EQ(prompt_of(chat(R"("reasoning_effort":"none")")).template_kwargs,
            Json::parse(R"({"enable_thinking":false,"thinking":false})"));
  const Json low =
      prompt_of(chat(R"("reasoning_effort":"low","chat_template_kwargs":{"thinking":false})")).template_kwargs;
  EXPECT_EQ(low, Json::parse(R"({"thinking":false,"enable_thinking":true,"reasoning_effort":"low"})"));
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  EXPECT_EQ(chat(tools).tool_choice, ToolChoice::kAuto);
  EXPECT_EQ(chat(tools + R"(,"tool_choice":"none")").tool_choice, ToolChoice::kNone);
  EXPECT_EQ(chat(tools + R"(,"tool_choice":"required")").tool_choice, ToolChoice::kRequired);
}

TEST(ApiRequests, OtherWaysToAskForThinking) {
  const Json off = Json::parse(R"({"enable_thinking":false,"thinking":false})");
  for (const char* members : {R"("enable_thinking":false)", R"("thinking":{"type":"disabled"})",
                              R"("reasoning":{"enabled":false})", R"("reasoning":{"effort":"none"})"}) {
    EXPECT_EQ(prompt_of(chat(members)).template_kwargs, off) << members;
  }
  EXPECT_FALSE(chat(R"("reasoning_format":"none")").split_reasoning);
  EXPECT_FALSE(chat(R"("reasoning_format":"hidden")").show_reasoning);
  EXPECT_FALSE(chat(R"("reasoning":{"exclude":true})").show_reasoning);
  EXPECT_TRUE(chat(R"("reasoning_format":"auto")").split_reasoning);
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    const Generation generation =
        chat(R"("messages":[{"role":"assistant","content":"a","id":"x","audio":null,"extra":{"a":1},")" +
             std::string(name) + R"(":"r"},{"role":"user","content":"b"}])");
    EXPECT_EQ(prompt_of(generation).messages[0],
              Json::parse(R"({"role":"assistant","content":"a","reasoning_content":"r"})"));
  }
}

// A mass of nothing keeps the likeliest token alone.
TEST(ApiRequests, TopPOfNothingIsGreedy) {
  const std::string members = R"("top_p":0,"temperature":0.7)";
  for (const Generation& generation : {chat(members), completions(members), responses(members), messages(members),
                                       generate(R"("sampling_params":{)" + members + "}")}) {
    EXPECT_TRUE(generation.sampling.greedy());
    EXPECT_EQ(check_sampling(generation.sampling, 100), "");
  }
}

TEST(ApiRequests, NoLimitOnTheAnswer) {
  EXPECT_FALSE(chat(R"("max_tokens":-1)").max_tokens.has_value());
  EXPECT_FALSE(completions(R"("n_predict":-1)").max_tokens.has_value());
  EXPECT_FALSE(generate(R"("sampling_params":{"max_new_tokens":-1})").max_tokens.has_value());
  EXPECT_EQ(completions(R"("n_predict":3,"repeat_penalty":1.25)").max_tokens, 3);
  EXPECT_EQ(completions(R"("n_predict":3,"repeat_penalty":1.25)").sampling.repetition_penalty, 1.25);
}

// Python's reader keeps half a pair and JavaScript's encoder writes U+FFFD for it.
TEST(ApiRequests, HalvesOfSurrogatePairsAreReplaced) {
  const std::pair<const char*, const char*> kTexts[] = {
      {R"(cut \ud83d)", "cut \uFFFD"},   {R"(\uDE00 cut)", "\uFFFD cut"},
      {R"(\ud83d\ude00)", "\U0001F600"}, {R"(\ud83d\ud83d\ude00)", "\uFFFD\U0001F600"},
      {R"(\ud83d\u0041)", "\uFFFDA"},    {R"(\ude00\ud83d)", "\uFFFD\uFFFD"},
      {R"(\ud83d\n)", "\uFFFD\n"},       {R"(\\ud83d)", "\\ud83d"},
      {R"(\\\ud83d)", "\\\uFFFD"},       {R"(\ud83d\\ude00)", "\uFFFD\\ude00"}};
  for (const auto& [written, meant] : kTexts) {
    const std::string text(written);
    const auto body = parse_body("{\"a\":\"" + text + "\",\"" + text + "\":[\"" + text + "\"]}");
    ASSERT_TRUE(body.ok()) << text;
    EXPECT_EQ(body.value(), Json({{"a", meant}, {meant, Json::array({meant})}})) << text;
  }
  const Generation generation = chat(
      R"("guided_json":"{\"const\":\"\\ud83d\"}","messages":[{"role":"user","content":"q"},{"role":"assistant","content":"",
         "tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"x\": \"\\ude00\"}"}}]}])");
  EXPECT_EQ(generation.constraint.schema, Json({{"const", "\uFFFD"}}));
  EXPECT_EQ(prompt_of(generation).messages[1]["tool_calls"][0]["function"]["arguments"], Json({{"x", "\uFFFD"}}));
}

// What does nothing is accepted and reported by its path; what is absent is not.
TEST(ApiRequests, FieldsWithoutEffectAreReported) {
  std::vector<std::string> ignored;
  ApiLimits limits;
  limits.on_ignored = [&](const std::string& field) { ignored.push_back(field); };
  const auto body = with(Endpoint::kChat, R"("ttl":300,"keep_alive":null,"oops":false,"min_tokens":0,"store":true,
      "stream_options":{"include_usage":true,"oops":false,"nothing":null},"top_p":1)");
  EXPECT_TRUE(parse_chat(body, limits).ok());
  EXPECT_EQ(ignored, (std::vector<std::string>{"ttl", "stream_options.oops", "oops"}));
}

TEST(ApiRequests, Constraints) {
  using Kind = Constraint::Kind;
  EXPECT_EQ(chat(R"("response_format":{"type":"text"})").constraint.kind, Kind::kNone);
  EXPECT_EQ(chat(R"("response_format":{"type":"json_object"})").constraint.kind, Kind::kJsonObject);
  const auto schema =
      chat(
          R"("response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"array"}}})")
          .constraint;
  EXPECT_EQ(schema.kind, Kind::kJsonSchema);
  EXPECT_EQ(schema.schema, Json::parse(R"({"type":"array"})"));
  EXPECT_EQ(chat(R"("guided_json":"{\"type\":\"null\"}")").constraint.schema, Json::parse(R"({"type":"null"})"));
  EXPECT_EQ(chat(R"("structured_outputs":{"json":{"a":1}})").constraint.kind, Kind::kJsonSchema);
  EXPECT_EQ(chat(R"("structured_outputs":{"json_object":true})").constraint.kind, Kind::kJsonObject);
  EXPECT_EQ(chat(R"("guided_regex":"a+")").constraint.pattern, "a+");
  EXPECT_EQ(chat(R"("structured_outputs":{"grammar":"g"})").constraint.kind, Kind::kGrammar);
  EXPECT_EQ(chat(R"("guided_choice":["a","b"])").constraint.choices, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(
      responses(
          R"("text":{"format":{"type":"json_schema","name":"n","schema":{"a":1},"strict":true},"verbosity":"low"})")
          .constraint.kind,
      Kind::kJsonSchema);
  EXPECT_EQ(messages(R"("output_config":{"format":{"type":"json_schema","schema":{"a":1}}})").constraint.kind,
            Kind::kJsonSchema);
  EXPECT_EQ(generate(R"("sampling_params":{"ebnf":"g"})").constraint.kind, Kind::kGrammar);
}

TEST(ApiRequests, Completions) {
  EXPECT_EQ(completions("").max_tokens, 16);
  EXPECT_EQ(std::get<TextPrompt>(completions(R"("prompt":["a","b"])").prompts.at(1)).text, "b");
  EXPECT_EQ(std::get<TokenPrompt>(completions(R"("prompt":[1,2])").prompts.at(0)).ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(std::get<TokenPrompt>(completions(R"("prompt":[[1],[2,3]])").prompts.at(1)).ids,
            (std::vector<int32_t>{2, 3}));
  EXPECT_FALSE(completions(R"("add_special_tokens":false)").add_special_tokens);
  EXPECT_TRUE(completions(R"("echo":true)").echo);
  EXPECT_EQ(completions(R"("logprobs":0)").sampling.top_logprobs, 0);
  EXPECT_EQ(completions(R"("n":2,"best_of":2,"suffix":"")").n, 2);
}

TEST(ApiRequests, ResponsesAsCodexSendsThem) {
  const Generation generation = responses(
      R"("model":"m","instructions":"be brief","stream":true,"store":false,"include":["reasoning.encrypted_content"],
    "prompt_cache_key":"k","parallel_tool_calls":false,"tool_choice":"auto","reasoning":{"effort":"medium","summary":"auto"},"previous_response_id":null,
    "tools":[{"type":"function","name":"shell","strict":false,"parameters":{"type":"object"}},{"type":"web_search"},{"type":"namespace","name":"x","tools":[]},
             {"type":"image_generation"},{"type":"custom","name":"apply_patch","format":{"type":"grammar"}}],
    "input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"hi"}]},
             {"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"think"}],"encrypted_content":null},
             {"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look"}]},
             {"type":"function_call","call_id":"c","name":"shell","arguments":"{}"},
             {"type":"function_call_output","call_id":"c","output":"done"},
             {"role":"user","content":"next"}])");
  EXPECT_EQ(prompt_of(generation).messages,
            Json::parse(R"([{"role":"system","content":"be brief"},{"role":"user","content":"hi"},
    {"role":"assistant","content":"I look","reasoning_content":"think","tool_calls":[{"id":"c","type":"function","function":{"name":"shell","arguments":{}}}]},
    {"role":"tool","content":"done","tool_call_id":"c"},{"role":"user","content":"next"}])"));
  ASSERT_EQ(prompt_of(generation).tools.size(), 1u);
  EXPECT_EQ(prompt_of(generation).tools[0]["function"]["name"], "shell");
  EXPECT_EQ(generation.repeated["instructions"], "be brief");
  EXPECT_FALSE(generation.sampling.wants_logprobs());
  EXPECT_EQ(responses(R"("include":["message.output_text.logprobs"],"top_logprobs":3)").sampling.top_logprobs, 3);
}

TEST(ApiRequests, MessagesAsClaudeCodeSendsThem) {
  const Generation generation = messages(
      R"("model":"m","stream":true,"stop_sequences":null,"metadata":{"user_id":"u"},"thinking":{"type":"enabled","budget_tokens":1024},
    "system":[{"type":"text","text":"s1 ","cache_control":{"type":"ephemeral"}},{"type":"text","text":"s2"}],
    "tools":[{"name":"Read","description":"d","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}},{"type":"web_search_20250305","name":"web_search"}],
    "tool_choice":{"type":"any","disable_parallel_tool_use":true},
    "speed":"standard","temperature":1,"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},
    "messages":[{"role":"user","content":[{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}]},
      {"role":"system","content":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}]},
      {"role":"assistant","id":"msg_1","type":"message","model":"m","stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":3},
       "content":[{"type":"thinking","thinking":"t","signature":""},{"type":"text","text":"ok"},{"type":"tool_use","id":"a","name":"Read","input":{"p":1}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"data"}]},{"type":"text","text":"go on"}]},
      {"role":"developer","content":"Now."}])");
  EXPECT_EQ(
      prompt_of(generation).messages,
      Json::parse(
          R"([{"role":"system","content":"s1 s2"},{"role":"user","content":"hi"},{"role":"system","content":"Be brief."},
    {"role":"assistant","content":"ok","reasoning_content":"t","tool_calls":[{"id":"a","type":"function","function":{"name":"Read","arguments":{"p":1}}}]},
    {"role":"tool","content":"data","tool_call_id":"a"},{"role":"user","content":"go on"},{"role":"system","content":"Now."}])"));
  EXPECT_EQ(prompt_of(generation).tools.size(), 1u);
  EXPECT_EQ(generation.tool_choice, ToolChoice::kRequired);
  EXPECT_FALSE(generation.parallel_tool_calls);
  EXPECT_EQ(prompt_of(generation).template_kwargs["enable_thinking"], true);
}

TEST(ApiRequests, Generate) {
  const Generation single = generate(
      R"("rid":"r","return_logprob":true,"top_logprobs_num":2,"sampling_params":{"temperature":0,"max_new_tokens":5,"stop":["x"],"sampling_seed":3})");
  EXPECT_FALSE(single.batched);
  EXPECT_EQ(single.max_tokens, 5);
  EXPECT_EQ(single.seed, 3u);
  EXPECT_EQ(single.sampling.top_logprobs, 2);
  EXPECT_EQ(single.ids, std::vector<std::string>{"r"});
  EXPECT_EQ(generate("").max_tokens, 128);
  const Generation list = generate(R"("text":["a","b"],"sampling_params":[{"n":2},{"n":2}],"stream":true)");
  EXPECT_TRUE(list.batched && list.stream);
  EXPECT_EQ(list.prompts.size(), 2u);
  EXPECT_EQ(list.n, 2);
}

TEST(ApiRequests, SmallOnes) {
  const auto tokenize = parse_tokenize(Json::parse(R"({"content":"x","add_special":false,"with_pieces":true})"), {});
  ASSERT_TRUE(tokenize.ok());
  EXPECT_EQ(std::get<TextPrompt>(tokenize.value().prompt).text, "x");
  EXPECT_FALSE(tokenize.value().add_special_tokens);
  EXPECT_TRUE(tokenize.value().with_pieces);
  const auto render = parse_apply_template(with(Endpoint::kApplyTemplate, R"("add_generation_prompt":false)"), {});
  ASSERT_TRUE(render.ok());
  EXPECT_FALSE(std::get<ChatPrompt>(render.value().prompt).add_generation_prompt);
  EXPECT_EQ(parse_detokenize(Json::parse(R"({"tokens":[5,6]})"), {}).value().ids, (std::vector<int32_t>{5, 6}));
  EXPECT_EQ(parse_detokenize(Json::parse(R"({"tokens":[]})"), {}).value().ids.size(), 0u);
  EXPECT_TRUE(parse_count_tokens(with(Endpoint::kCountTokens, R"("system":"s")"), {}).ok());
}

}  // namespace
}  // namespace ashlar::server::test
