// SPDX-License-Identifier: Apache-2.0
// Bodies as clients and load tools send them, with every parameter of their signatures that has a default or is a hint.

#include <gtest/gtest.h>

#include "unit/server/api_support.h"

namespace ashlar::server::test {
namespace {

struct Body {
  const char* client;
  Endpoint endpoint;
  const char* members;
};

constexpr Body kBodies[] = {
    {"openai, chat", Endpoint::kChat,
     R"("model":"m","frequency_penalty":0,"presence_penalty":0,"logit_bias":null,"logprobs":false,"top_logprobs":null,
        "max_completion_tokens":16,"metadata":{"a":"b"},"modalities":["text"],"moderation":null,"n":1,"parallel_tool_calls":true,
        "prediction":null,"prompt_cache_key":"k","prompt_cache_options":{"mode":"implicit"},"prompt_cache_retention":"24h",
        "reasoning_effort":"medium","response_format":{"type":"text"},"safety_identifier":"s","seed":1,"service_tier":"auto",
        "stop":null,"store":false,"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false},
        "temperature":1,"tool_choice":"none","top_p":1,"user":"u","verbosity":"medium","web_search_options":null,"audio":null)"},
    {"openai, completions", Endpoint::kCompletions,
     R"("model":"m","best_of":1,"echo":false,"frequency_penalty":0,"logit_bias":{},"logprobs":null,"max_tokens":16,"n":1,
        "presence_penalty":0,"seed":1,"stop":null,"stream":false,"stream_options":null,"suffix":null,"temperature":1,"top_p":1,"user":"u")"},
    {"openai, responses", Endpoint::kResponses,
     R"("model":"m","background":false,"context_management":null,"conversation":null,"include":[],"instructions":null,
        "max_output_tokens":null,"max_tool_calls":null,"metadata":{},"parallel_tool_calls":true,"previous_response_id":null,
        "prompt":null,"prompt_cache_key":"k","reasoning":{"effort":"medium","summary":null},"safety_identifier":"s",
        "service_tier":"auto","store":true,"stream":false,"temperature":1,"text":{"format":{"type":"text"},"verbosity":"medium"},
        "tool_choice":"auto","tools":[],"top_logprobs":0,"top_p":1,"truncation":"disabled","user":"u")"},
    {"anthropic, messages", Endpoint::kMessages,
     R"("model":"m","cache_control":{"type":"ephemeral"},"container":null,"context_management":null,"inference_geo":"us",
        "mcp_servers":[],"metadata":{"user_id":"u"},"output_config":{"effort":"high"},"service_tier":"auto","speed":"standard",
        "stop_sequences":[],"stream":true,"system":"s","temperature":1,"thinking":{"type":"adaptive"},"tool_choice":{"type":"auto"},
        "tools":[],"top_k":5,"top_p":0.99,"betas":["interleaved-thinking-2025-05-14"])"},
    {"litellm, chat", Endpoint::kChat,
     R"("model":"m","functions":[],"function_call":"","user":"","thinking":null,"reasoning_effort":"none","deployment_id":null,
        "drop_params":false,"extra_headers":null,"parallel_tool_calls":null)"},
    {"vLLM, chat", Endpoint::kChat,
     R"("best_of":1,"use_beam_search":false,"top_k":-1,"min_p":0.0,"repetition_penalty":1.0,"length_penalty":1.0,
        "stop_token_ids":[],"include_stop_str_in_output":false,"ignore_eos":false,"min_tokens":0,"skip_special_tokens":true,
        "spaces_between_special_tokens":true,"truncate_prompt_tokens":null,"prompt_logprobs":null,"allowed_token_ids":null,
        "bad_words":[],"echo":false,"add_generation_prompt":true,"continue_final_message":false,"add_special_tokens":false,
        "documents":null,"chat_template":null,"chat_template_kwargs":{},"media_io_kwargs":null,"mm_processor_kwargs":null,
        "structured_outputs":null,"priority":0,"request_id":"r","return_tokens_as_token_ids":null,"return_token_ids":null,
        "cache_salt":null,"kv_transfer_params":null,"vllm_xargs":null,"thinking_token_budget":null,"include_reasoning":true,
        "logits_processors":null,"mm_payload":"tensors","routed_experts_prompt_start":0,"return_weight_versions":false,
        "stream_interval":null,"repetition_detection":null)"},
    {"vLLM's load tool, completions", Endpoint::kCompletions,
     R"("model":"m","repetition_penalty":1.0,"max_tokens":32,"logprobs":null,"stream":true,"temperature":0.0,
        "stream_options":{"include_usage":true},"ignore_eos":true,"min_tokens":32)"},
    {"vLLM's load tool, chat", Endpoint::kChat,
     R"("model":"m","max_completion_tokens":32,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},
        "ignore_eos":true,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}])"},
    {"SGLang, chat", Endpoint::kChat,
     R"("min_tokens":0,"regex":null,"ebnf":null,"stop_regex":null,"no_stop_trim":false,"lora_path":null,"session_params":null,
        "separate_reasoning":true,"stream_reasoning":true,"custom_logit_processor":null,"custom_params":null,"rid":"r","extra_key":null,
        "return_hidden_states":false,"return_routed_experts":false,"routed_experts_start_len":0,"return_cached_tokens_details":false,
        "return_flat_raw_top_logprobs_b64":true,"use_audio_in_video":false,"bootstrap_host":null,"data_parallel_rank":null,"input_ids":null)"},
    {"SGLang's load tool, generate", Endpoint::kGenerate,
     R"("sampling_params":{"temperature":0.0,"max_new_tokens":32,"ignore_eos":true},"stream":true,"lora_path":null,
        "return_logprob":false,"return_routed_experts":false,"logprob_start_len":-1)"},
    {"SGLang, generate", Endpoint::kGenerate,
     R"("input_embeds":null,"image_data":null,"video_data":null,"audio_data":null,"rid":null,"return_logprob":false,
        "logprob_start_len":-1,"top_logprobs_num":0,"token_ids_logprob":null,"return_text_in_logprobs":false,"stream":false,
        "log_metrics":true,"return_hidden_states":false,"return_routed_experts":false,"modalities":null,"session_params":null,
        "lora_path":null,"custom_logit_processor":null,"bootstrap_room":null,"data_parallel_rank":null,"background":false,
        "priority":null,"extra_key":null,"no_logs":false,"return_bytes":false,"return_entropy":false,"routed_experts_start_len":0)"},
    {"SGLang, sampling", Endpoint::kSampling,
     R"("stop":null,"stop_token_ids":null,"stop_regex":null,"temperature":1.0,"top_p":1.0,"top_k":-1,"min_p":0.0,
        "frequency_penalty":0.0,"presence_penalty":0.0,"repetition_penalty":1.0,"min_new_tokens":0,"n":1,"json_schema":null,
        "regex":null,"ebnf":null,"structural_tag":null,"ignore_eos":false,"skip_special_tokens":true,
        "spaces_between_special_tokens":true,"no_stop_trim":false,"custom_params":null,"stream_interval":null,"logit_bias":null,
        "sampling_seed":null)"},
    {"SGLang's load tool, completions", Endpoint::kCompletions,
     R"("model":"m","temperature":0.0,"best_of":1,"max_tokens":32,"stream":true,"ignore_eos":true,
        "stream_options":{"include_usage":true})"},
    {"GuideLLM, completions", Endpoint::kCompletions,
     R"("model":"m","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"max_tokens":32,
        "stop":null,"ignore_eos":true)"},
    {"GuideLLM, chat", Endpoint::kChat,
     R"("model":"m","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},
        "max_completion_tokens":32,"stop":null,"ignore_eos":true,
        "messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}])"},
    {"aiperf, chat", Endpoint::kChat,
     R"("model":"m","stream":true,"max_completion_tokens":32,"stream_options":{"include_usage":true},"ignore_eos":true,
        "min_tokens":32)"},
    {"llama.cpp's page", Endpoint::kChat,
     R"("stream":true,"reasoning_format":"auto","backend_sampling":false,"temperature":0.8,"max_tokens":-1,"dynatemp_range":0,
        "dynatemp_exponent":1,"top_k":40,"top_p":0.95,"min_p":0.05,"xtc_probability":0,"xtc_threshold":0.1,"typical_p":1,
        "repeat_last_n":64,"repeat_penalty":1,"presence_penalty":0,"frequency_penalty":0,"dry_multiplier":0,"dry_base":1.75,
        "dry_allowed_length":2,"dry_penalty_last_n":-1,"samplers":[],"timings_per_token":true,"return_progress":true)"},
    {"llama.cpp, completions", Endpoint::kCompletions,
     R"("n_predict":32,"cache_prompt":true,"id_slot":-1,"mirostat":0,"mirostat_tau":5,"mirostat_eta":0.1,"grammar":"",
        "n_probs":0,"min_keep":0,"n_keep":0,"top_n_sigma":-1,"t_max_predict_ms":0,"lora":[],"return_tokens":false)"},
    {"LM Studio", Endpoint::kChat,
     R"("model":"m","temperature":0.7,"max_tokens":-1,"stream":false,"ttl":300,"top_k":40,"repeat_penalty":1.1,"draft_model":"d")"},
    {"ollama, chat", Endpoint::kOllamaChat,
     R"("model":"m","tools":[],"stream":false,"think":null,"logprobs":null,"top_logprobs":null,"format":"","options":null,
        "keep_alive":"5m")"},
    {"ollama, generate", Endpoint::kOllamaGenerate,
     R"("model":"m","suffix":"","system":"","template":"","context":[],"raw":false,"stream":true,"images":[],"format":null,
        "options":{"num_ctx":4096,"num_keep":4,"num_batch":512,"penalize_newline":true,"repeat_last_n":64,"tfs_z":1},"keep_alive":0)"},
};

TEST(ApiClients, DefaultsAndHintsAreAccepted) {
  for (const Body& body : kBodies) {
    SCOPED_TRACE(body.client);
    const Json whole = with(body.endpoint, body.members);
    if (const auto error = refusal_of(body.endpoint, whole)) ADD_FAILURE() << error->message;
    // And each by itself, so that none depends on another.
    const Json members = Json::parse("{" + std::string(body.members) + "}");
    for (const auto& [name, value] : members.items()) {
      if (name == "min_tokens" || name == "stream_options" || name == "tool_choice") continue;
      Json one = with(body.endpoint, "");
      one[name] = value;
      if (const auto error = refusal_of(body.endpoint, one)) ADD_FAILURE() << error->message;
    }
  }
}

TEST(ApiClients, WhatWouldChangeTheAnswerIsRefusedByName) {
  const std::pair<Endpoint, const char*> kWanted[] = {{Endpoint::kChat, R"("min_tokens":5)"},
                                                      {Endpoint::kChat, R"("speed":"fast")"},
                                                      {Endpoint::kChat, R"("mirostat":1)"},
                                                      {Endpoint::kChat, R"("typical_p":0.5)"},
                                                      {Endpoint::kChat, R"("samplers":["top_k"])"},
                                                      {Endpoint::kChat, R"("bad_words":["a"])"},
                                                      {Endpoint::kChat, R"("vllm_xargs":{"a":1})"},
                                                      {Endpoint::kChat, R"("input_ids":[1])"},
                                                      {Endpoint::kChat, R"("reasoning_format":"deepseek-legacy")"},
                                                      {Endpoint::kMessages, R"("speed":"fast")"},
                                                      {Endpoint::kMessages, R"("container":"c")"},
                                                      {Endpoint::kGenerate, R"("return_routed_experts":true)"},
                                                      {Endpoint::kGenerate, R"("bootstrap_room":7)"},
                                                      {Endpoint::kSampling, R"("structural_tag":"x")"},
                                                      {Endpoint::kCompletions, R"("lora":[1])"},
                                                      {Endpoint::kCompletions, R"("n_probs":5)"}};
  for (const auto& [endpoint, members] : kWanted) {
    const auto error = refusal_of(endpoint, with(endpoint, members));
    ASSERT_TRUE(error.has_value()) << members;
    const std::string name = Json::parse("{" + std::string(members) + "}").begin().key();
    EXPECT_EQ(error->param, (endpoint == Endpoint::kSampling ? "sampling_params." : "") + name);
    EXPECT_EQ(error->status, 400);
  }
}

}  // namespace
}  // namespace ashlar::server::test
