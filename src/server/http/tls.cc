#include "server/http/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "base/error.h"

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

}  // namespace

void set_up_tls(SSL_CTX* context, const std::string& cert_file, const std::string& key_file) {
  if (cert_file.empty() || key_file.empty()) {
    throw Error("http", "TLS needs both a certificate file and a key file; only one of them was given.");
  }
  ERR_clear_error();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_alpn_select_cb(context, choose_http_1_1, nullptr);
  if (SSL_CTX_use_certificate_chain_file(context, cert_file.c_str()) != 1) {
    fail("The TLS certificate " + cert_file + " could not be read; expected a readable PEM file with the chain");
  }
  if (SSL_CTX_use_PrivateKey_file(context, key_file.c_str(), SSL_FILETYPE_PEM) != 1) {
    fail("The TLS key " + key_file + " could not be used; expected the certificate's key, PEM, without a password");
  }
  if (SSL_CTX_check_private_key(context) != 1) {
    fail("The TLS key " + key_file + " does not belong to the certificate " + cert_file);
  }
}

}  // namespace ashlar::server
