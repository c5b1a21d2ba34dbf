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

}  // namespace
}  // namespace ashlar
