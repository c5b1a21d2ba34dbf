// SPDX-License-Identifier: Apache-2.0
#pragma once
// A hub with one repository, and the ways in which it may misbehave. Its ETags were computed by git hash-object and
// sha256sum, or come from OpenSSL's one-shot functions: not from the code under test.

#include <openssl/sha.h>

#include <filesystem>
#include <mutex>
#include <random>

#include "unit/hub/socket_server.h"

namespace ashlar::testing_support {

inline std::string hex(const unsigned char* bytes, size_t n) {
  std::string text;
  char digits[3];
  for (size_t i = 0; i < n; ++i) {
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    text += digits;
  }
  return text;
}

inline std::string sha256(const std::string& content) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(content.data()), content.size(), digest);
  return hex(digest, sizeof digest);
}

inline std::string git_sha1(const std::string& content) {
  const std::string blob = "blob " + std::to_string(content.size()) + std::string(1, '\0') + content;
  unsigned char digest[SHA_DIGEST_LENGTH];
  SHA1(reinterpret_cast<const unsigned char*>(blob.data()), blob.size(), digest);
  return hex(digest, sizeof digest);
}

inline std::string random_bytes(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(n, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

struct FakeFile {
  std::string content;
  bool lfs = false;
};

class FakeHub {
 public:
  /// What a GET of a file comes to; `nth` counts the GETs of that file from 0. Returns true if it answered.
  using Mischief =
      std::function<bool(const std::string& file, int nth, const ServedRequest& request, ServedConnection& connection)>;

  static constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";

  FakeHub() : server_([this](const ServedRequest& request, ServedConnection& client) { handle(request, client); }) {}

  std::map<std::string, FakeFile> files;
  std::string listing;                       ///< instead of the true list, if not empty
  std::map<std::string, std::string> etags;  ///< instead of the true ones
  std::map<std::string, int64_t> announced;  ///< lengths instead of the true ones
  Mischief mischief;                         ///< set before the first request
  Mischief api_mischief;                     ///< the same for the list of files
  std::string redirect_lfs;                  ///< LFS files are at this URL + "/" + name

  std::string url() const { return server_.url(); }
  std::vector<ServedRequest> seen() {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  int gets(const std::string& file) {
    const std::lock_guard lock(mutex_);
    return counts_[file];
  }
  static bool send_file(const FakeFile& file, const ServedRequest& request, ServedConnection& connection) {
    size_t from = 0;
    if (const auto range = request.headers.find("range"); range != request.headers.end()) {
      from = std::stoul(range->second.substr(6));
    }
    if (from == 0) return connection.answer("200 OK", "", file.content);
    const size_t size = file.content.size();
    return connection.answer("206 Partial Content",
                             "Content-Range: bytes " + std::to_string(from) + "-" + std::to_string(size - 1) + "/" +
                                 std::to_string(size) + "\r\n",
                             file.content.substr(from));
  }

 private:
  void handle(const ServedRequest& request, ServedConnection& client) {
    int nth = 0;
    const std::string prefix = std::string("/org/model/resolve/") + kCommit + "/";
    std::string name = request.target.starts_with(prefix) ? request.target.substr(prefix.size()) : "";
    {
      const std::lock_guard lock(mutex_);
      seen_.push_back(request);
      if (request.method == "GET") nth = counts_[name]++;
    }
    if (request.target.starts_with("/api/models/org/model/revision/")) {
      if (!api_mischief || !api_mischief("", nth, request, client)) client.answer("200 OK", "", list());
    } else if (const auto file = files.find(name); file == files.end()) {
      client.answer("404 Not Found", "X-Error-Code: EntryNotFound\r\n",
                    request.method == "HEAD" ? "" : "no such thing");
    } else if (request.method == "HEAD") {
      head(name, file->second, client);
    } else if (!mischief || !mischief(name, nth, request, client)) {
      if (file->second.lfs && !redirect_lfs.empty()) {
        client.answer("302 Found", "Location: " + redirect_lfs + "/" + name + "\r\n", "");
      } else {
        send_file(file->second, request, client);
      }
    }
  }

  void head(const std::string& name, const FakeFile& file, ServedConnection& client) {
    const std::string tag = etags.contains(name) ? etags[name]
                            : file.lfs           ? sha256(file.content)
                                                 : git_sha1(file.content);
    const int64_t size = announced.contains(name) ? announced[name] : static_cast<int64_t>(file.content.size());
    if (file.lfs) {
      client.send("HTTP/1.1 302 Found\r\nX-Linked-Etag: \"" + tag + "\"\r\nX-Linked-Size: " + std::to_string(size) +
                  "\r\nETag: \"pointer\"\r\nLocation: http://127.0.0.1:1/nobody\r\nContent-Length: 0\r\n\r\n");
    } else {
      client.send("HTTP/1.1 200 OK\r\nETag: \"" + tag + "\"\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n");
    }
  }

  std::string list() {
    if (!listing.empty()) return listing;
    std::string siblings;
    for (const auto& [name, file] : files)
      siblings += (siblings.empty() ? "" : ",") + ("{\"rfilename\":\"" + name + "\"}");
    return std::string("{\"id\":\"org/model\",\"sha\":\"") + kCommit + "\",\"siblings\":[" + siblings + "]}";
  }

  std::mutex mutex_;
  std::vector<ServedRequest> seen_;
  std::map<std::string, int> counts_;
  SocketServer server_;
};

}  // namespace ashlar::testing_support
