// SPDX-License-Identifier: Apache-2.0
#include "hub/digest.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace ashlar::hub {

struct Digest::Context {
  EVP_MD_CTX* md = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(md); }
};

Digest::Digest(EtagKind kind, int64_t size) : context_(std::make_unique<Context>()) {
  ASHLAR_CHECK(context_->md != nullptr);
  ASHLAR_CHECK(kind != EtagKind::kNone);
  ASHLAR_CHECK_EQ(EVP_DigestInit_ex(context_->md, kind == EtagKind::kSha256 ? EVP_sha256() : EVP_sha1(), nullptr), 1);
  if (kind == EtagKind::kGitBlob) {
    const std::string head = "blob " + std::to_string(size);
    update({head.c_str(), head.size() + 1});
  }
}

Digest::~Digest() = default;

void Digest::update(std::string_view bytes) {
  ASHLAR_CHECK_EQ(EVP_DigestUpdate(context_->md, bytes.data(), bytes.size()), 1);
}

std::string Digest::finish() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  ASHLAR_CHECK_EQ(EVP_DigestFinal_ex(context_->md, bytes, &size), 1);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += {kDigits[bytes[i] >> 4], kDigits[bytes[i] & 15]};
  return text;
}

}  // namespace ashlar::hub
