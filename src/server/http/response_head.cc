// SPDX-License-Identifier: Apache-2.0
#include "server/http/response_head.h"

#include <algorithm>
#include <ctime>

namespace ashlar::server {
namespace {

bool token_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool value_byte(char c) { return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F); }

bool may_be_sent(const Header& header) {
  for (const std::string_view owned :
       {"Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Date", "X-Request-Id"}) {
    if (equal_ignoring_case(header.name, owned)) return false;
  }
  return !header.name.empty() && std::all_of(header.name.begin(), header.name.end(), token_byte) &&
         std::all_of(header.value.begin(), header.value.end(), value_byte);
}

std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  char rest[32];  // strftime's own names depend on the locale
  std::strftime(rest, sizeof rest, "%Y %H:%M:%S GMT", &utc);
  char day[8];
  std::strftime(day, sizeof day, "%d", &utc);
  return std::string(kDays[utc.tm_wday]) + ", " + day + " " + kMonths[utc.tm_mon] + " " + rest;
}

}  // namespace

std::string response_head(int status, std::string_view content_type, const Headers& headers,
                          std::string_view request_id, const Framing& framing) {
  std::string head = "HTTP/1.1 " + std::to_string(status) + " ";
  const auto add = [&head](std::string_view name, std::string_view value) {
    head.append(name).append(": ").append(value).append("\r\n");
  };
  head.append(reason_phrase(status)).append("\r\n");
  add("Date", http_date());
  add("X-Request-Id", request_id);
  if (!content_type.empty() && std::all_of(content_type.begin(), content_type.end(), value_byte)) {
    add("Content-Type", content_type);
  }
  for (const Header& header : headers) {
    if (may_be_sent(header)) add(header.name, header.value);
  }
  if (framing.chunked) {
    add("Transfer-Encoding", "chunked");
  } else if (framing.content_length && status != 204) {
    add("Content-Length", std::to_string(*framing.content_length));
  }
  // An HTTP/1.0 client takes the connection for closed unless the head says otherwise.
  if (!framing.keep_alive) add("Connection", "close");
  if (framing.keep_alive && framing.http_1_0) add("Connection", "keep-alive");
  return head + "\r\n";
}

}  // namespace ashlar::server
