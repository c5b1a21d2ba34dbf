// The promise of the engine with drafters whose drafts know the one before them, DFlash2 and DSpark: as any, they
// change no token. Invariant: same-tokens-by-every-configuration.

#include <cstdlib>

#include "base/error.h"
#include "equivalence/head_drafter.h"
#include "equivalence/suite.h"

namespace ashlar::testing {
namespace {

std::vector<Configuration> methods(const std::filesystem::path& drafter, bool has_trees) {
  std::vector<Configuration> all;
  const auto add = [&](const std::string& name, const DflashOptions& options) -> Configuration& {
    Configuration& configuration = all.emplace_back();
    configuration.name = name;
    configuration.decoder = {"dflash", drafter, options};
    return configuration;
  };
  add("width 16", {.width = 16});
  add("width 16 in a chain", {.width = 16, .branches = 0});
  add("width 5 in a chain", {.width = 5, .branches = 0});
  if (has_trees) add("all branches", {.width = 16, .branches = 15});
  add("width chosen", {}).decoder.ngram = NgramUse::kNever;
  add("n-gram drafts wherever there are any", {}).decoder.ngram = NgramUse::kAlways;
  add("window of 32", {.width = 16, .window = 32});
  return all;
}

class Heads : public ::testing::TestWithParam<std::string> {};

TEST_P(Heads, GiveTheSameTokensByEveryConfiguration) {
  const HeadDrafter drafter(GetParam());
  const std::vector<Configuration> all = suite::in_every_way(methods(drafter.folder(), GetParam() == "dflash2"));
  const auto one = make_device("cpu", {.threads = 1, .isa = {}});
  suite::EquivalenceSuite suite(*one);
  for (const int32_t threads : {1, 2}) {
    const auto ops = make_device("cpu", {.threads = threads, .isa = {}});
    // Each configuration meets one of the four samplings with one of the numbers of threads, or all in the long tier.
    suite.run(
        *ops, std::to_string(threads) + " threads",
        [threads](size_t configuration, size_t sampling) {
          const size_t turn = configuration + configuration / 8;
          const bool here = turn % 2 == static_cast<size_t>(threads - 1) && sampling == turn / 2 % 4;
          return std::getenv("ASHLAR_LONG_TESTS") != nullptr || here;
        },
        all);
  }
  suite.print();
  EXPECT_GE(suite.comparisons, 800);
  EXPECT_EQ(suite.mismatches, 0);
  EXPECT_GT(suite.preemptions, 0U);
  EXPECT_GT(suite.accepted, suite.ngram_accepted);
}

INSTANTIATE_TEST_SUITE_P(OnCpu, Heads, ::testing::Values("dflash2", "dspark"),
                         [](const auto& test) { return test.param; });

TEST(HeadOptions, RefuseWhatTheyCannotDo) {
  const auto ops = make_device("ref", {});
  const auto model = Model::load(*ops, models_folder() / "pebble-11m", 64);
  const auto refuse = [&](const char* head, const DflashOptions& options, const char* words) {
    const HeadDrafter drafter(head);
    try {
      make_decoder(*model, {"dflash", drafter.folder(), options});
      ADD_FAILURE() << head << ": made";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refuse("dflash2", {.passes = 2}, "2 denoising passes asked for; this drafter chooses among candidates");
  refuse("dspark", {.passes = 2}, "2 denoising passes asked for; this drafter chooses drafts one after the other");
  refuse("dspark", {.branches = 4}, "4 branches asked for; this drafter chooses drafts one after the other: a chain");
}

}  // namespace
}  // namespace ashlar::testing
