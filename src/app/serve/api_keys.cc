// SPDX-License-Identifier: Apache-2.0
#include "app/serve/api_keys.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"
#include "io/mapped_file.h"

namespace ashlar {
namespace {

constexpr const char* kBlank = " \t\r";

std::string trimmed(const std::string& line) {
  const size_t begin = line.find_first_not_of(kBlank);
  return begin == std::string::npos ? "" : line.substr(begin, line.find_last_not_of(kBlank) - begin + 1);
}

// A pipe would be waited for, a device read without end.
std::string text_of(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{1} << 20;
  try {
    return read_text_file(path, kMaxBytes);
  } catch (const Error& error) {
    throw Error("keys", std::string(error.message()) + "; expected a file with one API key a line");
  }
}

}  // namespace

std::string problem_with_api_key(const std::string& key) {
  const bool usable =
      !key.empty() && std::all_of(key.begin(), key.end(), [](unsigned char c) { return c > ' ' && c < 0x7F; });
  if (usable) return {};
  return std::string(key.empty() ? "is empty" : "has a space or something invisible in it") +
         "; an API key is one word of visible ASCII characters";
}

std::vector<std::string> read_api_keys(const std::string& path) {
  std::istringstream file(text_of(path));
  std::vector<std::string> keys;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    const std::string key = trimmed(line);
    if (key.empty() || key.starts_with('#')) continue;
    if (const std::string why = problem_with_api_key(key); !why.empty()) {
      throw Error("keys", path + ":" + std::to_string(number) + ": the line " + why);
    }
    keys.push_back(key);
  }
  if (keys.empty()) throw Error("keys", path + ": has no key; expected one a line");
  return keys;
}

}  // namespace ashlar
