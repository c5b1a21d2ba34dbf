// The promise of the engine with a drafter that chooses among candidates: its drafts, as any, change no token.
// Invariant: same-tokens-by-every-configuration.

#include <cstdlib>

#include "base/error.h"
#include "equivalence/dflash2_drafter.h"
#include "equivalence/suite.h"

namespace ashlar::testing {
namespace {

std::vector<Configuration> methods(const std::filesystem::path& drafter) {
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
  add("all branches", {.width = 16, .branches = 15});
  add("width chosen", {}).decoder.ngram = NgramUse::kNever;
  add("n-gram drafts wherever there are any", {}).decoder.ngram = NgramUse::kAlways;
  add("window of 32", {.width = 16, .window = 32});
  return all;
}

TEST(Dflash2, GivesTheSameTokensByEveryConfiguration) {
  const Dflash2Drafter drafter;
  const std::vector<Configuration> all = suite::in_every_way(methods(drafter.folder()));
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
  EXPECT_GE(suite.comparisons, 900);
  EXPECT_EQ(suite.mismatches, 0);
  EXPECT_GT(suite.preemptions, 0U);
  EXPECT_GT(suite.accepted, suite.ngram_accepted);
}

TEST(Dflash2, FillsItsBlockInOnePass) {
  const Dflash2Drafter drafter;
  const auto ops = make_device("ref", {});
  const auto model = Model::load(*ops, models_folder() / "pebble-11m", 64);
  try {
    make_decoder(*model, {"dflash", drafter.folder(), {.passes = 2}});
    FAIL() << "made";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("2 denoising passes asked for; this drafter chooses among candidates"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace ashlar::testing
