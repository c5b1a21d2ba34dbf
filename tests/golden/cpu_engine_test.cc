// SPDX-License-Identifier: Apache-2.0
// The engine on the cpu device, with every instruction set this machine has, against float32 answers of PyTorch.

#include "golden/engine_answers.h"

namespace ashlar::testing {
namespace {

class PebbleOnCpu : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Isa, PebbleOnCpu, ::testing::ValuesIn(isa_choices()));

TEST_P(PebbleOnCpu, AnswersAndAcceptLengthsAgree) {
  const auto ops = make_device("cpu", {.threads = 2, .isa = GetParam()});
  expect_answers_of_pytorch(*ops, {.near_tie = 0.05, .most_near_ties = 2, .chain_error = 0.02, .tree_gain = 1.15});
}

}  // namespace
}  // namespace ashlar::testing
