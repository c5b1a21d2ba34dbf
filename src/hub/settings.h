// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the hub is and where its files are kept: what the environment says, as the hub's own tools read it.

#include <cstdint>
#include <filesystem>
#include <string>

namespace ashlar::hub {

/// The public hub, used where HF_ENDPOINT names no other.
inline constexpr const char* kPublicEndpoint = "https://huggingface.co";

struct Settings {
  std::string endpoint = kPublicEndpoint;  ///< without a slash at the end; may hold a password: see without_password
  std::string token;                       ///< empty: anonymous. Sent to the endpoint and nowhere else
  std::filesystem::path cache;             ///< holds models--ORG--MODEL folders
  bool offline = false;                    ///< nothing is asked of the network
  int64_t min_rate = 1024;                 ///< bytes a second; a connection that brings less is given up ...
  int patience_s = 30;                     ///< ... after so long
};

/// A URL made fit for people to read, and for logs: without the user name and password that it may have.
std::string without_password(const std::string& url);

/// Reads HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, and for the cache HF_HUB_CACHE, HF_HOME (its "hub"), XDG_CACHE_HOME and
/// HOME. Throws Error("hub", ...) if the endpoint is no http or https URL, or a token holds more than one line.
Settings settings_from_environment();

}  // namespace ashlar::hub
