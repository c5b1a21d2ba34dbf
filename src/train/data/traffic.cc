// SPDX-License-Identifier: Apache-2.0
#include "train/data/traffic.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <unordered_set>

#include "base/error.h"
#include "base/philox.h"
#include "io/mapped_file.h"
#include "train/data/example.h"
#include "train/data/fingerprint.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "traffic-", kSuffix = ".jsonl";
constexpr size_t kDigits = 6;

// The part that is not learnt, before the document's last answer.
uint64_t prompt_fingerprint(const DocumentSet& documents, size_t document) {
  const size_t length = prompt_length(documents.supervised(document)).value_or(0);
  return fingerprint_with(kNoBytes, std::as_bytes(documents.ids(document).first(length)));
}

[[noreturn]] void fail_empty(const fs::path& folder) {
  throw Error("train", folder.string() + ": holds no answer; expected a folder that `ashlar serve --learn` keeps");
}

// What comes after the last line's end is being written, or a kill left it.
void read_whole_lines(const fs::path& path, const DocumentEncoder& encoder, DocumentSet& documents) {
  const MappedFile file(path);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  for (size_t number = 1;; ++number) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    const std::string where = path.string() + ":" + std::to_string(number);
    documents.add(encoder.encode(parse_example(text.substr(0, end), where)));
    text.remove_prefix(end + 1);
  }
  file.check_whole();
}

}  // namespace

std::string traffic_file_name(int64_t number) {
  std::string digits = std::to_string(number);
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return std::string(kPrefix) + digits + std::string(kSuffix);
}

int64_t traffic_file_number(std::string_view name) {
  std::string_view digits = name;
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix) || name.size() > 40) return 0;
  digits.remove_prefix(kPrefix.size());
  digits.remove_suffix(kSuffix.size());
  int64_t number = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = failed == std::errc() && end == digits.data() + digits.size() && number > 0;
  return whole && name == traffic_file_name(number) ? number : 0;
}

bool is_traffic_of(const fs::path& file, const std::string& mark) {
  std::ifstream stream(file);
  std::string line;
  if (!std::getline(stream, line) || stream.eof()) return true;
  const Json fields = Json::parse(line, nullptr, false);
  return fields.is_object() && fields.value("model", Json()) == mark;
}

std::vector<fs::path> traffic_files(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    throw Error("train", folder.string() + ": is no folder; expected one that `ashlar serve --learn` keeps");
  }
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (traffic_file_number(entry.path().filename().string()) > 0) files.push_back(entry.path());
  }
  if (files.empty()) fail_empty(folder);
  std::ranges::sort(files, {}, [](const fs::path& file) { return traffic_file_number(file.filename().string()); });
  return files;
}

DocumentSet read_traffic(const fs::path& folder, const std::string& mark, const DocumentEncoder& encoder,
                         int32_t max_length) {
  DocumentSet documents(max_length);
  for (const fs::path& file : traffic_files(folder)) {
    if (!file_exists(file)) continue;  // the oldest goes where the folder is full
    if (!is_traffic_of(file, mark)) {
      throw Error("train", file.string() +
                               ": was answered by other weights, whose tokens may be others; expected traffic of this "
                               "model, which `ashlar serve --learn` keeps in a folder for each");
    }
    read_whole_lines(file, encoder, documents);
  }
  documents.end_file();
  if (documents.size() > 0) return documents;
  if (documents.counts().unsupervised > 0) {
    throw Error("train", folder.string() + ": holds " + std::to_string(documents.counts().unsupervised) +
                             " answers, all to prompts longer than the " + std::to_string(max_length) +
                             " tokens that are trained on, or without a token");
  }
  fail_empty(folder);
}

std::vector<size_t> chosen_prompts(const DocumentSet& documents, uint64_t seed, uint32_t one_in) {
  std::vector<size_t> chosen;
  for (size_t document = 0; document < documents.size(); ++document) {
    const uint64_t prompt = prompt_fingerprint(documents, document);
    const PhiloxBlock words = philox4x32({static_cast<uint32_t>(prompt), static_cast<uint32_t>(prompt >> 32), 0, 0},
                                         static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
    if (words[0] % one_in == 0) chosen.push_back(document);
  }
  return chosen;
}

std::vector<size_t> newest_of_each_prompt(const DocumentSet& documents, std::span<const size_t> chosen, size_t most) {
  std::vector<size_t> newest;
  std::unordered_set<uint64_t> seen;
  for (size_t i = chosen.size(); i > 0 && newest.size() < most; --i) {
    if (seen.insert(prompt_fingerprint(documents, chosen[i - 1])).second) newest.push_back(chosen[i - 1]);
  }
  std::ranges::reverse(newest);
  return newest;
}

}  // namespace ashlar
