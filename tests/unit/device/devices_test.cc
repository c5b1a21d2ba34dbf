// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "device/device.h"
#include "device/train_ops.h"

namespace ashlar {
namespace {

/// What a device says that is asked for something it does not have. The question comes before anything of a GPU is
/// looked for, so that a machine without one answers it, too.
struct Refused {
  std::string device;
  DeviceOptions options;
  std::string tag, asked, instead;
};

class SettingsOfDevices : public ::testing::TestWithParam<Refused> {};

TEST_P(SettingsOfDevices, AreRefusedWhereTheyWouldChangeNothing) {
  const auto& [device, options, tag, asked, instead] = GetParam();
  const std::vector<std::string> names = device_names();
  if (std::find(names.begin(), names.end(), device) == names.end()) GTEST_SKIP() << "a build without " << device;
  try {
    make_device(device, options);
    FAIL() << "nothing was said";
  } catch (const Error& error) {
    const std::string words = error.what();
    EXPECT_EQ(words.rfind("[" + tag + "] ", 0), 0U) << words;
    for (const std::string& part : {device, asked, instead}) EXPECT_NE(words.find(part), std::string::npos) << words;
  }
}

DeviceOptions with(KvDType dtype) { return {.threads = 1, .isa = {}, .kv_dtype = dtype}; }
DeviceOptions with(KeptWeights weights) { return {.threads = 1, .isa = {}, .weights = weights}; }
DeviceOptions with(const std::string& isa) { return {.threads = 1, .isa = isa}; }

INSTANTIATE_TEST_SUITE_P(Devices, SettingsOfDevices,
                         ::testing::Values(Refused{"cuda", with(KvDType::kF32), "kv-dtype", "f32", "bf16, int8, tq4"},
                                           Refused{"ref", with(KeptWeights::kInt8), "weights", "int8", "auto, exact"},
                                           Refused{"cuda", with("avx2"), "isa", "avx2", "cpu"},
                                           Refused{"ref", with("avx2"), "isa", "avx2", "cpu"}),
                         [](const auto& one) {
                           return one.param.device + one.param.tag.substr(0, 2) + one.param.asked;
                         });

TEST(Devices, RefuseInstructionSetsOfTrainersToo) { EXPECT_THROW(make_train_ops("ref", with("avx2")), Error); }

TEST(Devices, TakeWhatTheyHave) {
  for (const NamedKvDType& named : kKvDTypes) {
    EXPECT_NO_THROW(make_device("cpu", with(named.dtype)));
    EXPECT_NO_THROW(make_device("ref", with(named.dtype)));
  }
  EXPECT_NO_THROW(make_device("ref", with(KeptWeights::kExact)));
  EXPECT_NO_THROW(make_device("cpu", with(isa_choices().front())));
}

/// `ref` stands for a GPU: it lacks what one lacks, too.
TEST(ChoosesADevice, OneThatIsThereCanBeUsedAndHasWhatIsAskedFor) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  const FoundDevice usable{"ref", "", "a big GPU", ""}, old{"ref", "it has compute capability 7.5", "an old GPU", ""},
      none{"ref", "no driver is installed here", "", ""};
  const auto choose = [](const std::vector<FoundDevice>& there, const DeviceOptions& options = {}) {
    const DeviceChoice chosen = choose_among(there, options);
    return std::pair(chosen.name, chosen.note);
  };
  using Choice = std::pair<std::string, std::string>;
  EXPECT_EQ(choose({}), (Choice{"cpu", ""}));
  EXPECT_EQ(choose({none}), (Choice{"cpu", ""}));
  EXPECT_EQ(choose({usable}), (Choice{"ref", "ref: a big GPU found (--device cpu: the processor)"}));
  EXPECT_EQ(choose({old, usable}).first, "ref");
  EXPECT_EQ(choose({old}), (Choice{"cpu", "cpu: an old GPU cannot be used: it has compute capability 7.5"}));
  EXPECT_EQ(choose({usable}, {.threads = 3, .isa = {}}).first, "ref");
  for (const DeviceOptions& options : {with("avx2"), with(KeptWeights::kInt8)}) {
    EXPECT_EQ(choose({usable}, options).first, "cpu");
    EXPECT_THAT(choose({usable}, options).second, AllOf(HasSubstr("asks for"), HasSubstr("--device ref: a big GPU")));
  }
}

TEST(ChoosesADevice, OnlyWhereItIsLeftToTheMachine) {
  EXPECT_EQ(choose_device("ref", {}).name, "ref");
  EXPECT_EQ(choose_device("ref", {}).note, "");
  EXPECT_THROW(choose_device("abacus", {}), Error);
  const std::vector<FoundDevice> there = find_devices(true);
  EXPECT_EQ(choose_device(kAutoDevice, {}).name, choose_among(there, {}).name);
  EXPECT_EQ(choose_device(kAutoDevice, with(isa_choices().front())).name, "cpu");
  for (const FoundDevice& found : there) EXPECT_NE(found.problem.empty(), found.facts.empty()) << found.name;
}

}  // namespace
}  // namespace ashlar
