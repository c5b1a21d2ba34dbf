// SPDX-License-Identifier: Apache-2.0
#include "server/service/prompt_encoder.h"

#include <algorithm>

#include "base/error.h"

namespace ashlar::server {
namespace {

constexpr size_t kSampled = 16;  // bytes for each token of the context: enough of any text that is not all one token

bool ends_with_tag(std::string_view text, std::string_view tag) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  return text.ends_with(tag);
}

// Whether the client did not ask for an answer without thinking.
bool lets_think(const ChatPrompt& prompt) {
  const auto off = [&](const char* name) { return prompt.template_kwargs.value(name, Json(true)) == Json(false); };
  return !off("enable_thinking") && !off("thinking");
}

ApiError refused(const std::string& message, const std::string& param) {
  return ApiError{400, "invalid_request_error", message, param, "", 0};
}

}  // namespace

PromptEncoder::PromptEncoder(const ServedModel& model) : model_(model) {
  for (int32_t id = 0; id < model.tokenizer->vocab_size(); ++id) {
    longest_token_ = std::max(longest_token_, model.tokenizer->token_content(id).size());
  }
}

Parsed<std::string> PromptEncoder::render(const ChatPrompt& prompt, const std::string& field) const {
  if (model_.chat_template == nullptr) {
    return refused("the model " + model_.name + " has no chat template; use /v1/completions", field);
  }
  try {
    return render_conversation(*model_.chat_template, prompt).bytes;
  } catch (const Error& error) {
    return refused(std::string(error.message()), field);
  }
}

// The fewest tokens that a text of `bytes` has.
size_t PromptEncoder::min_tokens(size_t bytes) const {
  // Normalisation joins at most a few characters to one.
  constexpr size_t kMaxShrinkage = 4;
  return bytes / (longest_token_ * kMaxShrinkage);
}

std::optional<ApiError> PromptEncoder::too_long(size_t least, const std::string& field) const {
  const auto room = static_cast<size_t>(model_.max_positions);
  if (least < room) return std::nullopt;
  ApiError error = refused("the prompt has at least " + std::to_string(least) + " tokens; the context holds " +
                               std::to_string(room) + ", one of them for the answer: at least " +
                               std::to_string(least - room + 1) + " too many",
                           field);
  error.code = "context_length_exceeded";
  return error;
}

// A text that cannot fit is not tokenised as a whole, which takes a second for ten megabytes: either it is so long that
// no tokens would be long enough, or its beginning alone is far beyond the context. Where that is cut a token or two
// may come out otherwise than in the whole; half of the count is a safe bound.
std::optional<ApiError> PromptEncoder::too_long(const std::string& text, const std::string& field) const {
  if (std::optional<ApiError> error = too_long(min_tokens(text.size()), field)) return error;
  const size_t beginning = kSampled * static_cast<size_t>(model_.max_positions);
  if (text.size() < 4 * beginning) return std::nullopt;
  size_t end = beginning;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  const std::vector<int32_t> ids = model_.tokenizer->encode(std::string_view(text).substr(0, end), {});
  return too_long(ids.size() / 2, field);
}

// What the messages say is in the prompt, whatever a template puts around it.
std::optional<ApiError> PromptEncoder::too_long(const ChatPrompt& prompt, const std::string& field) const {
  size_t bytes = 0;
  for (const Json& message : prompt.messages) {
    const auto content = message.is_object() ? message.find("content") : message.end();
    if (message.is_object() && content != message.end() && content->is_string()) {
      bytes += content->get_ref<const std::string&>().size();
    }
  }
  return too_long(min_tokens(bytes), field);
}

Parsed<EncodedPrompt> PromptEncoder::encode(const Prompt& prompt, const EncodeOptions& options) const {
  const auto [field, add_special_tokens, parse_special, must_fit] = options;
  EncodedPrompt out;
  try {
    if (const auto* tokens = std::get_if<TokenPrompt>(&prompt)) {
      out.ids = tokens->ids;
      out.text = model_.tokenizer->decode(out.ids, /*skip_special_tokens=*/false);
    } else if (const auto* text = std::get_if<TextPrompt>(&prompt)) {
      if (std::optional<ApiError> error = must_fit ? too_long(text->text, field) : std::nullopt) return *error;
      out.text = text->text;
      out.ids = model_.tokenizer->encode(text->text,
                                         {.add_special_tokens = add_special_tokens, .parse_special = parse_special});
    } else {
      const auto& chat = std::get<ChatPrompt>(prompt);
      if (model_.chat_template == nullptr) return render(chat, field).error();
      if (std::optional<ApiError> error = must_fit ? too_long(chat, field) : std::nullopt) return *error;
      SourcedText rendered = render_conversation(*model_.chat_template, chat);
      if (std::optional<ApiError> error = must_fit ? too_long(rendered.bytes, field) : std::nullopt) return *error;
      out.ids = model_.tokenizer->encode(rendered);
      out.text = std::move(rendered.bytes);
      out.starts_in_reasoning = ends_with_tag(out.text, "<think>");
      // A template that closes the thinking at once asks for none.
      out.may_reason = model_.chat_template->thinks() && !out.starts_in_reasoning &&
                       !ends_with_tag(out.text, "</think>") && lets_think(chat);
    }
  } catch (const Error& error) {
    return refused(std::string(error.message()), field);
  }
  return out;
}

}  // namespace ashlar::server
