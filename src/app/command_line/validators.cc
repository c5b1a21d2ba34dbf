// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/validators.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "io/json.h"
#include "session/memory_plan.h"

namespace ashlar {
namespace {

constexpr const char* kNumberName = "number";
constexpr const char* kSizeName = "size";

std::string found_and_expected(const std::string& text) {
  return "is " + (text.empty() ? "empty" : for_message(text)) + "; expected ";
}

struct Whole {
  bool negative = false;
  uint64_t magnitude = 0;
};

std::optional<Whole> parse_whole(std::string_view text) {
  Whole out;
  if (text.starts_with('-') || text.starts_with('+')) {
    out.negative = text[0] == '-';
    text.remove_prefix(1);
  }
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (hex) text.remove_prefix(2);
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, out.magnitude, hex ? 16 : 10);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  if (out.magnitude == 0) out.negative = false;
  return out;
}

bool within(const Whole& value, int64_t low, uint64_t high) {
  if (!value.negative) return value.magnitude <= high && (low <= 0 || value.magnitude >= static_cast<uint64_t>(low));
  return low < 0 && value.magnitude <= 0 - static_cast<uint64_t>(low);
}

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.10g", value);
  return text;
}

CLI::Validator number_within(double low, double high, bool open) {
  const auto check = [low, high, open](std::string& text) -> std::string {
    char* end = nullptr;
    const double value = std::strtod(text.c_str(), &end);
    const bool whole_text = !text.empty() && *end == '\0' && std::isspace(static_cast<unsigned char>(text[0])) == 0;
    // Written so that a NaN passes no comparison.
    if (whole_text && (open ? value > low : value >= low) && value <= high) {
      char shortest[32];
      text = {shortest, std::to_chars(shortest, shortest + sizeof shortest, value).ptr};
      return {};
    }
    return found_and_expected(text) +
           (open ? "a number above " + shown(low) + " and up to " : "a number from " + shown(low) + " to ") +
           shown(high);
  };
  return CLI::Validator(check, "", kNumberName);
}

std::string list_of(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

// CLI11 reports their end by an exception.
std::vector<CLI::Validator*> validators_of(CLI::Option& option) {
  std::vector<CLI::Validator*> out;
  try {
    for (int i = 0;; ++i) out.push_back(option.get_validator(i));
  } catch (const CLI::OptionNotFound&) {
    return out;
  }
}

}  // namespace

CLI::Validator whole(int64_t low, uint64_t high) {
  const auto check = [low, high](std::string& text) -> std::string {
    const auto value = parse_whole(text);
    if (!value || !within(*value, low, high)) {
      return found_and_expected(text) + "a whole number from " + std::to_string(low) + " to " + std::to_string(high);
    }
    text = (value->negative ? "-" : "") + std::to_string(value->magnitude);
    return {};
  };
  return CLI::Validator(check, "", kNumberName);
}

CLI::Validator number(double low, double high) { return number_within(low, high, false); }
CLI::Validator number_above(double low, double high) { return number_within(low, high, true); }

CLI::Validator size(int64_t low, int64_t high) {
  const auto check = [low, high](std::string& text) -> std::string {
    const auto bytes = parse_bytes(text);
    if (bytes && *bytes >= low && *bytes <= high) return {};
    return found_and_expected(text) + "a size from " + format_bytes(low) + " to " + format_bytes(high) +
           ", such as 512M or 1.5G";
  };
  return CLI::Validator(check, "", kSizeName);
}

CLI::Validator one_of(std::vector<std::string> words) {
  const auto check = [words = std::move(words)](std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return {};
    return found_and_expected(text) + list_of(words);
  };
  return CLI::Validator(check, "", "word");
}

ValueKind kind_of(CLI::Option& option) {
  for (const CLI::Validator* validator : validators_of(option)) {
    if (validator->get_name() == kNumberName) return ValueKind::kNumber;
    if (validator->get_name() == kSizeName) return ValueKind::kSize;
  }
  return ValueKind::kText;
}

std::string problem_with_value(CLI::Option& option, std::string text) {
  for (const CLI::Validator* validator : validators_of(option)) {
    if (std::string why = (*validator)(text); !why.empty()) return why;
  }
  return {};
}

}  // namespace ashlar
