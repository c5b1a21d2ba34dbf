// SPDX-License-Identifier: Apache-2.0
// The same under a grammar: whatever the configuration, plain decoding's tokens; and what comes out is of the grammar.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <thread>

#include "equivalence/configurations.h"
#include "generate/grammar_constraint.h"
#include "golden/golden_data.h"
#include "text/grammar/compile.h"

namespace ashlar::testing {
namespace {

constexpr int32_t kLongest = 160, kAnswer = 40;

struct World {
  explicit World(const char* folder = "pebble-11m")
      : name(folder),
        ops(make_device("cpu", {.threads = is_long() ? 2 : 1, .isa = {}})),  // one: another test has the other core
        model(Model::load(*ops, models_folder() / name, kLongest)),
        tokenizer(Tokenizer::from_file(models_folder() / name / "tokenizer.json")),
        trie(std::make_shared<const grammar::TokenTrie>(tokenizer)) {
    const char* schema = R"({"type": "object", "properties": {"language": {"type": "string", "maxLength": 12}, "year":
        {"type": "integer", "minimum": 1900, "maximum": 2100}, "tags": {"type": "array", "items": {"enum": ["new", "old"]},
        "maxItems": 2}}, "required": ["language", "year"], "additionalProperties": false})";
    for (grammar::Grammar& one : std::vector<grammar::Grammar>{
             grammar::compile_json_schema(parse_json(schema, "schema")), grammar::compile_json_object(),
             grammar::compile_regex("[A-Z][a-z]{3,9}( [a-z]{1,8}){4,9}\\."),
             grammar::compile_tool_calls({{"search", nullptr}, {"open_the_door", nullptr}}, {})}) {
      grammars.push_back(std::make_shared<grammar::TokenGrammar>(std::move(one), trie, stop_ids()));
    }
  }
  const std::vector<int32_t>& stop_ids() const { return model->config().stop_ids; }

  std::string name;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;
  Tokenizer tokenizer;
  std::shared_ptr<const grammar::TokenTrie> trie;
  std::vector<std::shared_ptr<grammar::TokenGrammar>> grammars;
};

std::vector<Request> requests(const World& world, const SamplingParams& sampling) {
  const Json json = read_json_file(data_folder() / "pebble-11m" / "goldens.json");
  std::vector<Request> all;
  for (size_t i = 0; i < 8; ++i) {
    Request request;
    request.prompt = json["cases"][i]["prompt_ids"].get<std::vector<int32_t>>();
    request.sampling = sampling;
    request.sampling.seed += i;
    request.max_tokens = kAnswer;
    request.stop_ids = world.stop_ids();
    request.constraint = std::make_shared<GrammarConstraint>(
        grammar::GrammarMatcher(world.grammars[i % world.grammars.size()]), &world.tokenizer);
    all.push_back(std::move(request));
  }
  return all;
}

// Every other mask is away until a thread of these gives it back at some time.
class LateMasks {
 public:
  LateMasks() : thread_([this] { give_back(); }) {}
  ~LateMasks() {
    done_ = true;
    thread_.join();
  }
  std::shared_ptr<TokenConstraint> delay(std::shared_ptr<TokenConstraint> inner) {
    late_.push_back(std::make_shared<Late>(std::move(inner)));
    return late_.back();
  }
  /// Before the requests are submitted that have them.
  void begin() { begun_ = true; }

 private:
  class Late final : public TokenConstraint {
   public:
    explicit Late(std::shared_ptr<TokenConstraint> inner) : inner_(std::move(inner)) {}
    bool prepare() override {
      if (stage_ == kNew) stage_ = random_() % 2 == 0 ? kAway : kFound;
      return stage_ == kFound;
    }
    bool waits() const override { return stage_ == kAway; }
    void wake_with(std::shared_ptr<WakeSignal> signal) override { signal_ = std::move(signal); }
    bool mask(std::span<uint32_t> allowed) override {
      EXPECT_EQ(stage_, kFound);
      return inner_->mask(allowed);
    }
    void advance(int32_t token) override {
      inner_->advance(token);
      stage_ = kNew;
    }
    int32_t forced(std::span<int32_t> out) override { return inner_->forced(out); }
    void give_back() {
      if (stage_ != kAway) return;
      stage_ = kFound;
      signal_->raise();
    }

   private:
    enum Stage : uint8_t { kNew, kAway, kFound };
    std::shared_ptr<TokenConstraint> inner_;
    std::mt19937 random_;
    std::atomic<Stage> stage_ = kNew;
    std::shared_ptr<WakeSignal> signal_;
  };
  void give_back() {
    std::mt19937 random(3);
    for (; !done_; std::this_thread::sleep_for(std::chrono::microseconds(100))) {
      if (begun_) late_[random() % late_.size()]->give_back();
    }
  }
  std::vector<std::shared_ptr<Late>> late_;
  std::atomic<bool> begun_ = false, done_ = false;
  std::thread thread_;
};

std::map<std::string, SamplingParams> samplings() {
  std::map<std::string, SamplingParams> all;
  all["T=0"] = {};
  SamplingParams& hot = all["T=1"];
  hot.temperature = 1.0;
  hot.seed = 99;
  SamplingParams& penalised = all["T=0.8, penalties, top-p, top-k"];
  penalised.temperature = 0.8;
  penalised.top_p = 0.9;
  penalised.top_k = 40;
  penalised.repetition_penalty = 1.2;
  penalised.seed = 5;
  return all;
}

std::vector<Configuration> configurations() {
  std::vector<Configuration> all;
  for (const int32_t width : {-2, -1, 0, 4, 16}) {  // -2: n-grams, -1: no drafts, 0: the width is chosen
    for (const bool tight : {false, true}) {
      for (const int32_t depth : {1, 2}) {
        Configuration configuration;
        configuration.name =
            "width " + std::to_string(width) + (tight ? ", tight" : "") + ", depth " + std::to_string(depth);
        if (width >= 0)
          configuration.decoder = {
              "dflash", models_folder() / "pebble-11m-dflash", {width, 0, 1, DenoiseSchedule::kCosine}};
        if (width == -2) configuration.decoder.method = "ngram";
        if (width == 0) configuration.decoder = {"dflash", models_folder() / "pebble-11m-dflash", {}};
        configuration.depth = depth;
        configuration.tight_memory = tight;
        if (tight) configuration.prefill_chunk = 13;
        all.push_back(configuration);
      }
    }
  }
  return all;
}

// In the short tier a configuration meets one sampling, its neighbours others.
bool meets(size_t configuration, size_t sampling) { return is_long() || configuration % 3 == sampling; }

// Every answer is of its grammar: whole, or the beginning of one if it ran out of tokens.
void expect_grammatical(const World& world, const std::vector<Answer>& answers, const std::string& where) {
  for (size_t i = 0; i < answers.size(); ++i) {
    ASSERT_NE(answers[i].end.reason, FinishReason::kError) << where << ": " << answers[i].end.error;
    grammar::GrammarMatcher matcher(world.grammars[i % world.grammars.size()]);
    for (const int32_t token : answers[i].tokens) ASSERT_TRUE(matcher.accept(token)) << where;
    EXPECT_TRUE(answers[i].end.reason != FinishReason::kStop || matcher.finished()) << where;
  }
}

// Plain decoding's, of which tests that compare with the same ones compute them once. sampling: one of samplings().
const std::vector<Answer>& one_by_one(const World& world, const std::string& sampling) {
  static std::map<std::pair<std::string, std::string>, std::vector<Answer>> known;
  std::vector<Answer>& answers = known[{world.name, sampling}];
  if (!answers.empty()) return answers;
  const auto engine = open_engine(*world.ops, *world.model, Configuration{}, kLongest);
  for (Request& request : requests(world, samplings().at(sampling)))
    answers.push_back(run_together(*engine, {request})[0]);
  return answers;
}

TEST(ConstrainedEquivalence, EveryConfigurationGivesTheSameTokens) {
  const World world;
  int32_t ended = 0;
  uint64_t preemptions = 0;
  uint64_t accepted = 0;
  const std::vector<Configuration> all = configurations();
  size_t turn = 0;
  for (const auto& [name, sampling] : samplings()) {
    const std::vector<Answer>& expected = one_by_one(world, name);
    expect_grammatical(world, expected, name);
    for (const Answer& answer : expected) ended += answer.end.reason == FinishReason::kStop ? 1 : 0;
    const size_t s = turn++;
    for (size_t c = 0; c < all.size(); ++c) {
      if (!meets(c, s)) continue;
      const Configuration& configuration = all[c];
      const auto engine = open_engine(*world.ops, *world.model, configuration, kLongest);
      const std::vector<Answer> found = run_together(*engine, requests(world, sampling));
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(found[i].tokens, expected[i].tokens) << name << ", " << configuration.name << ", prompt " << i;
        EXPECT_EQ(found[i].end.reason, expected[i].end.reason)
            << name << ", " << configuration.name << ", prompt " << i;
      }
      preemptions += engine->counters().preemptions;
      accepted += engine->counters().accepted;
    }
  }
  std::printf("%d answers ended, %llu preemptions, %llu accepted drafts\n", ended,
              static_cast<unsigned long long>(preemptions), static_cast<unsigned long long>(accepted));
  EXPECT_GT(ended, 0);
  EXPECT_GT(preemptions, 0U);
  EXPECT_GT(accepted, 0U);
}

// A block that was interrupted keeps its tokens under a constraint, and the count of its passes.
TEST(ConstrainedEquivalence, BlocksGiveTheSameTokensInTheSamePasses) {
  const World world("pebble-11m-sdar");
  uint64_t preemptions = 0;
  for (const auto& [name, sampling] : samplings()) {
    const std::vector<Answer>& expected = one_by_one(world, name);
    expect_grammatical(world, expected, name);
    for (const int32_t depth : {1, 2}) {
      Configuration configuration;
      configuration.depth = depth;
      configuration.prefill_chunk = 13;
      configuration.tight_memory = true;
      const auto engine = open_engine(*world.ops, *world.model, configuration, kLongest);
      const std::vector<Answer> found = run_together(*engine, requests(world, sampling));
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(found[i].tokens, expected[i].tokens) << name << ", depth " << depth << ", prompt " << i;
        EXPECT_EQ(found[i].passes, expected[i].passes) << name << ", depth " << depth << ", prompt " << i;
      }
      preemptions += engine->counters().preemptions;
    }
  }
  EXPECT_GT(preemptions, 0U);
}

// Neither what a sequence does nor the passes over its blocks depend on when its masks come.
TEST(ConstrainedEquivalence, MasksThatComeLateChangeNoToken) {
  for (const char* model : {"pebble-11m", "pebble-11m-sdar"}) {
    const World world(model);
    const bool blocks = std::string_view(model) == "pebble-11m-sdar";
    const std::vector<Configuration> ways = configurations();
    size_t turn = 0;
    for (const auto& [name, sampling] : samplings()) {
      const std::vector<Answer>& expected = one_by_one(world, name);
      const size_t s = turn++;
      for (size_t c = 0; c < ways.size(); ++c) {
        const Configuration& configuration = ways[c];
        if (!meets(c, s)) continue;
        if (blocks && !(configuration.decoder.method.empty() && configuration.decoder.drafter.empty())) continue;
        if (!blocks && configuration.tight_memory != (configuration.depth == 2))
          continue;  // both, but not all pairs of them
        LateMasks late;
        std::vector<Request> all = requests(world, sampling);
        for (Request& request : all) request.constraint = late.delay(request.constraint);
        late.begin();
        const auto engine = open_engine(*world.ops, *world.model, configuration, kLongest);
        const std::vector<Answer> found = run_together(*engine, all);
        for (size_t i = 0; i < expected.size(); ++i) {
          EXPECT_EQ(found[i].tokens, expected[i].tokens) << name << ", " << configuration.name << ", prompt " << i;
          EXPECT_EQ(found[i].passes, expected[i].passes) << name << ", " << configuration.name << ", prompt " << i;
          EXPECT_EQ(found[i].end.reason, expected[i].end.reason)
              << name << ", " << configuration.name << ", prompt " << i;
        }
      }
    }
  }
}

TEST(ConstrainedEquivalence, RejectionSamplingStaysWithinTheGrammar) {
  const World world;
  SamplingParams sampling;
  sampling.temperature = 1.0;
  sampling.scheme = SamplingScheme::kRejection;
  const std::vector<Configuration> all = configurations();
  for (size_t c = 0; c < all.size(); ++c) {
    if (!meets(c, 1)) continue;
    const Configuration& configuration = all[c];
    const auto engine = open_engine(*world.ops, *world.model, configuration, kLongest);
    expect_grammatical(world, run_together(*engine, requests(world, sampling)), configuration.name);
  }
}

TEST(ConstrainedEquivalence, AnImpossibleConstraintEndsWithAnError) {
  World world;
  std::vector<std::string> pieces(301);
  pieces[300] = "x";  // the only token, which cannot end what it began
  const auto trie = std::make_shared<const grammar::TokenTrie>(pieces);
  const auto shared =
      std::make_shared<grammar::TokenGrammar>(grammar::compile_regex("x1"), trie, std::vector<int32_t>{});
  const auto engine = open_engine(*world.ops, *world.model, Configuration{}, kLongest);
  std::vector<Request> all = requests(world, {});
  all[1].constraint = std::make_shared<GrammarConstraint>(grammar::GrammarMatcher(shared));
  const std::vector<Answer> answers = run_together(*engine, {all[0], all[1]});
  EXPECT_EQ(answers[1].end.reason, FinishReason::kError);
  EXPECT_NE(answers[1].end.error.find("constraint"), std::string::npos);
  EXPECT_TRUE(answers[1].end.of_request);
  EXPECT_EQ(answers[1].tokens, std::vector<int32_t>{300});
  EXPECT_NE(answers[0].end.reason, FinishReason::kError);
}

TEST(ConstrainedEquivalence, AConstraintsOwnErrorIsTheErrorOfTheAnswer) {
  const World world;
  std::string pattern;  // after letters that each may have been the one, no token's beginning is like another's
  std::string text;
  for (char c = 'a'; c <= 'z'; ++c) pattern += std::string(c == 'a' ? "" : "|") + c + "[ -~]{4000}";
  for (int32_t i = 0; i < 3500; ++i) text += static_cast<char>('a' + i % 26);
  grammar::GrammarMatcher matcher(std::make_shared<grammar::TokenGrammar>(
      grammar::compile_regex("[ -~]*(?:" + pattern + ")"), world.trie, world.stop_ids()));
  ASSERT_TRUE(matcher.accept_bytes(text));
  for (const int32_t depth : {1, 2}) {
    Configuration configuration;
    configuration.depth = depth;
    const auto engine = open_engine(*world.ops, *world.model, configuration, kLongest);
    std::vector<Request> all = requests(world, {});
    all[1].constraint = std::make_shared<GrammarConstraint>(matcher);
    const std::vector<Answer> answers = run_together(*engine, {all[0], all[1]});
    EXPECT_EQ(answers[1].end.reason, FinishReason::kError);
    EXPECT_TRUE(answers[1].end.of_request);
    EXPECT_NE(answers[1].end.error.find("the grammar is too ambiguous after 3500 bytes"), std::string::npos)
        << answers[1].end.error;
    EXPECT_NE(answers[0].end.reason, FinishReason::kError);
  }
}

// Lets anything pass, and throws in its n-th call of one kind.
class Throwing final : public TokenConstraint {
 public:
  enum class In { kMask, kAdvance, kForced };
  Throwing(In in, int32_t n) : in_(in), left_(n) {}
  bool mask(std::span<uint32_t>) override {
    count(In::kMask);
    return false;
  }
  void advance(int32_t) override { count(In::kAdvance); }
  int32_t forced(std::span<int32_t>) override {
    count(In::kForced);
    return 0;
  }

 private:
  void count(In in) {
    if (in == in_ && --left_ == 0) throw std::runtime_error("the constraint broke");
  }
  In in_;
  int32_t left_;
};

// What a constraint throws ends its own request; the others of the step do not notice.
TEST(ConstrainedEquivalence, AConstraintThatThrowsEndsItsOwnRequestAlone) {
  for (const char* name : {"pebble-11m", "pebble-11m-sdar"}) {
    const World world(name);
    const bool blocks = world.model->config().diffusion.has_value();
    const auto free_requests = [&] {
      std::vector<Request> all = requests(world, {});
      for (Request& request : all) request.constraint = nullptr;
      return all;
    };
    Configuration configuration;
    const std::vector<Answer> expected =
        run_together(*open_engine(*world.ops, *world.model, configuration, kLongest), free_requests());
    for (const char* method : {"", "ngram"}) {
      if (blocks && method[0] != '\0') continue;
      configuration.decoder.method = method[0] != '\0' ? method : configuration.decoder.method;
      for (const auto in : {Throwing::In::kMask, Throwing::In::kAdvance, Throwing::In::kForced}) {
        if (in == Throwing::In::kForced && method[0] == '\0') continue;  // not asked
        for (const int32_t depth : {1, 2}) {
          SCOPED_TRACE(std::string(name) + ", " + method + ", depth " + std::to_string(depth));
          configuration.depth = depth;
          const auto engine = open_engine(*world.ops, *world.model, configuration, kLongest);
          std::vector<Request> all = free_requests();
          all[3].constraint = std::make_shared<Throwing>(in, 5);
          const std::vector<Answer> found = run_together(*engine, std::move(all));
          for (size_t i = 0; i < expected.size(); ++i) {
            if (i == 3) continue;
            EXPECT_EQ(found[i].tokens, expected[i].tokens) << i;
            EXPECT_EQ(found[i].end.reason, expected[i].end.reason) << i;
          }
          EXPECT_EQ(found[3].end.reason, FinishReason::kError);
          EXPECT_EQ(found[3].end.error, "the constraint broke");
          EXPECT_LT(found[3].tokens.size(), expected[3].tokens.size());
          if (!blocks) {
            const auto n = static_cast<int64_t>(found[3].tokens.size());
            EXPECT_EQ(found[3].tokens, std::vector(expected[3].tokens.begin(), expected[3].tokens.begin() + n));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace ashlar::testing
