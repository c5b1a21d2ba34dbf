#include "server/service/prompt_encoder.h"

#include <algorithm>
#include <random>

#include "base/error.h"

namespace ashlar::server {
namespace {

// Private-use characters that differ from run to run, so that nobody can write the marker on purpose.
std::string random_marker() {
  std::random_device random;
  std::string marker;
  for (int i = 0; i < 4; ++i) {
    const unsigned code = 0xE000 + random() % 0x1900;
    marker += static_cast<char>(0xE0 | (code >> 12));
    marker += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    marker += static_cast<char>(0x80 | (code & 0x3F));
  }
  return marker;
}

constexpr size_t kSampled = 16;  // bytes for each token of the context: enough of any text that is not all one token

bool is_tag(std::string_view content) { return content.size() > 2 && content.front() == '<' && content.back() == '>'; }

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

PromptEncoder::PromptEncoder(const ServedModel& model) : model_(model), marker_(random_marker()) {
  for (int32_t id = 0; id < model.tokenizer->vocab_size(); ++id) {
    longest_token_ = std::max(longest_token_, model.tokenizer->token_content(id).size());
    const std::string_view content = model.tokenizer->token_content(id);
    const bool special = model.tokenizer->is_special(id);
    if (special ? !content.empty() : model.tokenizer->is_added(id) && is_tag(content)) {
      spellings_.push_back({std::string(content), special});
    }
  }
  std::sort(spellings_.begin(), spellings_.end(),
            [](const Spelling& a, const Spelling& b) { return a.text.size() > b.text.size(); });
}

std::string PromptEncoder::mark(const std::string& text, bool tags) const {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    out += text[at];
    const std::string_view rest = std::string_view(text).substr(at);
    const bool found = std::any_of(spellings_.begin(), spellings_.end(), [&](const Spelling& spelling) {
      return (spelling.special || tags) && rest.starts_with(spelling.text);
    });
    if (found) out += marker_;
  }
  return out;
}

// Names of members, too: templates write those of schemas and arguments.
Json PromptEncoder::mark_strings(const Json& value, bool tags) const {
  if (value.is_string()) return mark(value.get_ref<const std::string&>(), tags);
  if (!value.is_structured()) return value;
  Json out = value.is_array() ? Json::array() : Json::object();
  for (const auto& [key, member] : value.items()) {
    if (value.is_array()) {
      out.push_back(mark_strings(member, tags));
    } else {
      out[mark(key, tags)] = mark_strings(member, tags);
    }
  }
  return out;
}

// A message's role is one of a few words, which templates compare. Tags are the caller's own to write in a system
// prompt or in what an assistant has said, where templates look for them.
Json PromptEncoder::mark_messages(const Json& messages) const {
  Json out = Json::array();
  for (const Json& message : messages) {
    const std::string role = message.value("role", "user");
    out.push_back(mark_strings(message, role == "user" || role == "tool"));
    if (message.contains("role")) out.back()["role"] = message["role"];
  }
  return out;
}

// Parts with a marker are encoded apart, as text; the rest as the template wrote it.
std::vector<int32_t> PromptEncoder::encode_marked(const std::string& marked) const {
  std::vector<int32_t> ids;
  const auto add = [&](std::string_view text, bool parse) {
    if (text.empty()) return;
    const std::vector<int32_t> more = model_.tokenizer->encode(text, {.parse_special = parse, .parse_added = parse});
    ids.insert(ids.end(), more.begin(), more.end());
  };
  size_t from = 0;
  for (size_t at = marked.find(marker_); at != std::string::npos; at = marked.find(marker_, from)) {
    const size_t behind = at + marker_.size();
    if (at == from) {  // the byte before it is gone: a template cut the text there
      from = behind;
      continue;
    }
    std::string spelling = marked[at - 1] + marked.substr(behind, spellings_.front().text.size());
    const auto found = std::find_if(spellings_.begin(), spellings_.end(),
                                    [&](const Spelling& known) { return spelling.starts_with(known.text); });
    const size_t length = found == spellings_.end() ? 1 : found->text.size();
    add(std::string_view(marked).substr(from, at - 1 - from), true);
    add(std::string_view(spelling).substr(0, length), false);
    from = behind + length - 1;
  }
  add(std::string_view(marked).substr(from), true);
  return ids;
}

std::string PromptEncoder::render_marked(const ChatPrompt& prompt) const {
  return model_.chat_template->render(mark_messages(prompt.messages), mark_strings(prompt.tools),
                                      prompt.add_generation_prompt, mark_strings(prompt.template_kwargs));
}

// The text behind a marked one.
std::string PromptEncoder::unmarked(const std::string& marked) const {
  std::string text;
  text.reserve(marked.size());
  size_t from = 0;
  for (size_t at = marked.find(marker_); at != std::string::npos; at = marked.find(marker_, from)) {
    text.append(marked, from, at - from);
    from = at + marker_.size();
  }
  return text.append(marked, from);
}

Parsed<std::string> PromptEncoder::render(const ChatPrompt& prompt) const {
  if (model_.chat_template == nullptr) {
    return refused("the model " + model_.name + " has no chat template; use /v1/completions", "messages");
  }
  try {
    return unmarked(render_marked(prompt));
  } catch (const Error& error) {
    return refused(std::string(error.message()), "messages");
  }
}

// Text of so many bytes has at least so many tokens.
size_t PromptEncoder::least_tokens(size_t bytes) const {
  // Normalisation joins at most a few characters to one.
  constexpr size_t kMostShrinkage = 4;
  return bytes / (longest_token_ * kMostShrinkage);
}

std::optional<ApiError> PromptEncoder::too_long(size_t least) const {
  const auto room = static_cast<size_t>(model_.max_positions);
  if (least < room) return std::nullopt;
  ApiError error = refused("the prompt has at least " + std::to_string(least) + " tokens; the context holds " +
                               std::to_string(room) + ", one of them for the answer: at least " +
                               std::to_string(least - room + 1) + " too many",
                           "");
  error.code = "context_length_exceeded";
  return error;
}

// A text that cannot fit is not tokenised as a whole, which takes a second for ten megabytes: either it is so long that
// no tokens would be long enough, or its beginning alone is far beyond the context. Where that is cut a token or two
// may come out otherwise than in the whole; half of the count is a safe bound.
std::optional<ApiError> PromptEncoder::too_long(const std::string& text) const {
  if (std::optional<ApiError> error = too_long(least_tokens(text.size()))) return error;
  const size_t beginning = kSampled * static_cast<size_t>(model_.max_positions);
  if (text.size() < 4 * beginning) return std::nullopt;
  size_t end = beginning;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  const std::vector<int32_t> ids = model_.tokenizer->encode(std::string_view(text).substr(0, end), {});
  return too_long(ids.size() / 2);
}

// What the messages say is in the prompt, whatever a template puts around it.
std::optional<ApiError> PromptEncoder::too_long(const ChatPrompt& prompt) const {
  size_t bytes = 0;
  for (const Json& message : prompt.messages) {
    const auto content = message.is_object() ? message.find("content") : message.end();
    if (message.is_object() && content != message.end() && content->is_string()) {
      bytes += content->get_ref<const std::string&>().size();
    }
  }
  return too_long(least_tokens(bytes));
}

Parsed<EncodedPrompt> PromptEncoder::encode(const Prompt& prompt, bool add_special_tokens, bool must_fit,
                                            bool parse_special) const {
  EncodedPrompt out;
  try {
    if (const auto* tokens = std::get_if<TokenPrompt>(&prompt)) {
      out.ids = tokens->ids;
      out.text = model_.tokenizer->decode(out.ids, /*skip_special_tokens=*/false);
    } else if (const auto* text = std::get_if<TextPrompt>(&prompt)) {
      if (std::optional<ApiError> error = must_fit ? too_long(text->text) : std::nullopt) return *error;
      out.text = text->text;
      out.ids = model_.tokenizer->encode(text->text,
                                         {.add_special_tokens = add_special_tokens, .parse_special = parse_special});
    } else {
      const auto& chat = std::get<ChatPrompt>(prompt);
      if (model_.chat_template == nullptr) return render(chat).error();
      if (std::optional<ApiError> error = must_fit ? too_long(chat) : std::nullopt) return *error;
      const std::string marked = render_marked(chat);
      out.text = unmarked(marked);
      if (std::optional<ApiError> error = must_fit ? too_long(out.text) : std::nullopt) return *error;
      out.ids = encode_marked(marked);
      out.starts_in_reasoning = ends_with_tag(out.text, "<think>");
      // A template that closes the thinking at once asks for none.
      out.may_reason = model_.chat_template->thinks() && !out.starts_in_reasoning &&
                       !ends_with_tag(out.text, "</think>") && lets_think(chat);
    }
  } catch (const Error& error) {
    return refused(std::string(error.message()), std::holds_alternative<ChatPrompt>(prompt) ? "messages" : "");
  }
  return out;
}

}  // namespace ashlar::server
