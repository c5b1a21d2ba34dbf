// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names that come from people and servers and become paths: checked once, here.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ashlar::hub {

/// A repository and the branch, tag or commit that is meant.
struct RepoRef {
  std::string repo;               ///< "ORG/MODEL"
  std::string revision = "main";  ///< may hold slashes: "refs/pr/1"
};

/// "ORG/MODEL" or "ORG/MODEL@REVISION"; nothing if the text is not of that form. Each part has 1 to 96 of the
/// characters A-Z a-z 0-9 . _ -, neither "--" nor "..", and does not begin or end with '.' or '-'.
std::optional<RepoRef> parse_repo_ref(std::string_view text);

/// "ORG/MODEL" of a page's address (https://huggingface.co/ORG/MODEL, whatever follows) or of a name as other programs
/// write it (hf.co/ORG/MODEL:TAG, hf://ORG/MODEL); empty for any other text. Only to propose it: nothing is fetched.
std::string repo_of_address(std::string_view text);

/// The text that is read as `ref`: "ORG/MODEL" of the main branch.
std::string name_of(const RepoRef& ref);

/// The folder of a repository "ORG/MODEL" in a cache: "models--ORG--MODEL".
std::string folder_name_of(const std::string& repo);
/// The repository of such a folder; empty for other names.
std::string repo_of_folder_name(const std::string& name);

/// Whether a branch, tag or commit may be asked for and stand in a path.
bool is_safe_revision(std::string_view revision);

/// Whether a server's file name is a plain relative path: no empty, "." or ".." part, no backslash, no control
/// character, at most 16 parts of at most 255 bytes each.
bool is_safe_path(std::string_view path);

/// A full commit: 40 hexadecimal digits in lower case.
bool is_commit(std::string_view text);

/// How the content of a file is named. kNone: by where it is, since the server has no digest: only its length is
/// checked.
enum class EtagKind { kGitBlob, kSha256, kNone };

/// A file's content as the hub names it: 40 digits are the SHA-1 of a git blob, 64 the SHA-256 of the bytes.
struct Etag {
  std::string hex;  ///< lower case; kNone: some other file name
  EtagKind kind = EtagKind::kGitBlob;
};

/// Reads an ETag header, with or without quotes and W/; nothing if it is neither of the two kinds: only these can be
/// checked, and nothing else becomes a file name.
std::optional<Etag> parse_etag(std::string_view header);

/// A path as part of a URL: all but letters, digits and -._~/ as %XX.
std::string url_path(std::string_view path);
/// The same with '/' escaped too: one segment.
std::string url_segment(std::string_view text);

}  // namespace ashlar::hub
