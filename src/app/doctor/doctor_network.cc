// SPDX-License-Identifier: Apache-2.0
#include <netdb.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "app/doctor/doctor.h"
#include "app/serve/api_keys.h"
#include "app/serve/request_log.h"
#include "base/error.h"
#include "server/http/connection/tls.h"

namespace ashlar::doctor {
namespace {

// 0, or why the server cannot listen there.
int listen_error(const addrinfo& address) {
  const int fd = socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol);
  if (fd < 0) return errno;
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);  // as servers do: ended connections do not count
  const bool listens = bind(fd, address.ai_addr, address.ai_addrlen) == 0 && listen(fd, 1) == 0;
  const int why = listens ? 0 : errno;
  close(fd);
  return why;
}

// "127.0.0.1" of "127.0.0.1", "[::1]" as resolvers take it; null and the reason if there is no such host.
std::unique_ptr<addrinfo, void (*)(addrinfo*)> resolve(const std::string& host, uint16_t port, std::string& why) {
  const std::string bare = host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(bare.c_str(), std::to_string(port).c_str(), &hints, &found); code != 0) {
    why = gai_strerror(code);
    found = nullptr;
  }
  return {found, freeaddrinfo};
}

bool is_loopback_address(const addrinfo& address) {
  if (address.ai_family == AF_INET) {
    const auto& v4 = *reinterpret_cast<const sockaddr_in*>(address.ai_addr);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
  }
  if (address.ai_family != AF_INET6) return false;
  const auto& v6 = *reinterpret_cast<const sockaddr_in6*>(address.ai_addr);
  return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr) != 0;
}

// Days until the first certificate of a file ends; negative: it has.
int days_left(const std::string& file) {
  const std::unique_ptr<BIO, int (*)(BIO*)> bio(BIO_new_file(file.c_str(), "r"), BIO_free);
  if (bio == nullptr) return 0;
  const std::unique_ptr<X509, void (*)(X509*)> cert(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr), X509_free);
  int days = 0, seconds = 0;
  if (cert == nullptr || ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(cert.get())) != 1) return 0;
  return seconds < 0 && days == 0 ? -1 : days;
}

}  // namespace

Finding check_port(const std::string& host, uint16_t port) {
  const std::string place = host + " port " + std::to_string(port);
  std::string unknown;
  const auto found = resolve(host, port, unknown);
  if (found == nullptr) {
    return {"port", Severity::kProblem, "the host " + host + " is not found (" + unknown + ")",
            "--host takes an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all"};
  }
  const int why = listen_error(*found);
  if (why == 0) return {"port", Severity::kOk, place + (port == 0 ? ": any free one" : " is free"), ""};
  return {"port", Severity::kProblem, place + ": " + std::strerror(why),
          why == EADDRINUSE ? "another program listens there (ss -ltnp); end it or choose another --port"
          : why == EACCES   ? "ports below 1024 need a privilege; choose another --port"
                            : "--host takes an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all"};
}

Finding check_access(const std::string& host, const std::vector<std::string>& keys, const std::string& key_file) {
  size_t count = keys.size();
  try {
    if (!key_file.empty()) count += read_api_keys(key_file).size();
  } catch (const Error& error) {
    return {"access", Severity::kProblem, error.what(), "--api-key-file takes a file with one key a line"};
  }
  if (count > 0) return {"access", Severity::kOk, std::to_string(count) + (count == 1 ? " key" : " keys"), ""};
  std::string ignored;
  const auto found = resolve(host, 0, ignored);
  if (found != nullptr && !is_loopback_address(*found)) {
    return {"access", Severity::kWarning, "no API key, and " + host + " is reached from other machines",
            "--api-key-file FILE, unless everybody who reaches it may use the server"};
  }
  return {"access", Severity::kOk, "no API key; only this machine reaches " + host, ""};
}

Finding check_request_log(const std::string& file) {
  namespace fs = std::filesystem;
  if (file.empty()) return {"request log", Severity::kOk, "not asked for", ""};
  const auto problem = [&file](int why) {
    return Finding{"request log", Severity::kProblem, file + ": " + std::strerror(why),
                   "--request-log takes a file that can be written, or a name where none is yet"};
  };
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) return problem(EISDIR);
  const fs::path parent = fs::path(file).has_parent_path() ? fs::path(file).parent_path() : fs::path(".");
  // SQLite keeps files of its own next to it.
  if (access(parent.c_str(), W_OK | X_OK) != 0) return problem(errno);
  if (access(file.c_str(), F_OK) == 0 && access(file.c_str(), R_OK | W_OK) != 0) return problem(errno);
  try {
    check_request_log_file(file);
  } catch (const Error& error) {
    return {"request log", Severity::kProblem, std::string(error.message()), "name another file with --request-log"};
  }
  return {"request log", Severity::kOk, file + " can be written", ""};
}

void try_tls(const std::string& cert_file, const std::string& key_file) {
  if (cert_file.empty() && key_file.empty()) return;
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr) throw Error("tls", "OpenSSL cannot be set up; see its installation");
  server::set_up_tls(context.get(), cert_file, key_file);
}

Finding check_tls(const std::string& cert_file, const std::string& key_file) {
  if (cert_file.empty() && key_file.empty()) return {"tls", Severity::kOk, "not asked for: plain http", ""};
  try {
    try_tls(cert_file, key_file);
  } catch (const Error& error) {
    return {"tls", Severity::kProblem, error.what(), "--tls-cert and --tls-key take PEM files that belong together"};
  }
  const int days = days_left(cert_file);
  if (days < 0) return {"tls", Severity::kProblem, cert_file + " has expired", "renew the certificate"};
  const std::string found = "certificate and key belong together; " + std::to_string(days) + " days left";
  if (days < 7) return {"tls", Severity::kWarning, found, "renew the certificate soon"};
  return {"tls", Severity::kOk, found, ""};
}

}  // namespace ashlar::doctor
