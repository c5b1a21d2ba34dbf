#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "app/doctor.h"
#include "base/error.h"
#include "server/http/tls.h"

namespace ashlar::doctor {
namespace {

// 0, or why nobody can listen there.
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
  const std::string bare = host.starts_with('[') && host.ends_with(']') ? host.substr(1, host.size() - 2) : host;
  const std::string place = host + " port " + std::to_string(port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int code = getaddrinfo(bare.c_str(), std::to_string(port).c_str(), &hints, &found); code != 0) {
    return {"port", Verdict::kProblem, "the host " + host + " is not found (" + gai_strerror(code) + ")",
            "--host takes an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all"};
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  const int why = listen_error(*found);
  if (why == 0) return {"port", Verdict::kOk, place + (port == 0 ? ": any free one" : " is free"), ""};
  return {"port", Verdict::kProblem, place + ": " + std::strerror(why),
          why == EADDRINUSE ? "another program listens there (ss -ltnp); end it or choose another --port"
          : why == EACCES   ? "ports below 1024 need a privilege; choose another --port"
                            : "--host takes an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all"};
}

Finding check_tls(const std::string& cert_file, const std::string& key_file) {
  if (cert_file.empty() && key_file.empty()) return {"tls", Verdict::kOk, "not asked for: plain http", ""};
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (context == nullptr) return {"tls", Verdict::kProblem, "OpenSSL cannot be set up", "see its installation"};
  try {
    server::set_up_tls(context.get(), cert_file, key_file);
  } catch (const Error& error) {
    return {"tls", Verdict::kProblem, error.what(), "--tls-cert and --tls-key take PEM files that belong together"};
  }
  const int days = days_left(cert_file);
  if (days < 0) return {"tls", Verdict::kProblem, cert_file + " has expired", "renew the certificate"};
  const std::string found = "certificate and key belong together; " + std::to_string(days) + " days left";
  if (days < 7) return {"tls", Verdict::kWarning, found, "renew the certificate soon"};
  return {"tls", Verdict::kOk, found, ""};
}

}  // namespace ashlar::doctor
