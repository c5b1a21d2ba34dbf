// SPDX-License-Identifier: Apache-2.0
#include "server/http/target.h"

#include <algorithm>
#include <cstdint>

#include "server/http/http_message.h"

namespace ashlar::server {
namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Bytes of the UTF-8 sequence that `text` begins with, or 0 if that is none (overlong, surrogate, above U+10FFFF).
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F)) return 0;
  if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) return 0;
  return length;
}

bool valid_utf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

bool has_dot_segment(std::string_view path) {
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::string_view segment = path.substr(0, path.find('/'));
    if (segment == "." || segment == "..") return true;
    path.remove_prefix(segment.size());
  }
  return false;
}

Result<std::string> decode_path(std::string_view encoded) {
  const std::optional<std::string> path = decode_percent(encoded, /*plus_is_space=*/false);
  if (!path) return Failure{"The path has a '%' that is not followed by two hexadecimal digits."};
  const auto forbidden = [](char c) { return static_cast<uint8_t>(c) < 0x20 || c == 0x7F || c == '\\'; };
  if (std::any_of(path->begin(), path->end(), forbidden)) {
    return Failure{"The path has control characters or backslashes."};
  }
  if (!valid_utf8(*path)) return Failure{"The path is not UTF-8."};
  if (has_dot_segment(*path)) return Failure{"The path has '.' or '..' segments; send the path they lead to."};
  return *path;
}

/// Takes "http://host" off the front of `target`; false if its authority is none.
bool split_absolute(std::string_view& target, std::string& authority) {
  const size_t scheme_end = target.find("://");
  target.remove_prefix(scheme_end + 3);
  const std::string_view host = target.substr(0, target.find_first_of("/?"));
  authority = host;
  target.remove_prefix(host.size());
  return valid_authority(host);
}

}  // namespace

std::optional<std::string> decode_percent(std::string_view text, bool plus_is_space) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += plus_is_space && text[i] == '+' ? ' ' : text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = hex_digit(text[i + 1]);
    const int low = hex_digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

bool valid_authority(std::string_view authority) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._~[]:%!$&'()*+;=").find(c) != std::string_view::npos;
  };
  return !authority.empty() && authority.size() <= 255 && std::all_of(authority.begin(), authority.end(), allowed);
}

Result<Target> parse_target(std::string_view method, std::string_view target) {
  if (std::any_of(target.begin(), target.end(), [](char c) { return c <= 0x20 || c >= 0x7F || c == '#'; })) {
    return Failure{"The request target has bytes that must be percent-encoded."};
  }
  Target result;
  if (target == "*" && method == "OPTIONS") {
    result.path = "*";
    return result;
  }
  if (equal_ignoring_case(target.substr(0, 7), "http://") || equal_ignoring_case(target.substr(0, 8), "https://")) {
    if (!split_absolute(target, result.authority)) return Failure{"The host of the request target is malformed."};
    if (target.empty() || target.front() == '?') {
      result.path = "/";
      if (!target.empty()) result.query = target.substr(1);
      return result;
    }
  }
  if (target.empty() || target.front() != '/')
    return Failure{"The request target must be a path that begins with '/'."};
  const size_t question = target.find('?');
  Result<std::string> path = decode_path(target.substr(0, question));
  if (!path) return Failure{path.error()};
  result.path = std::move(path.value());
  if (question != std::string_view::npos) result.query = target.substr(question + 1);
  return result;
}

}  // namespace ashlar::server
