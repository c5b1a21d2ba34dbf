// SPDX-License-Identifier: Apache-2.0
#include "server/http/http_message.h"

#include <algorithm>
#include <cstdint>
#include <random>

#include "io/json.h"
#include "server/error_shape.h"
#include "server/http/target.h"

namespace ashlar::server {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool harmless(char c) {
  return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) { return lower(x) == lower(y); });
}

const Header* find_header(const Headers& headers, std::string_view name) {
  for (const Header& header : headers) {
    if (equal_ignoring_case(header.name, name)) return &header;
  }
  return nullptr;
}

std::string_view HttpRequest::header(std::string_view name) const {
  const Header* found = find_header(headers, name);
  return found ? std::string_view(found->value) : std::string_view();
}

std::optional<std::string> HttpRequest::query_value(std::string_view key) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const size_t equals = pair.find('=');
    const std::optional<std::string> name = decode_percent(pair.substr(0, equals), /*plus_is_space=*/true);
    if (!name || *name != key) continue;
    return equals == std::string_view::npos ? std::string() : decode_percent(pair.substr(equals + 1), true);
  }
  return std::nullopt;
}

HttpResponse error_response(std::string_view path, int status, std::string_view type, std::string_view message,
                            std::string_view param, std::string_view code) {
  const auto text_or_null = [](std::string_view text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json body = {
      {"error", {{"message", message}, {"type", type}, {"param", text_or_null(param)}, {"code", text_or_null(code)}}}};
  if (speaks_messages(path)) body = messages_error(status, message);
  if (speaks_ollama(path)) body = ollama_error(message);
  HttpResponse response;
  response.status = status;
  // A message may quote what a client sent, which need not be UTF-8.
  response.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return response;
}

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      break;
  }
  if (status < 300) return "Success";
  if (status < 400) return "Redirection";
  return status < 500 ? "Client Error" : "Server Error";
}

std::string request_id(std::string_view wanted) {
  if (!wanted.empty() && wanted.size() <= 64 && std::all_of(wanted.begin(), wanted.end(), harmless)) {
    return std::string(wanted);
  }
  thread_local std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) {
    uint32_t bits = random();
    for (int digit = 0; digit < 8; ++digit, bits >>= 4) id += "0123456789abcdef"[bits & 15];
  }
  return id;
}

}  // namespace ashlar::server
