// SPDX-License-Identifier: Apache-2.0
#include "measure/synth/made_folder.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFresh = ".ashlar-new";

// What loading reads next to weights. Files of people stay.
constexpr const char* kReplaced[] = {"config.json",           "generation_config.json",  "tokenizer.json",
                                     "tokenizer_config.json", "tokenizer.model",         "chat_template.jinja",
                                     "chat_template.json",    "special_tokens_map.json", "added_tokens.json"};

bool is_replaced(const std::string& name) {
  return (name.starts_with("model") && name.find(".safetensors") != std::string::npos) ||
         std::ranges::find(kReplaced, name) != std::end(kReplaced);
}

// What a killed program left is no reason to refuse a folder.
bool holds_files(const fs::path& folder) {
  return std::ranges::any_of(fs::directory_iterator(folder),
                             [](const fs::directory_entry& entry) { return entry.path().filename() != kFresh; });
}

}  // namespace

MadeFolder::MadeFolder(fs::path path, bool force) : path_(std::move(path)), fresh_(path_ / kFresh) {
  std::error_code error;
  is_new_ = !fs::exists(path_, error);
  if (!is_new_ && !fs::is_directory(path_, error)) {
    throw Error("synth", path_.string() + ": is a file; expected a new folder");
  }
  if (!force && !is_new_ && holds_files(path_)) {
    throw Error("synth", path_.string() + ": has files in it; expected a new or empty folder, or --force");
  }
  fs::remove_all(fresh_, error);
  if (!error) fs::create_directories(fresh_, error);
  if (error) throw Error("synth", path_.string() + ": cannot be made: " + error.message());
}

MadeFolder::~MadeFolder() {
  std::error_code ignored;
  fs::remove_all(fresh_, ignored);
  if (is_new_) fs::remove(path_, ignored);  // fails where commit() put files
}

std::vector<fs::path> MadeFolder::replaced() const {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
    if (!entry.is_directory() && is_replaced(entry.path().filename().string())) files.push_back(entry.path());
  }
  return files;
}

// Of a link, the link alone goes.
int64_t MadeFolder::replaced_bytes() const {
  int64_t bytes = 0;
  for (const fs::path& file : replaced()) {
    if (fs::is_regular_file(fs::symlink_status(file))) bytes += static_cast<int64_t>(fs::file_size(file));
  }
  return bytes;
}

void MadeFolder::remove_replaced() const {
  for (const fs::path& file : replaced()) fs::remove(file);
}

void MadeFolder::commit() const {
  remove_replaced();
  for (const fs::directory_entry& entry : fs::directory_iterator(fresh_)) {
    fs::rename(entry.path(), path_ / entry.path().filename());
  }
}

}  // namespace ashlar
