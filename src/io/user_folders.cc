// SPDX-License-Identifier: Apache-2.0
#include "io/user_folders.h"

#include <cstdlib>

namespace ashlar {
namespace {

struct Place {
  const char* variable;
  const char* in_home;
};

Place place_of(UserFolder folder) {
  switch (folder) {
    case UserFolder::kCache:
      return {"XDG_CACHE_HOME", ".cache"};
    case UserFolder::kConfig:
      return {"XDG_CONFIG_HOME", ".config"};
    case UserFolder::kState:
      return {"XDG_STATE_HOME", ".local/state"};
  }
  return {};
}

std::filesystem::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::filesystem::path user_folder(UserFolder folder) {
  const Place place = place_of(folder);
  if (const auto named = variable(place.variable); named.is_absolute()) return named / "ashlar";
  const auto home = variable("HOME");
  return home.empty() ? home : home / place.in_home / "ashlar";
}

}  // namespace ashlar
