#pragma once
// Where the hub is and where its files are kept: what the environment says, as the hub's own tools read it.

#include <filesystem>
#include <string>

namespace ashlar::hub {

/// The public hub, used where HF_ENDPOINT names no other.
inline constexpr const char* kPublicEndpoint = "https://huggingface.co";

struct Settings {
  std::string endpoint = kPublicEndpoint;  ///< without a slash at the end
  std::string token;                       ///< empty: anonymous. Sent to the endpoint and nowhere else
  std::filesystem::path cache;             ///< holds models--ORG--MODEL folders
  bool offline = false;                    ///< nothing is asked of the network
};

/// Reads HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE, and for the cache HF_HUB_CACHE, HF_HOME (its "hub"), XDG_CACHE_HOME and
/// HOME. Throws Error("hub", ...) if the endpoint is no http or https URL, or a token holds more than one line.
Settings settings_from_environment();

}  // namespace ashlar::hub
