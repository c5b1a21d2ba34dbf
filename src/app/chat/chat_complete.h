// SPDX-License-Identifier: Apache-2.0
#pragma once
// What Tab may put in place of the word before the cursor, in a line of the chat.

#include <string>
#include <string_view>
#include <vector>

namespace ashlar {

struct ChatCompletion {
  size_t from = 0;                   ///< byte at which the word begins that the choices would replace
  std::vector<std::string> choices;  ///< sorted; each begins with that word; empty: nothing is known that would fit
};

/// `before`: the line up to the cursor. Commands, the settings of /set, files for /save and /load (folders end in '/').
ChatCompletion complete_chat(std::string_view before);

/// What all of `texts` begin with, in whole characters of UTF-8; empty if there are none.
std::string common_start(const std::vector<std::string>& texts);

/// The texts in columns, read downwards, for a screen `width` columns wide; each line ends in a newline.
std::string in_columns(const std::vector<std::string>& texts, size_t width);

}  // namespace ashlar
