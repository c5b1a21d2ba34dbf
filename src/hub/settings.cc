// SPDX-License-Identifier: Apache-2.0
#include "hub/settings.h"

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "io/json.h"

namespace ashlar::hub {
namespace {

namespace fs = std::filesystem;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool is_on(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  return text == "1" || text == "true" || text == "yes" || text == "on";
}

fs::path expanded(const std::string& path) {
  if (path == "~" || path.starts_with("~/"))
    return fs::path(variable("HOME")) / path.substr(std::min<size_t>(2, path.size()));
  return path;
}

fs::path cache_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {  // the second is the first one's older name
    if (const std::string path = variable(name); !path.empty()) return expanded(path);
  }
  if (const std::string home = variable("HF_HOME"); !home.empty()) return expanded(home) / "hub";
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) {
    return expanded(cache) / "huggingface" / "hub";
  }
  return fs::path(variable("HOME")) / ".cache" / "huggingface" / "hub";
}

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

}  // namespace

// Up to the last @: a password may hold characters that should have been written otherwise.
std::string without_password(const std::string& url) {
  const size_t scheme = url.find("://");
  const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
  const size_t end = url.rfind('@');
  if (end == std::string::npos || end < begin) return url;
  return url.substr(0, begin) + url.substr(end + 1);
}

Settings settings_from_environment() {
  Settings settings;
  if (const std::string endpoint = trimmed(variable("HF_ENDPOINT")); !endpoint.empty()) settings.endpoint = endpoint;
  while (settings.endpoint.ends_with('/')) settings.endpoint.pop_back();
  if (!settings.endpoint.starts_with("https://") && !settings.endpoint.starts_with("http://")) {
    throw Error("hub", "HF_ENDPOINT is " + for_message(without_password(settings.endpoint)) +
                           "; expected a URL that begins with https://");
  }
  settings.token = trimmed(variable("HF_TOKEN"));
  if (settings.token.find_first_of("\r\n") != std::string::npos) {
    throw Error("hub", "HF_TOKEN has several lines; expected one token");
  }
  settings.cache = cache_folder();
  settings.offline = is_on(variable("HF_HUB_OFFLINE"));
  return settings;
}

}  // namespace ashlar::hub
