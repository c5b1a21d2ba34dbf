// SPDX-License-Identifier: Apache-2.0
#include "session/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "session/output.h"

namespace ashlar {
namespace {

std::function<void(MessageKind, const std::string&)> redirection;
ColorMode message_color = ColorMode::kAuto;

void print_line(MessageKind kind, const char* style, const std::string& label, const std::string& text) {
  if (redirection) return redirection(kind, text);
  const bool color = use_color(message_color, STDERR_FILENO);
  const std::string line = (color ? style : "") + label + text + (color ? "\033[0m" : "") + "\n";
  flush_output();
  std::fputs(line.c_str(), stderr);
}

}  // namespace

bool is_terminal(int fd) { return isatty(fd) == 1; }

int terminal_width(int fd) {
  winsize size{};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool use_color(ColorMode mode, int fd) {
  if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_color != nullptr && *no_color != '\0') return false;
  return is_terminal(fd) && term != nullptr && std::string_view(term) != "dumb";
}

void print_note(const std::string& text) { print_line(MessageKind::kNote, "\033[2m", "", text); }
void print_warning(const std::string& text) { print_line(MessageKind::kWarning, "\033[33m", "warning: ", text); }
void print_error(const std::string& text) { print_line(MessageKind::kError, "\033[31m", "error: ", text); }
void color_messages(ColorMode mode) { message_color = mode; }
void redirect_messages(std::function<void(MessageKind, const std::string&)> to) { redirection = std::move(to); }

}  // namespace ashlar
