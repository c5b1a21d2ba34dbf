// SPDX-License-Identifier: Apache-2.0
// Shapes of the answers that generate text; of streams only what their events have in common with bodies.

#include "server/api/format/answer_schemas.h"

namespace ashlar::server {
namespace {

constexpr AnswerSchema kTextSchemas[] = {
    // What several APIs share.
    {"Usage", R"({"type":"object","properties":{
        "prompt_tokens":{"type":"integer","minimum":0},
        "completion_tokens":{"type":"integer","minimum":0},
        "total_tokens":{"type":"integer","minimum":0},
        "prompt_tokens_details":{"type":"object","properties":{"cached_tokens":{"type":"integer","minimum":0}}},
        "completion_tokens_details":{"type":"object","properties":{"reasoning_tokens":{"type":"integer","minimum":0}}}}})"},
    {"Metrics", R"({"description":"How the answer was made; docs/api.md says what the figures mean.","oneOf":[
        {"type":"object","properties":{"speculative_decoding":{"type":"object","properties":{
          "drafted":{"type":"integer","minimum":0},
          "accepted":{"type":"integer","minimum":0},
          "ngram_accepted":{"type":"integer","minimum":0},
          "recalled":{"deprecated":true,"type":"integer","minimum":0},
          "verify_steps":{"type":"integer","minimum":0},
          "mean_length":{"type":"number","minimum":0},
          "drafted_per_position":{"type":"array","items":{"type":"integer","minimum":0}},
          "accepted_per_position":{"type":"array","items":{"type":"integer","minimum":0}}}},
          "decode_seconds":{"type":"number","minimum":0}}},
        {"type":"object","properties":{"dllm":{"type":"object","description":"Of models that fill blocks.","properties":{
          "forwards":{"type":"integer","minimum":0},
          "tokens_per_forward":{"type":"number","minimum":0},
          "blocks":{"type":"integer","minimum":0},
          "decided_per_forward":{"type":"array","items":{"type":"integer","minimum":0}},
          "unmasked_in_pass":{"type":"array","items":{"type":"integer","minimum":0}},
          "settled_per_forward":{"deprecated":true,"type":"array","items":{"type":"integer","minimum":0}},
          "settled_in_pass":{"deprecated":true,"type":"array","items":{"type":"integer","minimum":0}}}},
          "decode_seconds":{"type":"number","minimum":0}}}]})"},
    {"TopLogprob", R"({"type":"object","properties":{
        "token":{"type":"string","description":"Its text; half a character reads U+FFFD."},
        "logprob":{"type":"number","description":"-9999 if it is minus infinity."},
        "bytes":{"type":"array","items":{"type":"integer","minimum":0,"maximum":255}}}})"},
    {"TokenLogprob", R"({"type":"object","properties":{
        "token":{"type":"string","description":"Its text; half a character reads U+FFFD."},
        "logprob":{"type":"number","description":"-9999 if it is minus infinity."},
        "bytes":{"type":"array","items":{"type":"integer","minimum":0,"maximum":255}},
        "top_logprobs":{"type":"array","items":"@TopLogprob"},
        "step?":{"type":"integer","minimum":0,
                 "description":"Of models that fill blocks: the pass over its block that unmasked the token."}}})"},
    {"PromptLogprobs",
     R"({"type":"array","description":"Of each token of the prompt, null for the first: by token id, the token itself and the likeliest ones.",
        "items":{"type":["object","null"],"additionalProperties":{"type":"object","properties":{
          "logprob":{"type":"number","description":"-9999 if it is minus infinity."},
          "rank":{"type":"integer","minimum":1},
          "decoded_token":{"type":"string"}}}}})"},
    // OpenAI's chat and text completions.
    {"ToolCall", R"({"type":"object","properties":{
        "id":{"type":"string"},
        "type":{"const":"function"},
        "function":{"type":"object","properties":{
          "name":{"type":"string"},
          "arguments":{"type":"string","description":"What the model wrote; JSON unless it was cut off."}}}}})"},
    {"ChatCompletion", R"({"type":"object","properties":{
        "id":{"type":"string","pattern":"^chatcmpl-[A-Za-z0-9._-]{1,64}$"},
        "object":{"const":"chat.completion"},
        "created":{"type":"integer"},
        "model":{"type":"string"},
        "choices":{"type":"array","minItems":1,"items":{"type":"object","properties":{
          "index":{"type":"integer","minimum":0},
          "message":{"type":"object","properties":{
            "role":{"const":"assistant"},
            "content":{"type":["string","null"],"description":"null if the answer is calls alone."},
            "refusal":{"type":"null"},
            "reasoning_content?":{"type":"string"},
            "tool_calls?":{"type":"array","minItems":1,"items":"@ToolCall"}}},
          "logprobs":{"oneOf":[{"type":"null"},{"type":"object","properties":{
            "content":{"type":"array","items":"@TokenLogprob"},"refusal":{"type":"null"}}}]},
          "finish_reason":{"enum":["stop","length","tool_calls"]}}}},
        "prompt_logprobs?":"@PromptLogprobs",
        "usage":"@Usage",
        "metrics":"@Metrics"}})"},
    {"Completion", R"({"type":"object","properties":{
        "id":{"type":"string","pattern":"^cmpl-[A-Za-z0-9._-]{1,64}$"},
        "object":{"const":"text_completion"},
        "created":{"type":"integer"},
        "model":{"type":"string"},
        "choices":{"type":"array","minItems":1,"items":{"type":"object","properties":{
          "index":{"type":"integer","minimum":0},
          "text":{"type":"string"},
          "logprobs":{"oneOf":[{"type":"null"},{"type":"object","properties":{
            "tokens":{"type":"array","items":{"type":"string"}},
            "token_logprobs":{"type":"array","items":{"type":["number","null"]}},
            "top_logprobs":{"type":"array","items":{"type":["object","null"],"additionalProperties":{"type":"number"}}},
            "text_offset":{"type":"array","items":{"type":"integer","minimum":0}},
            "token_steps?":{"type":"array","minItems":1,"items":{"type":"integer","minimum":0}}}}]},
          "finish_reason":{"enum":["stop","length"]},
          "prompt_token_ids?":{"type":"array","items":{"type":"integer","minimum":0}},
          "token_ids?":{"type":"array","items":{"type":"integer","minimum":0}},
          "prompt_logprobs?":"@PromptLogprobs"}}},
        "kv_transfer_params?":{"type":"object","properties":{"hidden_states_path":{"type":"string"}}},
        "usage":"@Usage",
        "metrics":"@Metrics"}})"},
    // OpenAI's responses. Objects that may have any members are the request's own, repeated.
    {"OutputItem", R"({"oneOf":[
        {"type":"object","properties":{
          "type":{"const":"reasoning"},
          "id":{"type":"string"},
          "status":{"enum":["completed","incomplete"]},
          "summary":{"type":"array","maxItems":0},
          "content":{"type":"array","minItems":1,"maxItems":1,"items":{"type":"object","properties":{
            "type":{"const":"reasoning_text"},"text":{"type":"string"}}}}}},
        {"type":"object","properties":{
          "type":{"const":"message"},
          "id":{"type":"string"},
          "status":{"enum":["completed","incomplete"]},
          "role":{"const":"assistant"},
          "content":{"type":"array","minItems":1,"maxItems":1,"items":{"type":"object","properties":{
            "type":{"const":"output_text"},
            "text":{"type":"string"},
            "annotations":{"type":"array","maxItems":0},
            "logprobs":{"type":"array","items":"@TokenLogprob"}}}}}},
        {"type":"object","properties":{
          "type":{"const":"function_call"},
          "id":{"type":"string"},
          "status":{"enum":["completed","incomplete"]},
          "call_id":{"type":"string"},
          "name":{"type":"string"},
          "arguments":{"type":"string","description":"What the model wrote; JSON unless it was cut off."}}}]})"},
    {"Response", R"({"type":"object","properties":{
        "id":{"type":"string","pattern":"^resp_[A-Za-z0-9._-]{1,64}$"},
        "object":{"const":"response"},
        "created_at":{"type":"integer"},
        "status":{"enum":["completed","incomplete"]},
        "background":{"const":false},
        "error":{"type":"null"},
        "incomplete_details":{"oneOf":[{"type":"null"},{"type":"object","properties":{
          "reason":{"const":"max_output_tokens"}}}]},
        "instructions":{"type":["string","null"]},
        "max_output_tokens":{"type":["integer","null"],"minimum":1},
        "model":{"type":"string"},
        "output":{"type":"array","items":"@OutputItem"},
        "parallel_tool_calls":{"type":"boolean"},
        "previous_response_id":{"type":"null"},
        "reasoning":{"type":"object","description":"As the request had it."},
        "store":{"const":false},
        "temperature":{"type":"number","minimum":0},
        "text":{"type":"object","description":"As the request had it."},
        "tool_choice":{"oneOf":[{"enum":["none","auto","required"]},{"type":"object","additionalProperties":true,
          "required":["type","name"],"properties":{"type":{"const":"function"},"name":{"type":"string"}}}]},
        "tools":{"type":"array","items":{"type":"object","properties":{
          "type":{"const":"function"},
          "name":{"type":"string"},
          "description":{"type":["string","null"]},
          "parameters":{"type":["object","null"]},
          "strict":{"type":["boolean","null"]}}}},
        "top_p":{"type":"number","minimum":0,"maximum":1},
        "truncation":{"const":"disabled"},
        "usage":{"type":"object","properties":{
          "input_tokens":{"type":"integer","minimum":0},
          "input_tokens_details":{"type":"object","properties":{
            "cached_tokens":{"type":"integer","minimum":0},"cache_write_tokens":{"const":0}}},
          "output_tokens":{"type":"integer","minimum":0},
          "output_tokens_details":{"type":"object","properties":{"reasoning_tokens":{"type":"integer","minimum":0}}},
          "total_tokens":{"type":"integer","minimum":0}}},
        "metadata":{"type":"object","description":"As the request had it."},
        "metrics":"@Metrics"}})"},
    // Anthropic's messages.
    {"Message", R"({"type":"object","properties":{
        "id":{"type":"string","pattern":"^msg_[A-Za-z0-9._-]{1,64}$"},
        "type":{"const":"message"},
        "role":{"const":"assistant"},
        "model":{"type":"string"},
        "content":{"type":"array","items":{"oneOf":[
          {"type":"object","properties":{
            "type":{"const":"thinking"},"thinking":{"type":"string"},"signature":{"const":""}}},
          {"type":"object","properties":{"type":{"const":"text"},"text":{"type":"string"}}},
          {"type":"object","properties":{
            "type":{"const":"tool_use"},
            "id":{"type":"string"},
            "name":{"type":"string"},
            "input":{"type":"object","description":"Arguments; {raw_arguments: text} if the model wrote no object."}}}]}},
        "stop_reason":{"enum":["end_turn","stop_sequence","max_tokens","tool_use"]},
        "stop_sequence":{"type":["string","null"]},
        "usage":{"type":"object","properties":{
          "input_tokens":{"type":"integer","minimum":0,"description":"Without those that were cached."},
          "cache_creation_input_tokens":{"const":0},
          "cache_read_input_tokens":{"type":"integer","minimum":0},
          "output_tokens":{"type":"integer","minimum":0}}},
        "metrics":"@Metrics"}})"},
    // SGLang's /generate.
    {"LogprobTriple", R"({"type":"array","minItems":3,"maxItems":3,
        "description":"Log-probability, token id, and its text with return_text_in_logprobs.",
        "prefixItems":[{"type":"number"},{"type":"integer","minimum":0},{"type":["string","null"]}]})"},
    {"PromptLogprobTriple", R"({"type":"array","minItems":3,"maxItems":3,
        "description":"As LogprobTriple; null for the first token of the prompt, before which there is none.",
        "prefixItems":[{"type":["number","null"]},{"type":"integer","minimum":0},{"type":["string","null"]}]})"},
    {"GeneratedText", R"({"type":"object","properties":{
        "text":{"type":"string"},
        "meta_info":{"type":"object","properties":{
          "id":{"type":"string"},
          "finish_reason":{"oneOf":[
            {"type":"object","properties":{
              "type":{"const":"stop"},
              "matched":{"type":["string","integer"],"minimum":0,
                         "description":"The stop string that ended it, or the id of the token that did."}}},
            {"type":"object","properties":{"type":{"const":"length"},"length":{"type":"integer","minimum":0}}},
            {"type":"object","properties":{"type":{"const":"abort"},"message":{"type":"string"}}}]},
          "prompt_tokens":{"type":"integer","minimum":0},
          "completion_tokens":{"type":"integer","minimum":0},
          "cached_tokens":{"type":"integer","minimum":0},
          "e2e_latency":{"type":"number","description":"Seconds."},
          "spec_verify_ct?":{"type":"integer","minimum":0},
          "spec_accept_token_num?":{"type":"integer","minimum":0},
          "spec_draft_token_num?":{"type":"integer","minimum":0},
          "spec_accept_rate?":{"type":"number","minimum":0,"maximum":1},
          "spec_accept_length?":{"type":"number","minimum":0},
          "metrics":"@Metrics",
          "input_token_logprobs?":{"type":"array","items":"@PromptLogprobTriple"},
          "input_top_logprobs?":{"type":"array","items":{"oneOf":[{"type":"null"},{"type":"array","items":"@LogprobTriple"}]}},
          "output_token_steps?":{"type":"array","minItems":1,"items":{"type":"integer","minimum":0}},
          "output_token_logprobs?":{"type":"array","items":"@LogprobTriple"},
          "output_top_logprobs?":{"type":"array","items":{"type":"array","items":"@LogprobTriple"}}}}}})"},
    {"Generated", R"({"description":"A list if there were several prompts or answers.","oneOf":[
        "@GeneratedText",{"type":"array","minItems":1,"items":"@GeneratedText"}]})"},
    // Ollama's chat and generate.
    {"OllamaChat", R"({"type":"object","properties":{
        "model":{"type":"string"},
        "created_at":{"type":"string"},
        "message":{"type":"object","properties":{
          "role":{"const":"assistant"},
          "content":{"type":"string"},
          "thinking?":{"type":"string"},
          "tool_calls?":{"type":"array","minItems":1,"items":{"type":"object","properties":{
            "id":{"type":"string"},
            "function":{"type":"object","properties":{
              "index":{"type":"integer","minimum":0},
              "name":{"type":"string"},
              "arguments":{"type":"object","additionalProperties":true}}}}}}}},
        "logprobs?":{"type":"array","minItems":1,"items":"@TokenLogprob"},
        "done_reason":{"enum":["stop","length","load"]},
        "done":{"const":true},
        "total_duration?":{"type":"integer","minimum":0,"description":"This and the others in nanoseconds."},
        "load_duration?":{"type":"integer","minimum":0},
        "prompt_eval_count?":{"type":"integer","minimum":0},
        "prompt_eval_duration?":{"type":"integer","minimum":0},
        "eval_count?":{"type":"integer","minimum":0},
        "eval_duration?":{"type":"integer","minimum":0},
        "metrics?":"@Metrics"}})"},
    {"OllamaGenerated", R"({"type":"object","properties":{
        "model":{"type":"string"},
        "created_at":{"type":"string"},
        "response":{"type":"string"},
        "thinking?":{"type":"string"},
        "logprobs?":{"type":"array","minItems":1,"items":"@TokenLogprob"},
        "done_reason":{"enum":["stop","length","load"]},
        "done":{"const":true},
        "total_duration?":{"type":"integer","minimum":0,"description":"This and the others in nanoseconds."},
        "load_duration?":{"type":"integer","minimum":0},
        "prompt_eval_count?":{"type":"integer","minimum":0},
        "prompt_eval_duration?":{"type":"integer","minimum":0},
        "eval_count?":{"type":"integer","minimum":0},
        "eval_duration?":{"type":"integer","minimum":0},
        "metrics?":"@Metrics"}})"},
};

}  // namespace

std::span<const AnswerSchema> text_answer_schemas() { return kTextSchemas; }

}  // namespace ashlar::server
