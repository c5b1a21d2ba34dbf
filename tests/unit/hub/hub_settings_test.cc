// SPDX-License-Identifier: Apache-2.0
#include "hub/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"

namespace ashlar::hub {
namespace {

class HubSettings : public testing::Test {
 protected:
  HubSettings() {
    for (const char* name : {"HF_ENDPOINT", "HF_TOKEN", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE",
                             "HF_HUB_OFFLINE", "XDG_CACHE_HOME"}) {
      unsetenv(name);
    }
    setenv("HOME", "/home/someone", 1);
  }
};

TEST_F(HubSettings, CacheFolderByTheToolsOwnRules) {
  EXPECT_EQ(settings_from_environment().cache, "/home/someone/.cache/huggingface/hub");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(settings_from_environment().cache, "/xdg/huggingface/hub");
  setenv("HF_HOME", "~/hf", 1);
  EXPECT_EQ(settings_from_environment().cache, "/home/someone/hf/hub");
  setenv("HF_HUB_CACHE", "/cache", 1);
  EXPECT_EQ(settings_from_environment().cache, "/cache");
}

TEST_F(HubSettings, EndpointTokenAndOffline) {
  Settings settings = settings_from_environment();
  EXPECT_EQ(settings.endpoint, kPublicEndpoint);
  EXPECT_EQ(settings.token, "");
  EXPECT_FALSE(settings.offline);
  setenv("HF_ENDPOINT", " http://localhost:8000// ", 1);
  setenv("HF_TOKEN", "hf_secret\n", 1);
  setenv("HF_HUB_OFFLINE", "True", 1);
  settings = settings_from_environment();
  EXPECT_EQ(settings.endpoint, "http://localhost:8000");
  EXPECT_EQ(settings.token, "hf_secret");
  EXPECT_TRUE(settings.offline);
  setenv("HF_HUB_OFFLINE", "0", 1);
  EXPECT_FALSE(settings_from_environment().offline);
}

TEST(WithoutPassword, LeavesWhatIsNone) {
  for (const auto& [url, shown] : std::vector<std::pair<std::string, std::string>>{
           {"https://huggingface.co", "https://huggingface.co"},
           {"https://me:secret@hub.example:8443/x", "https://hub.example:8443/x"},
           {"https://me@hub.example", "https://hub.example"},
           {"https://me:a@b/c?d#e@hub.example", "https://hub.example"},
           {"ftp://me:secret@hub", "ftp://hub"},
           {"me:secret@hub.example", "hub.example"},
           {"https://@", "https://"},
           {"", ""}}) {
    EXPECT_EQ(without_password(url), shown);
  }
}

TEST_F(HubSettings, RefusesWhatWouldBeMisused) {
  setenv("HF_ENDPOINT", "ftp://me:secret@example", 1);
  try {
    settings_from_environment();
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                testing::AllOf(testing::HasSubstr("ftp://example"), testing::Not(testing::HasSubstr("secret"))));
  }
  setenv("HF_ENDPOINT", "ftp://example", 1);
  EXPECT_THROW(settings_from_environment(), Error);
  unsetenv("HF_ENDPOINT");
  setenv("HF_TOKEN", "a\r\nX-Other: b", 1);
  EXPECT_THROW(settings_from_environment(), Error);
}

}  // namespace
}  // namespace ashlar::hub
