// SPDX-License-Identifier: Apache-2.0
// The promise of the engine for models that fill blocks, on the cpu device.

#include "equivalence/block_suite.h"

namespace ashlar::testing {
namespace {

TEST(BlockEquivalence, EveryConfigurationGivesTheSameTokens) {
  const auto one = make_device("cpu", {.threads = 1, .isa = {}});
  const auto two = make_device("cpu", {.threads = 2, .isa = {}});
  blocks::expect_same_by_every_configuration(*one, *two);
}

}  // namespace
}  // namespace ashlar::testing
