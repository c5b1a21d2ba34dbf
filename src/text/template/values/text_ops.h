// SPDX-License-Identifier: Apache-2.0
#pragma once
// Python string operations that both methods and filters need.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/template/values/text_builder.h"
#include "text/template/values/value.h"

namespace ashlar::tmpl {

/// str.strip and its one-sided kinds; `chars` null strips white space.
std::string_view strip(std::string_view text, const std::string* chars, bool left, bool right);
/// str.replace; `count` negative replaces all.
SourcedText replace(Budget& budget, const SourcedText& text, std::string_view old, const SourcedText& fresh,
                    std::int64_t count);
/// str.splitlines.
std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends = false);
/// str.split() and str.split(sep), at most `limit` cuts (all when negative); from the right for rsplit.
std::vector<std::string_view> split_space(std::string_view text, std::int64_t limit);
std::vector<std::string_view> rsplit_space(std::string_view text, std::int64_t limit);
std::vector<std::string_view> split_at(std::string_view text, std::string_view separator, std::int64_t limit);
std::vector<std::string_view> rsplit_at(std::string_view text, std::string_view separator, std::int64_t limit);

enum class Align { kLeft, kRight, kCenter };
/// str.ljust, rjust and center.
SourcedText pad(Budget& budget, const Text& text, std::int64_t width, Align align, const SourcedText& fill = {" ", {}});

std::string capitalize(std::string_view text);
/// str.title: the first letter of every run of letters.
std::string title_case(std::string_view text);

/// The text of `value` where a string is asked for; `what` names the caller. Fails on anything else.
const Text& need_text(const Value& value, std::string_view what);
inline const std::string& need_string(const Value& value, std::string_view what) {
  return need_text(value, what).bytes;
}
/// Parts of `whole` as a list.
Value make_parts(Budget& budget, const SourcedText& whole, const std::vector<std::string_view>& parts);

/// Charges for mapping every character through the case tables.
void charge_case_mapping(Budget& budget, std::string_view text);

}  // namespace ashlar::tmpl
