// SPDX-License-Identifier: Apache-2.0
#include "app/chat/chat_state.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "base/similar_word.h"
#include "decode/step.h"

namespace ashlar {
namespace {

constexpr const char* kHelp =
    "/help              this list\n"
    "/reset             forget the conversation, keep the system message\n"
    "/system [TEXT]     set the system message and start afresh; without TEXT show it, - removes it\n"
    "/retry             answer the newest question again (with a temperature: by the next seed)\n"
    "/set               show the settings\n"
    "/set NAME VALUE    temperature, top_p, top_k, min_p, repetition_penalty, seed, max_tokens, width (1: no "
    "drafting)\n"
    "/save FILE         keep the conversation in a file\n"
    "/load FILE         go on with it\n"
    "/stats             figures of this conversation\n"
    "/quit              leave (or Ctrl-D)\n"
    "Tab completes commands, settings and file names. Ctrl-C stops an answer. A line that ends with \\ goes on in the "
    "next one, and what is pasted is one text.";

struct Setting {
  const char* name;
  double low, high;
  bool whole;
  double (*get)(const ChatState&);
  void (*set)(ChatState&, double);
};

constexpr double kMany = 1 << 24;
constexpr Setting kSettings[] = {
    {"temperature", 0, 100, false, [](const ChatState& s) { return s.sampling.temperature; },
     [](ChatState& s, double v) { s.sampling.temperature = v; }},
    {"top_p", 0.001, 1, false, [](const ChatState& s) { return s.sampling.top_p; },
     [](ChatState& s, double v) { s.sampling.top_p = v; }},
    {"top_k", 0, kMany, true, [](const ChatState& s) { return static_cast<double>(s.sampling.top_k); },
     [](ChatState& s, double v) { s.sampling.top_k = static_cast<int32_t>(v); }},
    {"min_p", 0, 1, false, [](const ChatState& s) { return s.sampling.min_p; },
     [](ChatState& s, double v) { s.sampling.min_p = v; }},
    {"repetition_penalty", 0.01, 100, false, [](const ChatState& s) { return s.sampling.repetition_penalty; },
     [](ChatState& s, double v) { s.sampling.repetition_penalty = v; }},
    {"seed", 0, 9007199254740992.0, true, [](const ChatState& s) { return static_cast<double>(s.sampling.seed); },
     [](ChatState& s, double v) {
       s.sampling.seed = static_cast<uint64_t>(v);
       s.seed_is_given = true;
     }},
    {"max_tokens", 0, kMany, true, [](const ChatState& s) { return static_cast<double>(s.max_tokens); },
     [](ChatState& s, double v) { s.max_tokens = static_cast<int32_t>(v); }},
    {"width", 0, kMaxWidth, true, [](const ChatState& s) { return static_cast<double>(s.width); },
     [](ChatState& s, double v) { s.width = static_cast<int32_t>(v); }},
};

std::string trim(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\n");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\n") - begin + 1);
}

std::string number(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  if (std::strtod(text, nullptr) == value) std::snprintf(text, sizeof text, "%g", value);
  if (std::strtod(text, nullptr) != value) std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string describe_settings(const ChatState& state) {
  std::string text;
  for (const Setting& setting : kSettings) {
    text += (text.empty() ? "" : "\n") + std::string(setting.name) + " " + number(setting.get(state));
  }
  return text;
}

std::string change_setting(ChatState& state, std::string arguments) {
  constexpr std::string_view kOllama = "parameter ";  // as `/set parameter temperature 0.7` has it
  if (arguments.starts_with(kOllama)) arguments = trim(arguments.substr(kOllama.size()));
  if (arguments.empty()) return describe_settings(state);
  const size_t space = arguments.find_first_of(" \t=");
  const std::string name = arguments.substr(0, space);
  const std::string text = space == std::string::npos ? "" : trim(arguments.substr(space + 1));
  for (const Setting& setting : kSettings) {
    if (name != setting.name) continue;
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool valid = !text.empty() && *end == '\0' && value >= setting.low && value <= setting.high &&
                       (!setting.whole || value == std::floor(value));
    if (!valid) {
      return name + " must be " + (setting.whole ? "a whole number" : "a number") + " from " + number(setting.low) +
             " to " + number(setting.high);
    }
    setting.set(state, value);
    return name + " is now " + number(value);
  }
  if (name == "system") return "here it is /system TEXT";
  const std::string near = nearest(name, chat_settings());
  return "there is no setting " + name + (near.empty() ? "; /set alone lists them" : "; did you mean " + near + "?");
}

std::string with_file(const std::string& file, const char* command, void (*act)(ChatState&, const std::string&),
                      ChatState& state) {
  if (file.empty()) return std::string(command) + " needs a file name";
  try {
    act(state, file);
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

std::string save(ChatState& state, const std::string& file) {
  const std::string wrong = with_file(
      file, "/save", [](ChatState& s, const std::string& f) { save_chat(s, f); }, state);
  return wrong.empty() ? "saved " + std::to_string(state.messages.size()) + " messages in " + file : wrong;
}

std::string load(ChatState& state, const std::string& file) {
  const std::string wrong = with_file(
      file, "/load", [](ChatState& s, const std::string& f) { load_chat(s, f); }, state);
  return wrong.empty() ? "loaded " + std::to_string(state.messages.size()) + " messages from " + file : wrong;
}

// Alone it shows: a message that took long to write is not lost by asking for it.
std::string change_system(ChatState& state, const std::string& text) {
  const bool has = !state.messages.empty() && state.messages[0]["role"] == "system";
  if (text.empty()) {
    return has ? state.messages[0]["content"].get<std::string>() : "no system message; /system TEXT sets one";
  }
  state.set_system(text == "-" ? "" : text);
  return text == "-" ? "no system message; a new conversation" : "system message set; a new conversation";
}

std::string no_command(const std::string& name) {
  const std::vector<std::string> settings = chat_settings();
  const std::string begin = "there is no command " + name + "; ";
  if (std::ranges::find(settings, name.substr(1)) != settings.end())
    return begin + "it is /set " + name.substr(1) + " VALUE";
  const std::string near = nearest(name, chat_commands());
  return begin + (near.empty() ? "/help lists them" : "did you mean " + near + "?");
}

// Drops the newest answer, so that the question before it can be answered again.
bool drop_answer(ChatState& state) {
  if (!state.messages.empty() && state.messages.back()["role"] == "assistant")
    state.messages.erase(state.messages.size() - 1);
  return !state.messages.empty() && state.messages.back()["role"] == "user";
}

}  // namespace

void ChatState::reset() {
  Json kept = Json::array();
  if (!messages.empty() && messages[0]["role"] == "system") kept.push_back(messages[0]);
  messages = std::move(kept);
}

void ChatState::set_system(const std::string& text) {
  messages = Json::array();
  if (!text.empty()) add("system", text);
}

void ChatState::add(const char* role, const std::string& content) {
  messages.push_back({{"role", role}, {"content", content}});
}

ChatCommandResult run_chat_command(ChatState& state, const std::string& line) {
  const std::string text = trim(line);
  const size_t space = text.find_first_of(" \t\n");
  const std::string name = text.substr(0, space);
  const std::string rest = space == std::string::npos ? "" : trim(text.substr(space));
  ChatCommandResult result;
  if (name == "/help" || name == "/?") {
    result.reply = kHelp;
  } else if (name == "/quit" || name == "/exit" || name == "/bye") {
    result.quit = true;
  } else if (name == "/reset" || name == "/clear") {
    state.reset();
    result.reply = "a new conversation";
  } else if (name == "/system") {
    result.reply = change_system(state, rest);
  } else if (name == "/set") {
    result.reply = change_setting(state, rest);
  } else if (name == "/save") {
    result.reply = save(state, rest);
  } else if (name == "/load") {
    result.reply = load(state, rest);
  } else if (name == "/stats") {
    result.wants_stats = true;
  } else if (name == "/retry" || name == "/regen") {
    result.retry = drop_answer(state);
    if (!result.retry) result.reply = "there is no question yet";
    // The same seed would give the same answer; one that was not chosen yet will be another anyway.
    if (result.retry && state.seed_is_given && state.sampling.temperature > 0.0) {
      result.reply = "seed " + std::to_string(++state.sampling.seed);
    }
  } else {
    result.reply = no_command(name);
  }
  return result;
}

std::vector<std::string> chat_commands() {
  std::vector<std::string> names;
  std::istringstream lines(kHelp);
  for (std::string line; std::getline(lines, line);) {
    std::string name = line.substr(0, line.find(' '));
    if (name.starts_with('/') && std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> chat_settings() {
  std::vector<std::string> names;
  for (const Setting& setting : kSettings) names.emplace_back(setting.name);
  return names;
}

void save_chat(const ChatState& state, const std::filesystem::path& file) {
  std::ofstream out(file, std::ios::binary);
  out << Json{{"messages", state.messages}}.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
  out.close();
  if (!out) throw Error("chat", file.string() + ": cannot be written");
}

void load_chat(ChatState& state, const std::filesystem::path& file) {
  const Json root = read_json_file(file);
  if (!root.is_object() || !root.contains("messages") || !root["messages"].is_array()) {
    throw Error("chat", file.string() + ": is no saved conversation; expected an object with messages");
  }
  for (const Json& message : root["messages"]) {
    const auto is_text = [&message](const char* key) { return message.contains(key) && message[key].is_string(); };
    if (!message.is_object() || !is_text("role") || !is_text("content")) {
      throw Error("chat", file.string() + ": each of messages must be an object with the texts role and content");
    }
  }
  state.messages = root["messages"];
}

}  // namespace ashlar
