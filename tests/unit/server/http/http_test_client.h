// SPDX-License-Identifier: Apache-2.0
#pragma once
// An HTTP client of plain POSIX sockets: shares nothing with the server under test, and can misbehave.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar::server {

struct ClientResponse {
  int status = 0;                              ///< 0: none came
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
  std::vector<std::string> chunks;
  bool complete = false;  ///< it ended as its framing promised
};

class TestClient {
 public:
  /// `receive_buffer` > 0 makes the socket take few bytes that are not read.
  explicit TestClient(uint16_t port, int receive_buffer = 0) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~TestClient() { close_now(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return connected_; }
  /// False once the server has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  void shut_down_sending() { shutdown(fd_, SHUT_WR); }
  void close_now() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  void reset() {
    const linger hard{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close_now();
  }

  /// Reads one response; `to_head` says that it answers HEAD. Incomplete if the server closes or is silent for
  /// `wait_ms`.
  ClientResponse read(bool to_head = false, int wait_ms = 10'000) {
    ClientResponse response;
    size_t end;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!more(wait_ms)) return response;
    }
    parse_head(buffer_.substr(0, end + 2), response);
    buffer_.erase(0, end + 4);
    if (to_head || response.status == 204 || response.status / 100 == 1) {
      response.complete = true;
    } else if (response.headers.contains("transfer-encoding")) {
      read_chunks(response, wait_ms);
    } else if (response.headers.contains("content-length")) {
      const size_t length = std::stoul(response.headers["content-length"]);
      while (buffer_.size() < length && more(wait_ms)) {
      }
      response.complete = buffer_.size() >= length;
      response.body = buffer_.substr(0, length);
      buffer_.erase(0, length);
    } else {
      while (more(wait_ms)) {
      }
      response.complete = closed_;
      response.body.swap(buffer_);
    }
    return response;
  }
  ClientResponse ask(std::string_view request, bool to_head = false) {
    send(request);
    return read(to_head);
  }
  /// Whether the server closes, with nothing before, within the time.
  bool sees_close(int wait_ms = 10'000) { return buffer_.empty() && !more(wait_ms) && closed_; }
  /// Reads bytes into the buffer; false at the end of the connection or after the time.
  bool more(int wait_ms) {
    pollfd item{fd_, POLLIN, 0};
    if (poll(&item, 1, wait_ms) <= 0) return false;
    char bytes[65536];
    const ssize_t n = recv(fd_, bytes, sizeof bytes, 0);
    closed_ = n <= 0;
    if (n > 0) buffer_.append(bytes, static_cast<size_t>(n));
    return n > 0;
  }
  const std::string& buffer() const { return buffer_; }

 private:
  static void parse_head(std::string_view head, ClientResponse& response) {
    response.status = std::stoi(std::string(head.substr(9, 3)));
    for (size_t line = head.find("\r\n") + 2; line < head.size(); line = head.find("\r\n", line) + 2) {
      const std::string_view text = head.substr(line, head.find("\r\n", line) - line);
      const size_t colon = text.find(": ");
      if (colon == std::string_view::npos) {
        ADD_FAILURE() << "a header without a colon: " << text;
        return;
      }
      std::string name(text.substr(0, colon));
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      EXPECT_TRUE(response.headers.emplace(name, text.substr(colon + 2)).second) << name << " was sent twice";
    }
  }
  void read_chunks(ClientResponse& response, int wait_ms) {
    for (;;) {
      size_t line_end;
      while ((line_end = buffer_.find("\r\n")) == std::string::npos) {
        if (!more(wait_ms)) return;
      }
      const size_t size = std::stoul(buffer_.substr(0, line_end), nullptr, 16);
      while (buffer_.size() < line_end + 2 + size + 2) {
        if (!more(wait_ms)) return;
      }
      EXPECT_EQ(buffer_.substr(line_end + 2 + size, 2), "\r\n");
      std::string chunk = buffer_.substr(line_end + 2, size);
      buffer_.erase(0, line_end + 2 + size + 2);
      if (size == 0) {
        response.complete = true;
        return;
      }
      response.body += chunk;
      response.chunks.push_back(std::move(chunk));
    }
  }

  int fd_;
  bool connected_ = false;
  bool closed_ = false;
  std::string buffer_;
};

inline std::string get(std::string_view path, std::string_view more_headers = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(more_headers) + "\r\n";
}
inline std::string post(std::string_view path, std::string_view body, std::string_view more_headers = "") {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
         std::string(more_headers) + "\r\n" + std::string(body);
}

}  // namespace ashlar::server
