// SPDX-License-Identifier: Apache-2.0
#include "server/http/connection/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/error.h"
#include "io/mapped_file.h"

namespace ashlar::server {
namespace {

[[noreturn]] void fail(const std::string& what) {
  const unsigned long code = ERR_get_error();
  const char* reason = code ? ERR_reason_error_string(code) : nullptr;
  ERR_clear_error();
  throw Error("http", what + (reason ? std::string(" (") + reason + ")" : std::string()));
}

int choose_http_1_1(SSL*, const unsigned char** out, unsigned char* out_size, const unsigned char* in, unsigned in_size,
                    void*) {
  static constexpr unsigned char kProtocols[] = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  const int found = SSL_select_next_proto(&chosen, out_size, kProtocols, sizeof kProtocols - 1, in, in_size);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

// A pipe would be waited for, a device read without end.
void require_file(const std::string& what, const std::string& path) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  try {
    read_text_file(path, kMaxBytes);
  } catch (const Error& error) {
    throw Error("http", "The TLS " + what + " could not be read: " + std::string(error.message()));
  }
}

// Instead of OpenSSL's own, which asks at the terminal.
int refuse_password(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

}  // namespace

void set_up_tls(SSL_CTX* context, const std::string& cert_file, const std::string& key_file) {
  if (cert_file.empty() || key_file.empty()) {
    throw Error("http", "TLS needs both a certificate file and a key file; only one of them was given.");
  }
  ERR_clear_error();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_alpn_select_cb(context, choose_http_1_1, nullptr);
  require_file("certificate", cert_file);
  require_file("key", key_file);
  bool has_password = false;
  SSL_CTX_set_default_passwd_cb(context, refuse_password);
  SSL_CTX_set_default_passwd_cb_userdata(context, &has_password);
  const bool has_cert = SSL_CTX_use_certificate_chain_file(context, cert_file.c_str()) == 1;
  const bool has_key = has_cert && SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) == 1;
  SSL_CTX_set_default_passwd_cb(context, nullptr);
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);  // Asio deletes what it finds there
  if (!has_cert) {
    fail("The TLS certificate " + cert_file + " could not be read; expected a readable PEM file with the chain");
  }
  if (has_password) {
    ERR_clear_error();
    throw Error("http", "The TLS key " + key_file +
                            " has a password, which cannot be typed for a server; write it "
                            "without one: openssl pkey -in KEY -out KEY-WITHOUT-PASSWORD");
  }
  if (!has_key) {
    fail("The TLS key " + key_file + " could not be used; expected the certificate's key, PEM, without a password");
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    fail("The TLS key " + key_file + " does not belong to the certificate " + cert_file);
  }
}

}  // namespace ashlar::server
