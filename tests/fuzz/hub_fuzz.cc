// SPDX-License-Identifier: Apache-2.0
// Any bytes as a hub's answers: what is let through is safe to use as a path.

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "hub/file_list.h"
#include "hub/names.h"

namespace {

void require(bool law) {
  if (!law) std::abort();
}

// Whether the path, taken by the rules of the file system, stays below where it begins.
bool stays_below(const std::string& text) {
  const std::filesystem::path path(text);
  if (path.empty() || path.is_absolute()) return false;
  for (const auto& part : path) {
    if (part == ".." || part == "." || part.empty()) return false;
  }
  return text.find('\0') == std::string::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace ashlar::hub;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const RepoInfo info = parse_repo_info(bytes, "list");
    require(is_commit(info.commit));
    for (const std::string& file : info.files) require(stays_below(file));
    require(engine_files(info.files).size() <= info.files.size());
  } catch (const ashlar::Error&) {
  }
  if (is_safe_path(bytes)) require(stays_below(std::string(bytes)));
  if (const auto ref = parse_repo_ref(bytes)) require(stays_below(ref->repo) && stays_below(ref->revision));
  if (const auto etag = parse_etag(bytes)) require(stays_below(etag->hex) && etag->hex.find('/') == std::string::npos);
  return 0;
}
