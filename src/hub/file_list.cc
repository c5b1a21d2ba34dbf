// SPDX-License-Identifier: Apache-2.0
#include "hub/file_list.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "hub/names.h"
#include "io/json.h"

namespace ashlar::hub {
namespace {

constexpr std::array<std::string_view, 21> kNames = {"config.json",
                                                     "generation_config.json",
                                                     "tokenizer.json",
                                                     "tokenizer_config.json",
                                                     "tokenizer.model",
                                                     "tiktoken.model",
                                                     "vocab.json",
                                                     "vocab.txt",
                                                     "merges.txt",
                                                     "special_tokens_map.json",
                                                     "added_tokens.json",
                                                     "spiece.model",
                                                     "chat_template.jinja",
                                                     "chat_template.json",
                                                     "acceptance.json",
                                                     "README.md",
                                                     "LICENSE",
                                                     "LICENSE.md",
                                                     "LICENSE.txt",
                                                     "LICENCE",
                                                     "USE_POLICY.md"};
constexpr std::string_view kTemplates = "additional_chat_templates/";

// A file "a" next to "a/b" cannot be stored; a server that lists both would have us write through the first.
void refuse_files_as_folders(const std::vector<std::string>& files, const std::string& name) {
  const std::set<std::string_view> all(files.begin(), files.end());
  for (const std::string& file : files) {
    for (size_t slash = file.find('/'); slash != std::string::npos; slash = file.find('/', slash + 1)) {
      if (all.contains(std::string_view(file).substr(0, slash))) {
        throw Error("hub", name + ": lists " + for_message(file) + " below a file of that name");
      }
    }
  }
}

}  // namespace

RepoInfo parse_repo_info(std::string_view body, const std::string& name) {
  if (body.size() > kMaxInfoBytes) throw Error("hub", name + ": the description is larger than 32 MiB");
  const Json json = parse_json(body, name);
  const JsonFields fields(json, name, "hub");
  RepoInfo info;
  info.commit = fields.string("sha");
  if (!is_commit(info.commit)) fields.fail("sha", "a commit of 40 hexadecimal digits");
  const Json& siblings = fields.raw("siblings");
  if (!siblings.is_array() || siblings.size() > kMaxFiles) fields.fail("siblings", "a list of at most 100000 files");
  std::set<std::string> seen;
  for (const Json& sibling : siblings) {
    const std::string path = JsonFields(sibling, name, "hub").string("rfilename");
    if (!is_safe_path(path)) {
      throw Error("hub", name + ": names a file \"" + for_message(path) +
                             "\", which is no plain relative path; refused, nothing was stored");
    }
    if (seen.insert(path).second) info.files.push_back(path);
  }
  refuse_files_as_folders(info.files, name);
  return info;
}

bool is_engine_file(std::string_view path) {
  if (path.starts_with(kTemplates)) return path.ends_with(".jinja") && path.find('/', kTemplates.size()) == path.npos;
  if (path.find('/') != path.npos) return false;  // folders hold the same model for other programs
  return path.ends_with(".safetensors") || path.ends_with(".safetensors.index.json") ||
         std::find(kNames.begin(), kNames.end(), path) != kNames.end();
}

std::vector<std::string> engine_files(const std::vector<std::string>& files) {
  const bool has_model = std::any_of(files.begin(), files.end(), [](const std::string& file) {
    return file.starts_with("model") && file.ends_with(".safetensors") && file.find('/') == std::string::npos;
  });
  std::vector<std::string> wanted;
  for (const std::string& file : files) {
    if (is_engine_file(file) && !(has_model && file.starts_with("consolidated"))) wanted.push_back(file);
  }
  return wanted;
}

}  // namespace ashlar::hub
