// SPDX-License-Identifier: Apache-2.0
#include "server/api/parse/field_table.h"

#include "base/check.h"

namespace ashlar::server {
namespace {

constexpr uint32_t C = bit_of(Endpoint::kChat);
constexpr uint32_t P = bit_of(Endpoint::kCompletions);
constexpr uint32_t R = bit_of(Endpoint::kResponses);
constexpr uint32_t M = bit_of(Endpoint::kMessages);
constexpr uint32_t K = bit_of(Endpoint::kCountTokens);
constexpr uint32_t G = bit_of(Endpoint::kGenerate);
constexpr uint32_t S = bit_of(Endpoint::kSampling);
constexpr uint32_t T = bit_of(Endpoint::kTokenize);
constexpr uint32_t D = bit_of(Endpoint::kDetokenize);
constexpr uint32_t A = bit_of(Endpoint::kApplyTemplate);
constexpr uint32_t O = bit_of(Endpoint::kOllamaChat);
constexpr uint32_t Q = bit_of(Endpoint::kOllamaGenerate);
constexpr uint32_t N = bit_of(Endpoint::kOllamaOptions);
constexpr uint32_t W = bit_of(Endpoint::kOllamaShow);
constexpr uint32_t kText = C | P | R | M | G | O | Q;
constexpr uint32_t kOpenAi = C | P | R;
constexpr uint32_t kPrompts = C | R | M | K | T | A | O | Q;  // whatever renders a conversation
constexpr auto kActs = FieldUse::kActs;
constexpr auto kTolerated = FieldUse::kTolerated;
constexpr auto kRefused = FieldUse::kRefused;

constexpr const char* kBool = R"({"type":"boolean"})";
constexpr const char* kString = R"({"type":"string"})";
constexpr const char* kObject = R"({"type":"object"})";
constexpr const char* kArray = R"({"type":"array"})";
constexpr const char* kAny = "{}";
constexpr const char* kLength = R"({"type":"integer","minimum":-1,"maximum":2147483647,"not":{"const":0}})";
constexpr const char* kLengthOrNone = R"({"type":"integer","minimum":-1,"maximum":2147483647})";
constexpr const char* kStop =
    R"({"oneOf":[{"type":"string","maxLength":256},{"type":"array","items":{"type":"string","maxLength":256},"maxItems":16}]})";
constexpr const char* kIds = R"({"type":"array","items":{"type":"integer","minimum":0}})";
constexpr const char* kPenalty = R"({"type":"number","minimum":-100,"maximum":100})";
constexpr const char* kTops = R"({"type":"integer","minimum":0,"maximum":20})";
constexpr const char* kStringOrList = R"({"oneOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]})";
constexpr const char* kIdsOrLists =
    R"({"oneOf":[{"type":"array","items":{"type":"integer"}},{"type":"array","items":{"type":"array","items":{"type":"integer"}}}]})";

constexpr const char* kShortest =
    "Shortest answer. Above 0 only with ignore_eos and without stops, where an answer has max_tokens anyway.";

constexpr const char* kChatTool = R"([{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";
constexpr const char* kFlatTool = R"([{"type":"function","name":"f","parameters":{"type":"object"}}])";
constexpr const char* kMessagesTool = R"([{"name":"f","input_schema":{"type":"object"}}])";

constexpr FieldSpec kFields[] = {
    // The prompt.
    {"model", C | P | R | M | K | G | T | D | A | O | Q | W, kActs, kString, R"("m")",
     "Name of a served model; absent: the one that is served."},
    {"messages", C | A, kActs, kArray, R"([{"role":"user","content":"hi"}])",
     "system, developer, user, assistant and tool messages; text only.", true},
    {"messages", M | K, kActs, kArray, R"([{"role":"user","content":"hi"}])",
     "user, assistant and system messages; text, tool_use, tool_result and thinking blocks.", true},
    {"messages", O, kActs, kArray, R"([{"role":"user","content":"hi"}])",
     "system, user, assistant and tool messages; text only. None: nothing is answered."},
    {"messages", T, kActs, kArray, R"([{"role":"user","content":"hi"}])",
     "Instead of prompt: tokens of the rendered conversation."},
    {"system", M | K, kActs, kStringOrList, R"("s")", "A string or text blocks."},
    {"prompt", P, kActs, kAny, R"("hi")", "A string, an array of strings, token ids, or an array of token ids.", true},
    {"prompt", T, kActs, kString, R"("hi")", "The text."},
    {"prompt", Q, kActs, kString, R"("hi")", "The user's message. Empty: nothing is answered."},
    {"system", Q, kActs, kString, R"("s")", "A system message before it."},
    {"raw", Q, kActs, kBool, "true", "The prompt is the whole text, without the model's template."},
    {"content", T, kActs, kString, R"("hi")", "The text, as llama.cpp names it."},
    {"tokens", D, kActs, kIds, "[1]", "Token ids.", true},
    {"text", G, kActs, kStringOrList, R"("hi")", "The prompt, or several; or input_ids."},
    {"input_ids", G, kActs, kIdsOrLists, "[1]", "Token ids of the prompt, or of several."},
    {"sampling_params", G, kActs, kObject, R"({"temperature":0})",
     "See SamplingParams. A list must have equal entries, one a prompt."},
    {"input", R, kActs, kAny, R"("hi")",
     "A string, or message, function_call, function_call_output and reasoning items.", true},
    {"instructions", R, kActs, kString, R"("s")", "A system message before the input."},
    {"add_generation_prompt", C | T | A, kActs, kBool, "true", "Ends the prompt with the beginning of an answer."},
    {"add_special_tokens", T, kActs, kBool, "false", "Adds the tokenizer's own BOS and such; default true."},
    {"add_special", T, kActs, kBool, "false", "add_special_tokens, as llama.cpp names it."},
    {"return_token_strs", T, kActs, kBool, "true", "Also each token as the vocabulary spells it."},
    {"with_pieces", T, kActs, kBool, "true", "return_token_strs, as llama.cpp names it."},
    {"parse_special", T, kActs, kBool, "false", "False: spellings of special tokens in a text are text; default true."},
    {"tools", C | T | A | O, kActs, kArray, kChatTool, "Function tools."},
    {"tools", R, kActs, kArray, kFlatTool, "Function tools; tools of other types are dropped."},
    {"tools", M | K, kActs, kArray, kMessagesTool, "Tools with input_schema; tools of other types are dropped."},
    {"tool_choice", C, kActs, kAny, R"("none")", "none, auto, required, or one function."},
    {"tool_choice", R, kActs, kAny, R"("none")", "none, auto, required, or one function."},
    {"tool_choice", M | K, kActs, kObject, R"({"type":"none"})", "auto, any, tool or none; disable_parallel_tool_use."},
    {"parallel_tool_calls", C | R, kActs, kBool, "false", "Several calls in one answer; default true."},
    {"chat_template_kwargs", kPrompts, kActs, kObject, R"({"enable_thinking":false})",
     "Variables of the chat template out of the server's list; scalars."},
    {"reasoning_effort", C, kActs, R"({"type":"string","enum":["none","minimal","low","medium","high","xhigh","max"]})",
     R"("low")", "For templates that know it; none turns reasoning off."},
    {"reasoning", R, kActs, kObject, R"({"effort":"low"})", "effort as reasoning_effort; summary is tolerated."},
    {"think", O | Q, kActs, kAny, "false", "true, false, or an effort, for templates that know it."},
    {"thinking", M | K, kActs, kObject, R"({"type":"disabled"})",
     "enabled or disabled for templates that know it; budget_tokens is no limit here."},
    {"output_config", M | K, kActs, kObject, R"({"effort":"low"})",
     "effort as reasoning_effort; format of type json_schema."},
    {"output_format", M, kActs, kObject, R"({"type":"json_schema","schema":{"type":"object"}})",
     "A JSON schema for the answer."},
    {"options", O | Q, kActs, kObject, R"({"temperature":0})", "See OllamaOptions."},
    // Its length and shape.
    {"max_tokens", C | P, kActs, kLengthOrNone, "8",
     "Longest answer; -1: up to the context limit. Absent: completions 16, chat -1. 0 needs echo or prompt_logprobs."},
    {"n_predict", C | P, kActs, kLengthOrNone, "8", "max_tokens, as llama.cpp names it."},
    {"max_tokens", M, kActs, kLength, "8", "Longest answer.", true},
    {"max_completion_tokens", C, kActs, kLengthOrNone, "8", "max_tokens by its newer name."},
    {"max_output_tokens", R, kActs, kLength, "8", "Longest answer."},
    {"max_new_tokens", S, kActs, kLengthOrNone, "8",
     "Longest answer; -1: up to the context limit; default 128. 0 needs logprob_start_len."},
    {"min_tokens", C | P, kActs, R"({"type":"integer","minimum":0})", "0", kShortest},
    {"min_new_tokens", S, kActs, R"({"type":"integer","minimum":0})", "0", kShortest},
    {"num_predict", N, kActs, R"({"type":"integer","minimum":-2,"maximum":2147483647})", "8",
     "Longest answer; 0 and below: up to the context limit, the default."},
    {"format", O | Q, kActs, kAny, R"("json")", "\"json\" or a JSON schema for the answer."},
    {"n", C | P | S, kActs, R"({"type":"integer","minimum":1,"maximum":16})", "2", "Answers for each prompt."},
    {"best_of", P, kActs, R"({"type":"integer","minimum":1,"maximum":16})", "1",
     "Must equal n: answers are not ranked."},
    {"stop", C | P | S | N, kActs, kStop, R"(["x"])", "Strings that end the answer; not part of it."},
    {"stop_sequences", M, kActs, R"({"type":"array","items":{"type":"string","maxLength":256},"maxItems":16})",
     R"(["x"])", "Strings that end the answer; not part of it."},
    {"stop_token_ids", C | P | S, kActs, kIds, "[1]", "Tokens that end the answer."},
    {"ignore_eos", C | P | R | S, kActs, kBool, "true", "The model's own end does not end the answer."},
    {"echo", P, kActs, kBool, "true", "The prompt precedes the answer, its log-probabilities included."},
    {"skip_special_tokens", C | P | S, kActs, kBool, "false", "Special tokens have no text; default true."},
    {"spaces_between_special_tokens", C | P | S, kTolerated, kBool, "true", "Tokens are put together as they are."},
    {"response_format", C | P, kActs, kObject, R"({"type":"json_object"})", "text, json_object or json_schema."},
    {"text", R, kActs, kObject, R"({"format":{"type":"json_object"}})",
     "format: text, json_object or json_schema; verbosity is tolerated."},
    {"structured_outputs", C | P, kActs, kObject, R"({"regex":"a"})",
     "One of json, regex, grammar, choice, json_object."},
    {"guided_json", C | P, kActs, kAny, R"({"type":"object"})", "structured_outputs.json by its older name."},
    {"guided_regex", C | P, kActs, kString, R"("a")", "structured_outputs.regex by its older name."},
    {"guided_grammar", C | P, kActs, kString, R"("root ::= \"a\"")", "structured_outputs.grammar by its older name."},
    {"guided_choice", C | P, kActs, kArray, R"(["a"])", "structured_outputs.choice by its older name."},
    {"json_schema", C | P, kActs, kAny, R"({"type":"object"})", "structured_outputs.json, as llama.cpp names it."},
    {"grammar", C | P, kActs, kString, R"("root ::= \"a\"")", "structured_outputs.grammar, as llama.cpp names it."},
    {"json_schema", S, kActs, kString, R"("{\"type\":\"object\"}")", "A JSON schema, as text."},
    {"regex", C | P | S, kActs, kString, R"("a")", "A regular expression the answer matches."},
    {"ebnf", C | P | S, kActs, kString, R"("root ::= \"a\"")", "A grammar the answer follows."},
    // Sampling.
    {"temperature", C | P | R | M | S | N, kActs, R"({"type":"number","minimum":0,"maximum":100})", "0.5",
     "0 is greedy. Default: the model's, else 1."},
    {"top_p", C | P | R | M | S | N, kActs, R"({"type":"number","minimum":0,"maximum":1})", "0.5",
     "0 is greedy. Default: the model's, else 1."},
    {"top_k", C | P | M | S | N, kActs, R"({"type":"integer","minimum":-1,"maximum":2147483647})", "5",
     "0 and -1: off. Default: the model's, else off."},
    {"min_p", C | P | S | N, kActs, R"({"type":"number","minimum":0,"maximum":1})", "0.1",
     "Relative to the most likely token."},
    {"repetition_penalty", C | P | S, kActs, R"({"type":"number","exclusiveMinimum":0,"maximum":100})", "1.1",
     "Over prompt and answer."},
    {"repeat_penalty", C | P | N, kActs, R"({"type":"number","exclusiveMinimum":0,"maximum":100})", "1.1",
     "repetition_penalty, as llama.cpp names it."},
    {"repeat_last_n", C | P | N, kActs, R"({"type":"integer","minimum":-1,"maximum":2147483647})", "-1",
     "-1: the penalty is over prompt and answer; 0: there is none. Others with a penalty are refused."},
    {"presence_penalty", C | P | S | N, kActs, kPenalty, "0.1", "Over the answer."},
    {"frequency_penalty", C | P | S | N, kActs, kPenalty, "0.1", "Over the answer."},
    {"logit_bias", C | P | S, kActs, kObject, R"({"1":2})", "Token id, as a string, to a number of -1000 to 1000."},
    {"seed", C | P | S | N, kActs, R"({"type":"integer"})", "7", "The same seed gives the same tokens."},
    {"sampling_seed", S, kActs, R"({"type":"integer"})", "7", "seed, as SGLang names it."},
    {"speculative", kText, kActs, kBool, "false",
     "false: no speculative decoding, the tokens are the same; of models that fill blocks: one token a pass."},
    {"dllm", kText, kActs, kObject, R"({"threshold":0.5})",
     "For models that fill blocks: algorithm, and its parameters by name. Default: the server's."},
    // The answer.
    {"stream", C | P | R | M | G, kActs, kBool, "true", "Server-sent events."},
    {"stream", O | Q, kActs, kBool, "false", "A line of JSON a part; default true."},
    {"logprobs", O | Q, kActs, kBool, "true", "Log-probabilities of the tokens."},
    {"top_logprobs", O | Q, kActs, kTops, "0", "This many most likely tokens; needs logprobs."},
    {"stream_options", C | P, kActs, kObject, R"({"include_usage":true})",
     "include_usage; continuous_usage_stats: each chunk has the usage so far; include_blocks: chunks say how many of "
     "their tokens were drafted, or which pass unmasked them; "
     "include_obfuscation is tolerated."},
    {"stream_options", R, kActs, kObject, R"({"include_obfuscation":false})", "include_obfuscation is tolerated."},
    {"logprobs", C, kActs, kBool, "true", "Log-probabilities of the tokens."},
    {"logprobs", P, kActs, kTops, "2", "Log-probabilities of the tokens and of this many most likely ones."},
    {"top_logprobs", C, kActs, kTops, "0", "This many most likely tokens; needs logprobs."},
    {"prompt_logprobs", C | P, kActs, kTops, "1",
     "Log-probabilities of the prompt's tokens and of this many most likely ones; not in a stream."},
    {"top_logprobs", R, kActs, kTops, "2", "Log-probabilities, with this many most likely tokens."},
    {"return_logprob", G, kActs, kBool, "true", "Log-probabilities of the answer's tokens."},
    {"top_logprobs_num", G, kActs, kTops, "0", "This many most likely tokens; needs return_logprob."},
    {"return_text_in_logprobs", G, kActs, kBool, "true", "The tokens' text next to them."},
    {"logprob_start_len", G, kActs, R"({"type":"integer","minimum":-1})", "0",
     "The first token of the prompt that gets a log-probability; needs return_logprob. Default -1: none."},
    {"rid", G, kActs, kStringOrList, R"("a")", "Comes back as meta_info.id."},
    {"include", R, kActs, kArray, R"(["reasoning.encrypted_content"])",
     "message.output_text.logprobs; other names are tolerated."},
    // Caching and identity.
    {"cache_salt", kText, kActs, kString, R"("a")", "Requests of different salts share no cached prompt."},
    {"prompt_cache_key", kOpenAi, kTolerated, kString, R"("a")",
     "Prompts are cached without it; cache_salt separates them."},
    {"prompt_cache_retention", C | R, kTolerated, kString, R"("24h")", "The cache decides by use."},
    {"cache_control", M | K, kTolerated, kObject, R"({"type":"ephemeral"})", "Prompts are cached without it."},
    {"user", kOpenAi, kActs, kString, R"("a")", "Kept in the request log."},
    {"safety_identifier", C | R, kTolerated, kString, R"("a")", "Not used."},
    {"metadata", C | P | R | M, kTolerated, kObject, R"({"a":"b"})", "Not used; responses repeat it."},
    {"store", C | P | R | M, kActs, kBool, "false",
     "false: its tokens are not kept, even where the operator keeps some (--learn)."},
    {"service_tier", C | P | R | M, kTolerated, kString, R"("auto")", "There is one."},
    {"priority", C | P | G, kTolerated, kAny, "0", "Requests are served in their order."},
    {"verbosity", C, kTolerated, kString, R"("low")", "Not used."},
    {"client_metadata", R, kTolerated, kObject, "{}", "Not used."},
    {"max_tool_calls", R, kTolerated, kAny, "1", "There are no built-in tools."},
    {"betas", M | K, kTolerated, kArray, "[]", "Not used."},
    {"context_management", M | K, kTolerated, kObject, "{}", "Not used: a prompt is never cut."},
    {"context_management", R, kTolerated, kAny, "[]", "Not used: a prompt is never cut."},
    {"inference_geo", M, kTolerated, kString, R"("us")", "Not used."},
    {"mm_processor_kwargs", C | P | G, kTolerated, kObject, "{}", "Not used."},
    {"include_reasoning", C, kActs, kBool, "false", "false: reasoning is left out of the answer; its tokens count."},
    {"separate_reasoning", C, kActs, kBool, "false", "false: <think> stays in the content."},
    {"enable_thinking", C, kActs, kBool, "false",
     "chat_template_kwargs.enable_thinking, for clients that cannot nest."},
    {"thinking", C, kActs, kObject, R"({"type":"disabled"})", "enabled or disabled for templates that know it."},
    {"reasoning", C, kActs, kObject, R"({"effort":"low"})", "effort as reasoning_effort; enabled; exclude."},
    {"reasoning_format", C, kActs, R"({"type":"string","enum":["auto","none","deepseek","parsed","raw","hidden"]})",
     R"("none")", "none, raw: as separate_reasoning false; hidden: as include_reasoning false."},
    {"cache_prompt", C | P, kTolerated, kBool, "true", "Prompts are cached without it; the tokens are the same."},
    {"prompt_cache_options", kOpenAi, kTolerated, kObject, R"({"mode":"implicit"})", "The cache decides by use."},
    {"ttl", kOpenAi, kTolerated, kAny, "300", "The model stays loaded."},
    {"keep_alive", kOpenAi | O | Q, kTolerated, kAny, R"("5m")", "The model stays loaded."},
    {"id_slot", C | P, kTolerated, kAny, "-1", "Requests find their cached prompt without it."},
    {"request_id", C | P, kTolerated, kString, R"("a")", "Requests have the server's own names."},
    {"rid", C | P, kTolerated, kStringOrList, R"("a")", "Requests have the server's own names."},
    {"session_id", C | P | G, kTolerated, kString, R"("a")", "Requests find their cached prompt without it."},
    {"data_parallel_rank", C | P | G, kTolerated, kAny, "0", "There is one engine."},
    {"routed_experts_start_len", C | P | G, kTolerated, kAny, "0",
     "Without effect where return_routed_experts is false."},
    {"routed_experts_prompt_start", C | P, kTolerated, kAny, "0", "Without effect where experts are not reported."},
    {"return_flat_raw_top_logprobs_b64", C | P | G, kTolerated, kBool, "true",
     "Without effect where these are not asked for."},
    {"mm_payload", C | P, kTolerated, kString, R"("tensors")", "Not used."},
    {"workspace_id", M | K, kTolerated, kString, R"("a")", "Not used."},
    {"add_special_tokens", P, kActs, kBool, "false", "The tokenizer's own BOS and such before a text; default true."},
    {"timings_per_token", C | P, kTolerated, kBool, "true", "The end of a stream has the figures."},
    {"return_progress", C | P, kTolerated, kBool, "true", "A prompt's progress is not reported."},
    {"n_keep", C | P, kTolerated, kAny, "4", "The context never moves."},
    {"n_probs", C | P, kRefused, kAny, "5", "log-probabilities are asked for by logprobs"},
    {"min_keep", C | P, kRefused, kAny, "2", "filters always keep one token; leave it out", false, "[1]"},
    {"t_max_predict_ms", C | P, kRefused, kAny, "100", "an answer has no time limit of its own; send max_tokens"},
    {"lora", C | P, kRefused, kAny, R"([{"id":0,"scale":1}])", "adapters are not available; leave it out"},
    {"add_special_tokens", C, kRefused, kBool, "true", "the chat template has them; leave it out"},
    {"token_ids_logprob", G, kRefused, kAny, "[1]",
     "log-probabilities of chosen tokens are not available; leave it out"},
    {"thinking_token_budget", C | P, kRefused, kAny, "5", "there is no limit on thinking alone; send max_tokens"},
    {"custom_params", C | P | S, kRefused, kAny, R"({"a":1})", "code of requests is not run; leave it out"},
    {"no_logs", G, kTolerated, kBool, "true", "The server's own settings decide what is logged."},
    {"log_metrics", G, kTolerated, kBool, "true", "The server's own settings decide what is logged."},
    {"stream_reasoning", C, kTolerated, kBool, "true", "A stream has everything as it comes."},
    {"stream_interval", C | P | S, kTolerated, kAny, "1", "A stream has everything as it comes."},
    {"guided_decoding_backend", C | P, kTolerated, kString, R"("auto")", "There is one."},
    {"draft_model", C | P, kTolerated, kString, R"("x")", "The server's drafter is used; the tokens are the same."},
    {"media_io_kwargs", C, kTolerated, kObject, "{}", "Not used."},
    {"custom_labels", P | G, kTolerated, kObject, "{}", "Not used."},
    {"speed", M | K, kRefused, kString, R"("fast")", "there is one speed; leave it out", false, R"(["standard"])"},
    {"modalities", C, kRefused, kArray, R"(["audio"])", "expected [\"text\"]: this server answers in text only", false,
     R"([["text"]])"},
    {"modalities", G, kRefused, kArray, R"(["image"])", "this server takes text only; leave images out", false,
     R"([["text"]])"},
    {"truncation", R, kRefused, kString, R"("auto")", "expected \"disabled\": a prompt is never cut", false,
     R"(["disabled"])"},
    {"return_routed_experts", C | P | G, kRefused, kBool, "true", "experts are not reported; leave it out"},
    {"return_hidden_states", C | P | G, kRefused, kBool, "true", "hidden states are not reported; leave it out"},
    {"session_params", C | P | G, kRefused, kAny, R"({"id":"a"})", "sessions are not kept; send the whole prompt"},
    {"custom_logit_processor", C | P | G, kRefused, kAny, R"("x")", "code of requests is not run; leave it out"},
    {"logits_processors", C | P, kRefused, kAny, R"(["x"])", "code of requests is not run; leave it out"},
    {"kv_transfer_params", C, kRefused, kAny, R"({"a":1})", "caches are not moved between servers; leave it out"},
    {"kv_transfer_params", P, kActs, kObject, "{}",
     "Asks for the prompt's hidden states in a file, which servers started with --allow-hidden-states write."},
    {"bad_words", C | P, kRefused, kAny, R"(["x"])", "forbidden words are not available; send logit_bias"},
    {"allowed_token_ids", C | P, kRefused, kAny, "[1]", "a list of allowed tokens is not available; send guided_regex"},
    {"truncate_prompt_tokens", C | P, kRefused, kAny, "5", "a prompt is never cut; send a shorter one"},
    {"include_stop_str_in_output", C | P, kRefused, kBool, "true", "stop strings are no part of the answer; add them"},
    {"no_stop_trim", C | P | S, kRefused, kBool, "true", "stop strings are no part of the answer; add them"},
    {"return_token_ids", C, kRefused, kBool, "true", "token ids are reported by completions; /tokenize gives a text's"},
    {"return_token_ids", P, kActs, kBool, "true", "Token ids of prompt and answer; not in a stream."},
    {"return_tokens_as_token_ids", C | P, kRefused, kBool, "true",
     "log-probabilities name tokens by text; leave it out"},
    {"video_data", G, kRefused, kAny, R"("x")", "this server takes text only; leave videos out"},
    {"audio_data", G, kRefused, kAny, R"("x")", "this server takes text only; leave audio out"},
    {"structural_tag", S, kRefused, kAny, R"("x")", "structural tags are not available; send ebnf"},
    {"dynatemp_range", C | P, kRefused, kAny, "0.5", "only one temperature is available; leave it out"},
    {"dynatemp_exponent", C | P, kTolerated, kAny, "1", "Without effect where dynatemp_range is 0."},
    {"typical_p", C | P | N, kRefused, kAny, "0.5", "typical sampling is not available; leave it out", false, "[1]"},
    {"top_n_sigma", C | P, kRefused, kAny, "1", "this filter is not available; leave it out", false, "[-1]"},
    {"xtc_probability", C | P, kRefused, kAny, "0.5", "XTC is not available; leave it out"},
    {"xtc_threshold", C | P, kTolerated, kAny, "0.1", "Without effect where xtc_probability is 0."},
    {"dry_multiplier", C | P, kRefused, kAny, "0.8", "DRY is not available; leave it out"},
    {"dry_base", C | P, kTolerated, kAny, "1.75", "Without effect where dry_multiplier is 0."},
    {"dry_allowed_length", C | P, kTolerated, kAny, "2", "Without effect where dry_multiplier is 0."},
    {"dry_penalty_last_n", C | P, kTolerated, kAny, "-1", "Without effect where dry_multiplier is 0."},
    {"dry_sequence_breakers", C | P, kTolerated, kArray, R"(["\n"])", "Without effect where dry_multiplier is 0."},
    {"mirostat", C | P | N, kRefused, kAny, "2", "mirostat is not available; leave it out"},
    {"mirostat_tau", C | P | N, kTolerated, kAny, "5", "Without effect where mirostat is 0."},
    {"mirostat_eta", C | P | N, kTolerated, kAny, "0.1", "Without effect where mirostat is 0."},
    {"samplers", C | P, kRefused, kAny, R"(["xtc"])", "the order of the filters is fixed: top_k, top_p, min_p"},
    // Of Ollama's alone.
    {"truncate", O | Q, kTolerated, kBool, "true", "A prompt is never cut; one that is too long is refused."},
    {"shift", O | Q, kTolerated, kBool, "true", "The context never moves; an answer ends where it is full."},
    {"name", W, kActs, kString, R"("m")", "model by its older name."},
    {"verbose", W, kTolerated, kBool, "true", "There is no more to say."},
    {"num_ctx", N, kTolerated, kAny, "8192", "The context is as the server was started."},
    {"num_keep", N, kTolerated, kAny, "4", "The context never moves."},
    {"num_batch", N, kTolerated, kAny, "512", "The server's own settings hold."},
    {"num_gpu", N, kTolerated, kAny, "99", "The server's own settings hold."},
    {"main_gpu", N, kTolerated, kAny, "0", "The server's own settings hold."},
    {"num_thread", N, kTolerated, kAny, "8", "The server's own settings hold."},
    {"use_mmap", N, kTolerated, kAny, "true", "The server's own settings hold."},
    {"use_mlock", N, kTolerated, kAny, "true", "The server's own settings hold."},
    {"numa", N, kTolerated, kAny, "true", "The server's own settings hold."},
    {"low_vram", N, kTolerated, kAny, "true", "The server's own settings hold."},
    {"f16_kv", N, kTolerated, kAny, "true", "The server's own settings hold."},
    {"penalize_newline", N, kTolerated, kAny, "true", "Newlines are tokens like others."},
    {"tfs_z", N, kRefused, kAny, "0.5", "tail-free sampling is not available; leave it out", false, "[1]"},
    {"template", Q, kRefused, kString, R"("x")", "templates of requests are not run; send raw with the whole text"},
    {"context", Q, kRefused, kArray, "[1]", "answers are not kept; send the conversation to /api/chat"},
    {"images", Q, kRefused, kArray, R"(["x"])", "this server takes text only; leave images out"},
    {"lora_path", C | P, kRefused, kAny, R"("x")", "adapters are not available; leave it out"},
    {"lora_path", G, kRefused, kAny, R"("x")", "adapters are not available; leave it out"},
    {"image_data", G, kRefused, kAny, R"("x")", "this server takes text only; leave images out"},
    {"input_embeds", G, kRefused, kAny, "[[1.0]]", "embeddings as input are not available; send text or input_ids"},
    // Known and refused, with a reason better than "unknown".
    {"suffix", P | Q, kRefused, kString, R"("x")", "filling in before a suffix is not available; leave it out"},
    {"functions", C, kRefused, kArray, R"([{"name":"f"}])", "is out of date; send tools"},
    {"function_call", C, kRefused, kAny, R"("auto")", "is out of date; send tool_choice"},
    {"audio", C, kRefused, kObject, R"({"voice":"a"})", "this server answers in text only; leave it out"},
    {"prediction", C, kRefused, kObject, R"({"type":"content"})", "predicted outputs are not available; leave it out"},
    {"web_search_options", C, kRefused, kObject, R"({"a":1})", "there is no web search here; leave it out"},
    {"moderation", C | R, kRefused, kAny, R"({"a":1})", "there is no moderation here; leave it out"},
    {"continue_final_message", C | T | A, kRefused, kBool, "true",
     "continuing a message is not available; leave it out"},
    {"chat_template", C | T | A, kRefused, kString, R"("x")",
     "templates of requests are not run; the model's own is used"},
    {"documents", C, kRefused, kArray, "[{}]", "documents are not available; put them into a message"},
    {"best_of", C, kRefused, kAny, "2", "answers are not ranked; leave it out", false, "[1]"},
    {"stop_regex", C | P | S, kRefused, kStringOrList, R"("a+")",
     "patterns that end an answer are not available; send stop"},
    {"use_beam_search", C | P, kRefused, kBool, "true", "beam search is not available; leave it out"},
    {"length_penalty", C | P, kRefused, kAny, "2", "beam search is not available; leave it out", false, "[1]"},
    {"early_stopping", C | P, kRefused, kBool, "true", "beam search is not available; leave it out"},
    {"background", R, kRefused, kBool, "true",
     "answers are not kept, so they cannot be made in the background; set it to false"},
    {"previous_response_id", R, kRefused, kString, R"("resp_1")",
     "answers are not kept; send the whole conversation as input"},
    {"conversation", R, kRefused, kAny, R"("conv_1")",
     "conversations are not kept; send the whole conversation as input"},
    {"prompt", R, kRefused, kObject, R"({"id":"p"})", "stored prompts are not available; send input"},
    {"mcp_servers", M | K, kRefused, kArray, R"([{"url":"x"}])",
     "MCP servers are for the client to call; leave it out"},
    {"container", M, kRefused, kString, R"("x")", "there is no code execution here; leave it out"},
};

constexpr EndpointInfo kInfos[kEndpoints] = {
    {Endpoint::kChat, "/v1/chat/completions", "OpenAI's chat completions"},
    {Endpoint::kCompletions, "/v1/completions", "OpenAI's text completions"},
    {Endpoint::kResponses, "/v1/responses", "OpenAI's responses, without state"},
    {Endpoint::kMessages, "/v1/messages", "Anthropic's messages"},
    {Endpoint::kCountTokens, "/v1/messages/count_tokens", "Tokens of a prompt of /v1/messages"},
    {Endpoint::kGenerate, "/generate", "SGLang's native generation"},
    {Endpoint::kSampling, "sampling_params", "Sampling of /generate"},
    {Endpoint::kTokenize, "/tokenize", "Text or a conversation to token ids"},
    {Endpoint::kDetokenize, "/detokenize", "Token ids to text"},
    {Endpoint::kApplyTemplate, "/apply-template", "A conversation to the prompt's text"},
    {Endpoint::kOllamaChat, "/api/chat", "Ollama's chat"},
    {Endpoint::kOllamaGenerate, "/api/generate", "Ollama's generation from one prompt"},
    {Endpoint::kOllamaOptions, "options", "Sampling of Ollama's requests"},
    {Endpoint::kOllamaShow, "/api/show", "What Ollama's clients ask about a model"},
};

}  // namespace

const EndpointInfo& info_of(Endpoint endpoint) {
  const EndpointInfo& info = kInfos[static_cast<size_t>(endpoint)];
  ASHLAR_CHECK(info.endpoint == endpoint);
  return info;
}

std::span<const FieldSpec> all_fields() { return kFields; }

const FieldSpec* find_field(Endpoint endpoint, std::string_view name) {
  for (const FieldSpec& field : kFields) {
    if ((field.endpoints & bit_of(endpoint)) != 0 && name == field.name) return &field;
  }
  return nullptr;
}

}  // namespace ashlar::server
