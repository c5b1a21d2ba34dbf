// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a client asked for, whatever API it spoke: the parsers of server/api fill this in, the service carries it out,
// and the formats of server/api turn what happens into that API's own words.

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "engine/request.h"
#include "generate/chat_prompt.h"
#include "io/json.h"

namespace ashlar::server {

/// Contents as plain text, tools as OpenAI's function tools, allow-listed variables of the template.
using ChatPrompt = Conversation;
struct TextPrompt {
  std::string text;
};
struct TokenPrompt {
  std::vector<int32_t> ids;
};
using Prompt = std::variant<ChatPrompt, TextPrompt, TokenPrompt>;

/// A limit on the shape of an answer; compiled by text/grammar.
struct Constraint {
  enum class Kind : uint8_t { kNone, kJsonObject, kJsonSchema, kRegex, kGrammar, kChoice };
  Kind kind = Kind::kNone;
  Json schema;                       ///< kJsonSchema
  std::string pattern;               ///< kRegex, kGrammar
  std::vector<std::string> choices;  ///< kChoice
  std::string param;                 ///< path of the field that demands it, for refusals
};

enum class ToolChoice : uint8_t { kNone, kAuto, kRequired, kNamed };

/// One request of a client: prompts x n answers.
struct Generation {
  std::string model;            ///< as the client named it; empty: whatever is served
  std::vector<Prompt> prompts;  ///< at least one, unless there is nothing to answer
  std::string prompt_field;     ///< path of the field that they came in, for refusals
  int32_t n = 1;                ///< answers for each prompt
  SamplingParams sampling;
  std::optional<uint64_t> seed;       ///< absent: a fresh one is drawn for each prompt
  std::optional<int32_t> max_tokens;  ///< absent: up to the context limit; 0: the prompt alone
  std::vector<std::string> stop;
  std::vector<int32_t> stop_ids;
  bool ignore_eos = false;
  bool stream = false;
  bool include_usage = false;      ///< a last chunk of a stream has the usage
  bool usage_in_chunks = false;    ///< each chunk of a stream has the usage so far
  bool stream_blocks = false;      ///< events separate drafted tokens from the model's own, for pages that show them
  bool echo = false;               ///< completions: the prompt precedes the answer
  bool add_special_tokens = true;  ///< what the tokenizer puts around texts
  bool skip_special_tokens = true;
  PromptLogprobs prompt_logprobs;     ///< tokens of the prompt to list, from PromptLogprobs::from on
  std::string prompt_logprobs_param;  ///< the field that asked for them, for refusals
  bool return_token_ids = false;      ///< the answer lists those of the prompt and its own
  bool hidden_states = false;         ///< of the prompt, in a file
  bool wants_prompt_logprobs() const { return prompt_logprobs.from >= 0; }
  bool prompt_only() const { return max_tokens == 0; }
  Constraint constraint;
  ToolChoice tool_choice = ToolChoice::kNone;
  std::string tool_name;  ///< kNamed
  bool demands_call() const { return tool_choice == ToolChoice::kRequired || tool_choice == ToolChoice::kNamed; }
  bool parallel_tool_calls = true;
  bool split_reasoning = true;  ///< <think> text goes to the reasoning part
  bool show_reasoning = true;   ///< the client gets that part
  bool store = true;            ///< false: its tokens are never kept
  int32_t width = 0;            ///< Request::width: 1 turns speculation off for this request
  MethodChoice choice;          ///< how to decode, for models that leave a choice
  std::string cache_salt;       ///< prompts of different salts never share cached pages
  std::string user;
  bool batched = false;            ///< generate: the prompts came as a list, so the answer is one
  std::vector<std::string> ids;    ///< generate: names the client gave its prompts, or empty
  Json repeated = Json::object();  ///< fields of the request that its API's answer repeats
};

/// A prompt to count, tokenize or render, without an answer.
struct PromptRequest {
  std::string model;
  Prompt prompt;
  std::string prompt_field;  ///< path of the field that it came in, for refusals
  bool add_special_tokens = true;
  bool parse_special = true;  ///< of a text: spellings of special tokens mean them
  bool with_pieces = false;   ///< the tokens as the vocabulary spells them, too
};

/// Tokens to turn into text.
struct DetokenizeRequest {
  std::string model;
  std::vector<int32_t> ids;
};

/// A question about a model.
struct ModelRequest {
  std::string model;
};

/// One produced token with its log-probability, for formats that list tokens.
struct TokenPiece {
  int32_t id = 0;
  std::string bytes;  ///< what it adds to the text, or would; need not be whole characters
  TokenLogprobs logprobs;
  std::vector<std::string> top_bytes;  ///< of logprobs.top_ids, in their order
  int32_t step = -1;                   ///< pass over its block that unmasked it, where tokens come by blocks; else -1
  bool in_text = true;                 ///< false: a special token that the text leaves out
  bool has_logprob = true;             ///< false: the first token of a prompt, which nothing precedes
  int32_t rank = 0;                    ///< of a prompt's token among all, from 1
};

/// A part of a function call. A call's first delta carries id and name, the later ones arguments only.
struct ToolCallDelta {
  int32_t index = 0;  ///< of the call within the answer
  std::string id;
  std::string name;
  std::string arguments;  ///< JSON text to append
};

/// News of one answer, of one kind: deltas follow each other in the order of the answer. One without text belongs to
/// the kind before it.
struct AnswerDelta {
  enum class Kind : uint8_t { kNone, kReasoning, kContent, kCall };
  int32_t index = 0;  ///< answer, counted over prompts x n
  std::string reasoning = {};
  std::string content = {};
  std::vector<ToolCallDelta> tool_calls = {};
  std::vector<TokenPiece> tokens = {};  ///< if log-probabilities were asked for
  int32_t n_tokens = 0;                 ///< tokens of this delta
  int32_t n_drafted = 0;                ///< of these, from accepted drafts
  int32_t step = -1;                    ///< pass over their block that unmasked the first of them; -1: no blocks
  int32_t at = 0;                       ///< then: where in the block it stands
};

struct AnswerEnd {
  enum class Reason : uint8_t { kStop, kLength, kToolCalls, kCancelled, kError };
  int32_t index = 0;
  Reason reason = Reason::kStop;
  std::string stop_string;            ///< the stop string that ended it, if one did
  std::optional<int32_t> stop_token;  ///< else the token that did: the model's end or a stop id
  std::string error;                  ///< kError
  bool of_request = false;            ///< then: what is wrong is what was asked for
  int32_t tokens = 0;                 ///< of the answer, the one that ended it included; the engine may have made more
  RequestStats stats;
};

/// A whole answer: the deltas put together.
struct FinishedAnswer {
  AnswerEnd end;
  std::string reasoning;
  std::string content;
  std::vector<ToolCallDelta> tool_calls;  ///< one for each call, complete
  std::vector<TokenPiece> tokens;
  std::vector<TokenPiece> prompt;        ///< as Generation::prompt_logprobs asks
  std::vector<int32_t> prompt_ids, ids;  ///< as Generation::return_token_ids asks
  std::string hidden_states_path;        ///< as Generation::hidden_states asks; else empty
  /// The same in its order, for APIs whose answers are lists of items. Empty: reasoning, content, calls.
  std::vector<AnswerDelta> parts;
};

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;
  int32_t completion_tokens = 0;
  int32_t reasoning_tokens = 0;
};

/// Why a request was refused, in terms every API can express.
struct ApiError {
  int status = 400;  ///< HTTP
  std::string type = "invalid_request_error";
  std::string message;  ///< a sentence for the person who sent it: found, expected, what to do
  std::string param;    ///< the field at fault, or empty
  std::string code;     ///< machine-readable detail such as "context_length_exceeded", or empty
  int retry_after_s = 0;
};

}  // namespace ashlar::server
