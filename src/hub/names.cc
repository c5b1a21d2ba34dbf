// SPDX-License-Identifier: Apache-2.0
#include "hub/names.h"

#include <algorithm>

namespace ashlar::hub {
namespace {

constexpr std::string_view kFolderPrefix = "models--";

constexpr size_t kMaxPart = 96;
constexpr size_t kMaxRevision = 200;
constexpr size_t kMaxFilePart = 255;  // of most file systems
constexpr int kMaxDepth = 16;

bool is_alnum(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); }

bool is_hex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

bool is_repo_part(std::string_view part) {
  if (part.empty() || part.size() > kMaxPart) return false;
  for (const char c : part) {
    if (!is_alnum(c) && c != '.' && c != '_' && c != '-') return false;
  }
  const auto at_border = [](char c) { return c == '.' || c == '-'; };
  if (at_border(part.front()) || at_border(part.back())) return false;
  return part.find("--") == std::string_view::npos && part.find("..") == std::string_view::npos;
}

std::string escape(std::string_view text, bool keep_slash) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string result;
  for (const char c : text) {
    if (is_alnum(c) || c == '-' || c == '.' || c == '_' || c == '~' || (keep_slash && c == '/')) {
      result += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      result += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return result;
}

}  // namespace

std::optional<RepoRef> parse_repo_ref(std::string_view text) {
  RepoRef ref;
  if (const size_t at = text.find('@'); at != std::string_view::npos) {
    ref.revision = text.substr(at + 1);
    text = text.substr(0, at);
    if (!is_safe_revision(ref.revision)) return std::nullopt;
  }
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  if (!is_repo_part(text.substr(0, slash)) || !is_repo_part(text.substr(slash + 1))) return std::nullopt;
  ref.repo = text;
  return ref;
}

std::string repo_of_address(std::string_view text) {
  const auto skip = [&text](std::string_view start) {
    if (!text.starts_with(start)) return false;
    text.remove_prefix(start.size());
    return true;
  };
  bool found = skip("hf://");
  if (!found) {
    if (!skip("https://")) skip("http://");
    skip("www.");
    found = skip("huggingface.co/") || skip("hf.co/") || skip("hf-mirror.com/");
  }
  const size_t slash = found ? text.find('/') : std::string_view::npos;
  if (slash == std::string_view::npos) return {};
  constexpr std::string_view kSections[] = {"datasets", "spaces", "collections", "docs", "blog", "papers", "models"};
  if (std::ranges::find(kSections, text.substr(0, slash)) != std::end(kSections)) return {};
  const auto ref = parse_repo_ref(text.substr(0, text.find_first_of("/:?#@", slash + 1)));
  return ref ? ref->repo : std::string();
}

std::string name_of(const RepoRef& ref) { return ref.revision == "main" ? ref.repo : ref.repo + "@" + ref.revision; }

std::string folder_name_of(const std::string& repo) {
  std::string name = std::string(kFolderPrefix) + repo;
  return name.replace(name.find('/'), 1, "--");
}

std::string repo_of_folder_name(const std::string& name) {
  const size_t middle = name.find("--", kFolderPrefix.size());
  if (!name.starts_with(kFolderPrefix) || middle == std::string::npos) return {};
  return std::string(name).replace(middle, 2, "/").substr(kFolderPrefix.size());
}

bool is_safe_revision(std::string_view revision) {
  return revision.size() <= kMaxRevision && is_safe_path(revision) &&
         std::all_of(revision.begin(), revision.end(),
                     [](char c) { return is_alnum(c) || c == '.' || c == '_' || c == '-' || c == '/' || c == '+'; });
}

bool is_safe_path(std::string_view path) {
  int depth = 0;
  while (true) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == ".." || part.size() > kMaxFilePart || ++depth > kMaxDepth) return false;
    for (const char c : part) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '\\') return false;
    }
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

bool is_commit(std::string_view text) { return text.size() == 40 && is_hex(text); }

std::optional<Etag> parse_etag(std::string_view header) {
  if (header.substr(0, 2) == "W/") header.remove_prefix(2);
  if (header.size() >= 2 && header.front() == '"' && header.back() == '"') {
    header = header.substr(1, header.size() - 2);
  }
  if (header.size() != 40 && header.size() != 64) return std::nullopt;
  std::optional<Etag> etag(std::in_place);
  etag->kind = header.size() == 64 ? EtagKind::kSha256 : EtagKind::kGitBlob;
  for (const char c : header) etag->hex += c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  if (!is_hex(etag->hex)) return std::nullopt;
  return etag;
}

std::string url_path(std::string_view path) { return escape(path, true); }
std::string url_segment(std::string_view text) { return escape(text, false); }

}  // namespace ashlar::hub
