// SPDX-License-Identifier: Apache-2.0
// What the engine says where it cannot start.

#include <gtest/gtest.h>

#include "base/error.h"
#include "device/device.h"
#include "engine/engine.h"
#include "scenario/fake_decoder.h"

namespace ashlar::testing {
namespace {

TEST(Start, SaysWhenPagesCannotHoldOneSequence) {
  const auto ops = make_device("ref", {});
  EngineOptions options;
  options.kv_pages = 3;
  try {
    Engine engine(*ops, std::make_unique<FakeDecoder>(1, 100), options);
    FAIL() << "started";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("needs 7"), std::string::npos) << error.what();
  }
}

TEST(Start, TakesTooLittleMemoryAtItsWord) {
  const auto ops = make_device("ref", {});
  EngineOptions options;
  options.kv_bytes = 1;  // less than a page
  EXPECT_THROW(Engine(*ops, std::make_unique<FakeDecoder>(1, 100), options), Error);
}

}  // namespace
}  // namespace ashlar::testing
