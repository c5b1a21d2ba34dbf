// SPDX-License-Identifier: Apache-2.0
// TLS, with OpenSSL itself as the client.

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <csignal>
#include <filesystem>

#include "base/error.h"
#include "http_test_client.h"
#include "http_test_server.h"
#include "temp_folder.h"

namespace ashlar::server {
namespace {

using std::chrono::milliseconds;

/// A new key and a certificate it signed itself, in two files that go with this. The key is encrypted if there is a
/// password.
class Certificate {
 public:
  explicit Certificate(std::string password = "") {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* cert = X509_new();
    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -60);
    X509_gmtime_adj(X509_getm_notAfter(cert), 3600);
    X509_set_pubkey(cert, key);
    X509_NAME* subject = X509_get_subject_name(cert);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1,
                               0);
    X509_set_issuer_name(cert, subject);
    X509_sign(cert, key, EVP_sha256());
    FILE* file = fopen(key_file().c_str(), "w");
    PEM_write_PrivateKey(file, key, password.empty() ? nullptr : EVP_aes_128_cbc(),
                         reinterpret_cast<unsigned char*>(password.data()), static_cast<int>(password.size()), nullptr,
                         nullptr);
    fclose(file);
    file = fopen(cert_file().c_str(), "w");
    PEM_write_X509(file, cert);
    fclose(file);
    X509_free(cert);
    EVP_PKEY_free(key);
  }
  std::string key_file() const { return (folder_ / "key.pem").string(); }
  std::string cert_file() const { return (folder_ / "cert.pem").string(); }

 private:
  TempFolder folder_;
};

class TlsClient {
 public:
  TlsClient(uint16_t port, const std::string& trusted)
      : context_(SSL_CTX_new(TLS_client_method())), ssl_(SSL_new(context_)) {
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL's own sockets raise it
    SSL_CTX_load_verify_locations(context_, trusted.c_str(), nullptr);
    SSL_set_verify(ssl_, SSL_VERIFY_PEER, nullptr);
    X509_STORE_load_file(SSL_CTX_get_cert_store(context_), trusted.c_str());
    SSL_set1_host(ssl_, "localhost");
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
    SSL_set_fd(ssl_, fd_);
    shaken_ = SSL_connect(ssl_) == 1;
  }
  ~TlsClient() {
    SSL_free(ssl_);
    SSL_CTX_free(context_);
    close(fd_);
  }
  bool shaken() const { return shaken_; }
  bool send(const std::string& bytes) { return SSL_write(ssl_, bytes.data(), static_cast<int>(bytes.size())) > 0; }
  /// Reads until `mark` is seen or the connection ends.
  std::string read_until(const std::string& mark) {
    std::string all;
    char bytes[16384];
    while (all.find(mark) == std::string::npos) {
      const int n = SSL_read(ssl_, bytes, sizeof bytes);
      if (n <= 0) break;
      all.append(bytes, static_cast<size_t>(n));
    }
    return all;
  }
  bool ended_cleanly() {
    char byte;
    return SSL_get_error(ssl_, SSL_read(ssl_, &byte, 1)) == SSL_ERROR_ZERO_RETURN;
  }

 private:
  SSL_CTX* context_;
  SSL* ssl_;
  int fd_ = -1;
  bool shaken_ = false;
};

class HttpTls : public testing::Test {
 protected:
  HttpOptions options() const {
    HttpOptions result;
    result.tls_cert_file = certificate_.cert_file();
    result.tls_key_file = certificate_.key_file();
    result.header_timeout = milliseconds(500);
    return result;
  }
  Certificate certificate_;
};

TEST_F(HttpTls, AnswersAndKeepsTheConnection) {
  TestServer server(options());
  TlsClient client(server.port(), certificate_.cert_file());
  ASSERT_TRUE(client.shaken());
  for (int i = 0; i < 3; ++i) {
    const std::string body(50'000, 'x');
    ASSERT_TRUE(client.send(post("/echo", body + "#")));
    EXPECT_THAT(client.read_until("#"), testing::EndsWith("POST /echo? " + body + "#"));
  }
  ASSERT_TRUE(client.send(get("/echo", "Connection: close\r\n")));
  EXPECT_THAT(client.read_until("GET /echo? "), testing::HasSubstr("Connection: close"));
  EXPECT_TRUE(client.ended_cleanly());
}

TEST_F(HttpTls, StreamsBothWaysAtOnceAndNoticesWhoLeaves) {
  TestServer server(options());
  {
    TlsClient client(server.port(), certificate_.cert_file());
    client.send(get("/open"));
    const auto exchange = server.kept();
    exchange->send("data: one\n\n");
    EXPECT_THAT(client.read_until("one"), testing::HasSubstr("200 OK"));
    client.send(get("/echo"));  // while the stream is open
    exchange->send("data: two\n\n");
    client.read_until("two");
    exchange->finish();
    EXPECT_THAT(client.read_until("GET /echo"), testing::HasSubstr("0\r\n\r\nHTTP/1.1 200 OK"));
    client.send(get("/keep"));
    ASSERT_TRUE(server.kept());
    EXPECT_EQ(server.n_gone, 0);
    client.read_until("500 Internal");
    client.send(get("/open"));
    ASSERT_TRUE(server.kept());
    client.read_until("200 OK");
  }
  EXPECT_TRUE(eventually([&] { return server->counters().open_connections == 0; }));
}

TEST_F(HttpTls, LeavingIsNoticed) {
  TestServer server(options());
  std::shared_ptr<Exchange> exchange;
  {
    TlsClient client(server.port(), certificate_.cert_file());
    client.send(get("/open"));
    exchange = server.kept();
  }
  EXPECT_TRUE(eventually([&] { return server.n_gone == 1; }));
}

TEST_F(HttpTls, PlainAndSilentClientsAreTurnedAway) {
  TestServer server(options());
  TestClient plain(server.port());
  plain.send(get("/echo"));
  EXPECT_EQ(plain.read().status, 0);
  TestClient silent(server.port());
  EXPECT_TRUE(silent.sees_close(5000));
  EXPECT_TRUE(eventually([&] { return server->counters().open_connections == 0; }));
  EXPECT_EQ(server->counters().requests, 0u);
}

TEST_F(HttpTls, SaysWhatIsWrongWithAKey) {
  const Certificate other;
  HttpOptions wrong = options();
  wrong.tls_key_file = other.key_file();
  HttpServer server(wrong, [](const std::shared_ptr<Exchange>&) {});
  try {
    server.start();
    FAIL() << "a foreign key was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(other.key_file()));
  }
}

// OpenSSL would ask at the terminal, wait for a pipe's writer and read a device for ever.
TEST_F(HttpTls, KeysThatWouldHaveToBeWaitedForAreRefused) {
  const auto error_with = [](const std::string& cert_file, const std::string& key_file) -> std::string {
    HttpOptions options;
    options.tls_cert_file = cert_file;
    options.tls_key_file = key_file;
    HttpServer server(options, [](const std::shared_ptr<Exchange>&) {});
    try {
      server.start();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const Certificate locked("secret");
  EXPECT_THAT(error_with(locked.cert_file(), locked.key_file()),
              testing::AllOf(testing::HasSubstr(locked.key_file()), testing::HasSubstr("has a password"),
                             testing::HasSubstr("openssl pkey")));
  const TempFolder folder;
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    EXPECT_THAT(
        error_with(path, locked.key_file()),
        testing::AllOf(testing::HasSubstr("certificate"), testing::HasSubstr(path + ": is not a regular file")));
    EXPECT_THAT(error_with(locked.cert_file(), path),
                testing::AllOf(testing::HasSubstr("key"), testing::HasSubstr(path + ": is not a regular file")));
  }
}

}  // namespace
}  // namespace ashlar::server
