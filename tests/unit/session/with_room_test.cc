// SPDX-License-Identifier: Apache-2.0
#include "session/with_room.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/memory_budget.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int64_t kGiB = int64_t{1} << 30;

/// A device without room for a model of 4 GiB of weights, unless it is the host's processor: that one has a model that
/// fits anywhere.
class Device {
 public:
  Device(int64_t free, const std::string& owner, double bytes_a_number = 2) {
    situation_.plan.layout.add_paged("target", kPageTokens * 1024);
    situation_.needs = {4 * kGiB, kGiB / 8, 0, 4 * kGiB, static_cast<int64_t>(4 * kGiB / bytes_a_number)};
    situation_.wishes = {0, 512, false, 1};
    situation_.available.bytes = free;
    situation_.available.owner = owner;
    situation_.available.total = 8 * kGiB;
  }
  std::unique_ptr<Session> open(SessionOptions options) {
    options.model = std::string(ASHLAR_SOURCE_DIR) + "/models/pebble-11m";
    options.drafter = "none";
    options.quiet = true;
    return with_room(options, [this](const SessionOptions& how) {
      devices.push_back(how.device);
      if (how.device != "cpu") budget_memory(situation_);
      if (host_is_full) {
        MemorySituation host = situation_;
        host.available.owner.clear();
        budget_memory(host);
      }
      return std::make_unique<Session>(how);
    });
  }
  void wish(const MemoryWishes& wishes) { situation_.wishes = wishes; }

  std::vector<std::string> devices;
  bool host_is_full = false;

 private:
  MemorySituation situation_;
};

SessionOptions with(const std::string& device, KeptWeights weights = KeptWeights::kAuto) {
  SessionOptions options;
  options.device = device;
  options.device_options.weights = weights;
  return options;
}

std::string first_note(int64_t free, KeptWeights weights = KeptWeights::kAuto, double bytes_a_number = 2) {
  Device gpu(free, "the GPU", bytes_a_number);
  const std::unique_ptr<Session> session = gpu.open(with(kAutoDevice, weights));
  EXPECT_EQ(gpu.devices, (std::vector<std::string>{kAutoDevice, "cpu"}));
  EXPECT_EQ(session->ops().name(), "cpu");
  return session->notes().empty() ? "" : session->notes().front();
}

TEST(WithRoom, TheProcessorTakesWhatADeviceHasNoRoomFor) {
  EXPECT_THAT(first_note(4 * kGiB), HasSubstr("cpu: the model needs 4."));
  EXPECT_THAT(first_note(4 * kGiB), HasSubstr(" and 4.00 GiB of the GPU's memory are free"));
}

TEST(WithRoom, SaysWhatWouldFit) {
  EXPECT_THAT(first_note(4 * kGiB), HasSubstr("; --weights int8 or int4 would fit there"));
  EXPECT_THAT(first_note(4 * kGiB, KeptWeights::kInt8, 1.13), HasSubstr("; --weights int4 would fit there"));
  EXPECT_THAT(first_note(4 * kGiB, KeptWeights::kInt4, 0.75), Not(HasSubstr("--weights")));
  EXPECT_THAT(first_note(5 * kGiB / 2), HasSubstr("; --weights int4 would fit there"));
  EXPECT_THAT(first_note(kGiB), Not(HasSubstr("--weights")));
  // Of files: blocks of 8 and of 4 bits.
  EXPECT_THAT(first_note(4 * kGiB, KeptWeights::kAuto, 1.06), HasSubstr("; --weights int4 would fit there"));
  EXPECT_THAT(first_note(4 * kGiB, KeptWeights::kAuto, 0.56), Not(HasSubstr("--weights")));
}

// The model fits into 8 GiB, what is asked for does not; into 4 GiB the model does not, either.
TEST(WithRoom, ACacheThatWasAskedForMovesNoModel) {
  constexpr int64_t kTokens = int64_t{64} << 20;  // of 1 KiB each
  for (const MemoryWishes& wishes : {MemoryWishes{64 * kGiB, 512, false, 1}, MemoryWishes{0, kTokens, true, 1}}) {
    Device large(8 * kGiB, "the GPU"), small(4 * kGiB, "the GPU");
    large.wish(wishes);
    EXPECT_THROW(large.open(with(kAutoDevice)), NoRoom);
    EXPECT_EQ(large.devices, std::vector<std::string>{kAutoDevice});
    small.wish(wishes);
    EXPECT_EQ(small.open(with(kAutoDevice))->ops().name(), "cpu");
  }
}

TEST(WithRoom, SaysWhatBothLack) {
  Device gpu(4 * kGiB, "the GPU");
  gpu.host_is_full = true;
  try {
    gpu.open(with(kAutoDevice));
    FAIL() << "there is no room";
  } catch (const NoRoom& error) {
    EXPECT_TRUE(error.available.owner.empty());
    EXPECT_THAT(error.what(), HasSubstr("; 4.00 GiB are free"));
    EXPECT_THAT(error.what(), HasSubstr("; nor has the GPU room: the model needs 4."));
    EXPECT_THAT(error.what(), HasSubstr("; --weights int8 or int4 would fit there"));
  }
}

TEST(WithRoom, ADeviceThatIsNamedStays) {
  Device gpu(kGiB, "the GPU");
  EXPECT_THROW(gpu.open(with("cuda")), NoRoom);
  EXPECT_EQ(gpu.devices, std::vector<std::string>{"cuda"});
}

TEST(WithRoom, TheHostsOwnMemoryHasNothingToFallBackTo) {
  Device host(kGiB, "");
  EXPECT_THROW(host.open(with(kAutoDevice)), NoRoom);
  EXPECT_EQ(host.devices, std::vector<std::string>{kAutoDevice});
}

TEST(WithRoom, WhatFitsIsLeftAlone) {
  Device gpu(64 * kGiB, "the GPU");
  gpu.open(with(kAutoDevice));
  EXPECT_EQ(gpu.devices, std::vector<std::string>{kAutoDevice});
}

}  // namespace
}  // namespace ashlar
