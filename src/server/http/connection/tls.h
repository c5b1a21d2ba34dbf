// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <openssl/types.h>

#include <string>

namespace ashlar::server {

/// TLS 1.2 and up with this certificate chain and key (PEM files). Throws Error("http") if they cannot be used.
void set_up_tls(SSL_CTX* context, const std::string& cert_file, const std::string& key_file);

}  // namespace ashlar::server
