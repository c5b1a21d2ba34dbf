// SPDX-License-Identifier: Apache-2.0
#pragma once
// A conversation with its settings, and the /commands that change them: everything of the chat that needs neither a
// model nor a terminal.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "device/sampling/sampling_params.h"
#include "io/json.h"

namespace ashlar {

struct ChatState {
  Json messages = Json::array();  ///< [{"role", "content"}, ...], the system message first if there is one
  SamplingParams sampling;
  bool seed_is_given = false;  ///< else the first answer that a temperature leaves to chance takes a fresh one
  int32_t max_tokens = 0;      ///< of an answer; 0: no limit but the context
  int32_t width = 0;           ///< rows checked at once; 0: the method's own, 1: plain decoding

  /// Forgets the conversation, keeps the system message.
  void reset();
  /// Sets, replaces or (empty) removes the system message.
  void set_system(const std::string& text);
  void add(const char* role, const std::string& content);
};

struct ChatCommandResult {
  std::string reply;  ///< to print; may be empty
  bool quit = false;
  bool wants_stats = false;
  bool retry = false;  ///< the newest answer was dropped: answer again
};

/// Runs a line that begins with '/'. What is wrong with it is said in the reply; throws nothing.
ChatCommandResult run_chat_command(ChatState& state, const std::string& line);

/// The names of the commands, each with its '/', and those of the settings that /set changes.
std::vector<std::string> chat_commands();
std::vector<std::string> chat_settings();

/// A conversation as a file: {"messages": [...]}. Throws Error("chat", ...) if it cannot be written or read.
void save_chat(const ChatState& state, const std::filesystem::path& file);
void load_chat(ChatState& state, const std::filesystem::path& file);

}  // namespace ashlar
