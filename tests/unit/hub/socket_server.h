// SPDX-License-Identifier: Apache-2.0
#pragma once
// A server of plain POSIX sockets on a free port of this machine: what it answers, and how badly, is up to the test.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace ashlar::testing_support {

struct ServedRequest {
  std::string method, target;
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
};

/// One client's connection, on the server's side.
class ServedConnection {
 public:
  explicit ServedConnection(int fd) : fd_(fd) {}
  /// False once the client is gone.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  /// Status line, headers and body with its right length.
  bool answer(const std::string& status, const std::string& headers, const std::string& body) {
    return send("HTTP/1.1 " + status + "\r\n" + headers + "Content-Length: " + std::to_string(body.size()) +
                "\r\n\r\n" + body);
  }
  /// Ends the connection at once.
  void drop() {
    shutdown(fd_, SHUT_RDWR);
    dropped_ = true;
  }
  bool dropped() const { return dropped_; }
  int fd() const { return fd_; }

 private:
  int fd_;
  bool dropped_ = false;
};

class SocketServer {
 public:
  using Handler = std::function<void(const ServedRequest&, ServedConnection&)>;

  /// `handler` is called from one thread a connection.
  explicit SocketServer(Handler handler) : handler_(std::move(handler)) {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener_, 64) != 0) std::abort();
    getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~SocketServer() {
    stop_ = true;
    shutdown(listener_, SHUT_RDWR);
    acceptor_.join();
    for (std::thread& thread : threads_) thread.join();
    close(listener_);
  }
  SocketServer(const SocketServer&) = delete;
  SocketServer& operator=(const SocketServer&) = delete;

  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  bool stopping() const { return stop_; }

 private:
  void accept_all() {
    while (!stop_) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      const int on = 1;  // small pieces leave at once
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      threads_.emplace_back([this, fd] {
        serve(fd);
        close(fd);
      });
    }
  }

  bool more(int fd, std::string& buffer) {
    while (!stop_) {
      pollfd waiting{fd, POLLIN, 0};
      if (poll(&waiting, 1, 50) <= 0) continue;
      char bytes[4096];
      const ssize_t n = recv(fd, bytes, sizeof bytes, 0);
      if (n <= 0) return false;
      buffer.append(bytes, static_cast<size_t>(n));
      return true;
    }
    return false;
  }

  void serve(int fd) {
    std::string buffer;
    ServedConnection connection(fd);
    while (!stop_ && !connection.dropped()) {
      size_t end;
      while ((end = buffer.find("\r\n\r\n")) == std::string::npos) {
        if (!more(fd, buffer)) return;
      }
      ServedRequest request = parse(buffer.substr(0, end + 2));
      buffer.erase(0, end + 4);
      const size_t length =
          request.headers.contains("content-length") ? std::stoul(request.headers["content-length"]) : 0;
      while (buffer.size() < length) {
        if (!more(fd, buffer)) return;
      }
      request.body = buffer.substr(0, length);
      buffer.erase(0, length);
      handler_(request, connection);
    }
  }

  static ServedRequest parse(const std::string& head) {
    ServedRequest request;
    const size_t first = head.find(' '), second = head.find(' ', first + 1);
    request.method = head.substr(0, first);
    request.target = head.substr(first + 1, second - first - 1);
    for (size_t at = head.find("\r\n") + 2; at < head.size();) {
      const size_t end = head.find("\r\n", at), colon = head.find(':', at);
      std::string name = head.substr(at, colon - at);
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
      request.headers[name] = head.substr(std::min(colon + 2, end), end - std::min(colon + 2, end));
      at = end + 2;
    }
    return request;
  }

  Handler handler_;
  int listener_ = -1;
  int port_ = 0;
  std::atomic<bool> stop_{false};
  std::list<std::thread> threads_;
  std::thread acceptor_;
};

}  // namespace ashlar::testing_support
