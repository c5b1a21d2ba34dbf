// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the screen can do, and lines for people on stderr.

#include <functional>
#include <string>

namespace ashlar {

enum class ColorMode { kAuto, kAlways, kNever };

bool is_terminal(int fd);
/// Columns of the terminal of `fd`; 80 if unknown.
int terminal_width(int fd);
/// Whether to colour what goes to `fd`: as `mode` says; kAuto: on a terminal, unless NO_COLOR is set or TERM is dumb.
bool use_color(ColorMode mode, int fd);

/// A quiet line on stderr (dim on a terminal): how something was set up, figures of an answer.
void print_note(const std::string& text);
/// "warning: ..." on stderr.
void print_warning(const std::string& text);
/// "error: ..." on stderr.
void print_error(const std::string& text);

enum class MessageKind { kNote, kWarning, kError };
/// Whether such lines are coloured (kAuto).
void color_messages(ColorMode mode);
/// Where such lines go instead of stderr, for a program whose log machines read; null: stderr again.
void redirect_messages(std::function<void(MessageKind, const std::string&)> to);

}  // namespace ashlar
