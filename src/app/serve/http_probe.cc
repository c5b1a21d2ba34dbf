#include "app/serve/http_probe.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "base/error.h"
#include "io/json.h"

namespace ashlar {
namespace {

using std::chrono::steady_clock;

constexpr size_t kMaxAnswer = 64 << 10;

struct Target {
  std::string url, host, port, path;
  bool tls = false;
};

[[noreturn]] void fail(const std::string& url, const std::string& why) {
  throw Error("health", for_message(url) + ": " + why);
}

Target parse(const std::string& url, const std::string& default_path) {
  constexpr const char* kExpected = "expected a URL such as http://127.0.0.1:8080";
  Target out;
  out.url = url;
  out.tls = url.starts_with("https://");
  if (!out.tls && !url.starts_with("http://")) fail(url, kExpected);
  std::string rest = url.substr(out.tls ? 8 : 7);
  const size_t slash = rest.find('/');
  out.path = slash == std::string::npos || slash + 1 == rest.size() ? default_path : rest.substr(slash);
  rest.resize(std::min(rest.size(), slash));
  const size_t bracket = rest.starts_with('[') ? rest.find(']') : std::string::npos;
  const size_t colon = rest.find(':', bracket == std::string::npos ? 0 : bracket);
  out.host = bracket != std::string::npos ? rest.substr(1, bracket - 1) : rest.substr(0, colon);
  out.port = colon == std::string::npos ? (out.tls ? "443" : "80") : rest.substr(colon + 1);
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(out.port.data(), out.port.data() + out.port.size(), number);
  const bool clean = std::none_of(url.begin(), url.end(), [](unsigned char c) { return c <= ' ' || c == 0x7F; });
  if (out.host.empty() || error != std::errc() || *end != '\0' || number == 0 || !clean) fail(url, kExpected);
  return out;
}

bool on_this_machine(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

/// Closes what it holds.
struct Socket {
  int fd = -1;
  ~Socket() {
    if (fd >= 0) close(fd);
  }
};

class Connection {
 public:
  Connection(const Target& target, steady_clock::time_point deadline) : target_(target), deadline_(deadline) {
    open();
    if (target_.tls) shake_hands();
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The request is far smaller than a socket's buffer, so it goes in one piece.
  void write(const std::string& bytes) {
    const auto size = static_cast<int>(bytes.size());
    const bool sent = ssl_ != nullptr ? repeat([&] { return SSL_write(ssl_.get(), bytes.data(), size); }) == size
                                      : send(socket_.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) == size;
    if (!sent) fail(target_.url, "the connection broke");
  }

  std::string read_all() {
    std::string out;
    char bytes[4096];
    while (out.size() < kMaxAnswer) {
      int n = 0;
      if (ssl_ != nullptr) {
        n = repeat([&] { return SSL_read(ssl_.get(), bytes, sizeof bytes); });
      } else {
        wait(POLLIN);
        n = static_cast<int>(recv(socket_.fd, bytes, sizeof bytes, 0));
      }
      if (n <= 0) break;
      out.append(bytes, static_cast<size_t>(n));
    }
    return out;
  }

 private:
  void open() {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (const int code = getaddrinfo(target_.host.c_str(), target_.port.c_str(), &hints, &found); code != 0) {
      fail(target_.url, "the host is not found (" + std::string(gai_strerror(code)) + ")");
    }
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
    int why = 0;
    for (const addrinfo* a = found; a != nullptr && socket_.fd < 0; a = a->ai_next) why = try_address(*a);
    if (socket_.fd < 0) fail(target_.url, std::string("no connection (") + std::strerror(why) + ")");
  }

  int try_address(const addrinfo& a) {
    socket_.fd = socket(a.ai_family, a.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, a.ai_protocol);
    if (socket_.fd < 0) return errno;
    int why = connect(socket_.fd, a.ai_addr, a.ai_addrlen) == 0 ? 0 : errno;
    if (why == EINPROGRESS) {
      wait(POLLOUT);
      socklen_t size = sizeof why;
      getsockopt(socket_.fd, SOL_SOCKET, SO_ERROR, &why, &size);
    }
    if (why != 0) {
      close(socket_.fd);
      socket_.fd = -1;
    }
    return why;
  }

  void wait(short events) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - steady_clock::now()).count();
    pollfd entry{socket_.fd, events, 0};
    if (left <= 0 || poll(&entry, 1, static_cast<int>(std::min<int64_t>(left, 1 << 30))) <= 0) {
      fail(target_.url, "no answer in time");
    }
  }

  // An OpenSSL call on a socket that does not block: again whenever the socket is ready for what it lacks.
  template <class Call>
  int repeat(const Call& call) {
    for (;;) {
      ERR_clear_error();
      const int n = call();
      if (n > 0) return n;
      const int why = SSL_get_error(ssl_.get(), n);
      if (why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE) return n;
      wait(why == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT);
    }
  }

  void shake_hands() {
    context_.reset(SSL_CTX_new(TLS_client_method()));
    if (context_ != nullptr) ssl_.reset(SSL_new(context_.get()));
    if (ssl_ == nullptr) fail(target_.url, "TLS cannot be set up");
    if (!on_this_machine(target_.host)) {
      SSL_CTX_set_default_verify_paths(context_.get());
      SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);
      SSL_set1_host(ssl_.get(), target_.host.c_str());
    }
    SSL_set_tlsext_host_name(ssl_.get(), target_.host.c_str());
    SSL_set_fd(ssl_.get(), socket_.fd);
    if (repeat([&] { return SSL_connect(ssl_.get()); }) != 1) {
      const long result = SSL_get_verify_result(ssl_.get());
      fail(target_.url, result == X509_V_OK ? "no TLS connection; is the server one of http?"
                                            : std::string("its certificate is not trusted (") +
                                                  X509_verify_cert_error_string(result) + ")");
    }
  }

  const Target& target_;
  const steady_clock::time_point deadline_;
  // Members of their own, so that a constructor that throws leaves nothing behind.
  Socket socket_;
  std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context_{nullptr, SSL_CTX_free};
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_{nullptr, SSL_free};
};

}  // namespace

ProbeAnswer probe(const std::string& url, const std::string& default_path, std::chrono::milliseconds timeout) {
  const Target target = parse(url, default_path);
  Connection connection(target, steady_clock::now() + timeout);
  // HTTP/1.0 without a Host: a server that answers to certain names only answers this too.
  connection.write("GET " + target.path + " HTTP/1.0\r\nUser-Agent: ashlar-health\r\n\r\n");
  const std::string answer = connection.read_all();
  ProbeAnswer out;
  const size_t space = answer.find(' ');
  const bool http = answer.starts_with("HTTP/1.") && space != std::string::npos && answer.size() >= space + 4;
  if (!http || std::from_chars(&answer[space + 1], &answer[space + 4], out.status).ec != std::errc()) {
    fail(url,
         answer.empty() ? "the server closed the connection without an answer" : "what answers does not speak HTTP");
  }
  if (const size_t body = answer.find("\r\n\r\n"); body != std::string::npos) out.body = answer.substr(body + 4);
  return out;
}

}  // namespace ashlar
