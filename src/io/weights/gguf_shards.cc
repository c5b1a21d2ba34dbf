// SPDX-License-Identifier: Apache-2.0
// Models in several GGUF files.

#include <charconv>
#include <cstdio>

#include "base/error.h"
#include "io/weights/gguf.h"

namespace ashlar {
namespace {

constexpr std::string_view kOf = "-of-";
constexpr std::string_view kSuffix = ".gguf";
constexpr size_t kDigits = 5;
constexpr size_t kTail = 1 + kDigits + kOf.size() + kDigits + kSuffix.size();  // "-00003-of-00012.gguf"

struct GgufPlace {
  int64_t number = 1, of = 1;
};

int64_t five_digits(std::string_view text) {
  int64_t value = -1;
  const char* end = text.data() + kDigits;
  return std::from_chars(text.data(), end, value).ptr == end ? value : -1;
}

// Of NAME-00003-of-00012.gguf: 3 of 12; of any other name: 1 of 1.
GgufPlace place_of(const std::string& name) {
  if (name.size() <= kTail || !name.ends_with(kSuffix)) return {};
  const std::string_view tail = std::string_view(name).substr(name.size() - kTail);
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf) return {};
  const GgufPlace place = {five_digits(tail.substr(1)), five_digits(tail.substr(1 + kDigits + kOf.size()))};
  return place.number < 1 || place.number > place.of ? GgufPlace{} : place;
}

int64_t whole_number(const GgufFile& file, const char* key, int64_t fallback) {
  return JsonFields(file.metadata(), file.path().string(), "gguf").integer(key, 0, 1 << 20, fallback);
}

void check_shard(const GgufFile& file, const GgufPlace& place) {
  const int64_t of = whole_number(file, "split.count", 1);
  const int64_t number = whole_number(file, "split.no", place.number - 1) + 1;
  if ((of == place.of || (of == 0 && place.of == 1)) && number == place.number) return;
  throw Error("gguf", file.path().string() + ": is shard " + std::to_string(number) + " of " + std::to_string(of) +
                          " by its metadata and " + std::to_string(place.number) + " of " + std::to_string(place.of) +
                          " by its name; expected NAME-00001-of-00002.gguf and so on, as the shards were made");
}

}  // namespace

std::filesystem::path gguf_shard(const std::filesystem::path& path, int64_t number) {
  const std::string name = path.filename().string();
  if (place_of(name).of == 1) return {};
  char digits[16];
  std::snprintf(digits, sizeof digits, "-%05d", static_cast<int>(number));
  const size_t stem = name.size() - kTail;
  return path.parent_path() / (name.substr(0, stem) + digits + name.substr(stem + 1 + kDigits));
}

GgufModel::GgufModel(const std::filesystem::path& path) {
  const int64_t count = place_of(path.filename().string()).of;
  size_t n_tensors = 0;
  for (int64_t number = 1; number <= count; ++number) {
    const std::filesystem::path shard = count == 1 ? path : gguf_shard(path, number);
    if (!file_exists(shard)) {
      throw Error("gguf", shard.string() + ": is missing; expected all " + std::to_string(count) +
                              " shards in one folder: fetch the missing file");
    }
    files_.emplace_back(shard);
    check_shard(files_.back(), {number, count});
    n_tensors += files_.back().tensors().size();
  }
  const int64_t stated = whole_number(files_.front(), "split.tensors.count", static_cast<int64_t>(n_tensors));
  if (count > 1 && stated != static_cast<int64_t>(n_tensors)) {
    throw Error("gguf", files_.front().path().string() + ": states " + std::to_string(stated) +
                            " tensors in all shards, found " + std::to_string(n_tensors) +
                            "; the shards are not of one model: fetch them again");
  }
}

GgufFile open_gguf_metadata(const std::filesystem::path& path) {
  const std::filesystem::path first = gguf_shard(path, 1);
  return GgufFile(first.empty() ? path : first);
}

}  // namespace ashlar
