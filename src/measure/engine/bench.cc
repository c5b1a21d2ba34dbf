// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/bench.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "measure/completion.h"
#include "measure/engine/forward_bench.h"
#include "measure/engine/step_bench.h"

namespace ashlar {
namespace {

constexpr int kWarmup = 3;
constexpr double kWarmSeconds = 0.5;  // of one case
constexpr int kPrefillEvery = 5;      // they take long
constexpr int32_t kStepRows = 512;
constexpr int32_t kConcurrentTokens = 64;
constexpr int32_t kWaves = 6;  // answers for each sequence of a level of concurrency
// What is measured however slow the model is.
constexpr int32_t kFewestRounds = 5;
constexpr int32_t kFewestAnswers = 6;
constexpr int32_t kFewestTokens = 16;
constexpr int32_t kFewestConcurrentTokens = 8;

// How many things of `each` seconds fit into the time, but no fewer and no more than these.
int32_t fitting(double seconds, double each, int32_t fewest, int32_t most) {
  if (seconds <= 0 || fewest >= most || each * most <= seconds) return most;
  return std::max(fewest, static_cast<int32_t>(seconds / each));
}

bool has_drafter(const BenchSubject& subject) { return !subject.drafted.drafter.empty(); }

bool is_parallel(const BenchSubject& subject) {
  return has_drafter(subject) || subject.model->config().diffusion.has_value();
}

StepSplit split_of(const StepBench& bench, const TimedCase& timed) {
  StepSplit split;
  const auto part = [&](int64_t StepTimes::*member) {
    std::vector<double> values;
    for (const StepTimes& times : bench.times()) values.push_back(static_cast<double>(times.*member) * 1e-9);
    return median(values);
  };
  split.draft = part(&StepTimes::draft_ns);
  split.verify = part(&StepTimes::verify_ns);
  split.sample = part(&StepTimes::sample_ns);
  split.context = part(&StepTimes::context_ns);
  split.total = timed.median_seconds();
  split.p10_total = timed.p10_seconds();
  split.best_total = timed.best_seconds();
  if (!bench.times().empty())
    split.tokens = static_cast<double>(bench.tokens()) / static_cast<double>(bench.times().size());
  return split;
}

// Seconds of the last of a few runs with what comes before it, or of the first one where that says enough.
double warm_up(const TimedCase& one) {
  double seconds = 0, all = 0;
  for (int i = 0; i < kWarmup && all < kWarmSeconds; ++i) {
    const int64_t begin = now_ns();
    if (one.before) one.before();
    one.run();
    seconds = static_cast<double>(now_ns() - begin) * 1e-9;
    all += seconds;
  }
  return seconds;
}

// Rows of the target, plain steps and cycles, in turns.
void measure_steps(const BenchSubject& subject, const BenchProgress& progress, BenchResult& result) {
  const BenchOptions& options = result.options;
  const std::vector<int32_t> prompt = long_prompt(subject.prompts, options.context);
  StepBench plain(*subject.ops, make_decoder(*subject.model, plain_spec(subject)), prompt, options.max_tokens, 1,
                  kStepRows);
  std::unique_ptr<StepBench> cycle;
  if (is_parallel(subject)) {
    cycle = std::make_unique<StepBench>(*subject.ops, make_decoder(*subject.model, whole_block(subject, result.width)),
                                        prompt, options.max_tokens, result.width, kStepRows);
  }
  const int32_t longest =
      std::max(options.context + options.rows.back(), options.prefills.empty() ? 0 : options.prefills.back());
  ForwardBench forward(*subject.model, long_prompt(subject.prompts, longest), options.context,
                       subject.engine.prompt_rows(*subject.ops).chunk_alone);
  std::vector<TimedCase> cases;
  // Steps come after some of their kind, as in decoding.
  cases.push_back({"plain step", [&] { plain.step(); }, 1, {}, [&] { plain.warm_up(); }});
  if (cycle) cases.push_back({"cycle", [&] { cycle->step(); }, 1, {}, [&] { cycle->warm_up(); }});
  for (const int32_t rows : options.rows) {
    cases.push_back({std::to_string(rows), [&forward, rows] { forward.verify(rows); }, 1, {}});
  }
  for (const int32_t tokens : options.prefills) {
    cases.push_back({std::to_string(tokens), [&forward, tokens] { forward.prefill(tokens); }, kPrefillEvery, {}});
  }
  double round_seconds = 0;
  for (TimedCase& one : cases) {  // warmed up here, so that recorded and timed steps are the same ones
    round_seconds += warm_up(one) / one.every;
    if (progress) progress("warming up", &one - cases.data() + 1, static_cast<int64_t>(cases.size()));
  }
  plain.reset();
  if (cycle) cycle->reset();
  result.rounds = fitting(options.seconds, round_seconds, std::min(kFewestRounds, options.repeat), options.repeat);
  run_interleaved(cases, result.rounds, 0, [&](int round) {
    if (progress) progress("steps", round, result.rounds);
  });
  result.shortened |= result.rounds < options.repeat;
  auto next = cases.begin();
  result.plain = split_of(plain, *next++);
  if (cycle) result.cycle = split_of(*cycle, *next++);
  for (size_t i = 0; i < options.rows.size(); ++i) result.verify.push_back(*next++);
  for (size_t i = 0; i < options.prefills.size(); ++i) result.prefill.push_back(*next++);
}

Request make_request(const BenchSubject& subject, size_t prompt, int32_t max_tokens) {
  Request request;
  request.prompt = subject.prompts[prompt % subject.prompts.size()];
  request.max_tokens = max_tokens;
  request.stop_ids = subject.model->config().stop_ids;
  return request;
}

Request one_at_a_time(Request request) {
  request.width = 1;
  return request;
}

std::vector<int32_t> answer(Engine& engine, Request request, AnswerSpeed& speed) {
  engine.wait_idle();
  const EngineCounters before = engine.counters();
  const int64_t begin = now_ns();
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  Completion done = std::move(complete(engine, std::move(requests), 1).front());
  speed.wall_ns += now_ns() - begin;
  engine.wait_idle();
  const EngineCounters after = engine.counters();
  speed.host_ns += after.host_ns - before.host_ns;
  speed.steps += after.steps - before.steps;
  speed.tokens += static_cast<int64_t>(done.tokens.size());
  speed.tally.add(done.stats);
  return std::move(done.tokens);
}

// The prompts, over and over: `sequences` at a time, a new one as soon as another ends, so that only the last of many
// answers run with fewer others.
double concurrent_speed(const BenchSubject& subject, Engine& engine, const Concurrency& level, bool plain) {
  std::vector<Request> requests;
  for (int32_t i = 0; i < level.answers; ++i) {
    requests.push_back(make_request(subject, static_cast<size_t>(i), level.max_tokens));
    if (plain) requests.back().width = 1;
  }
  const int64_t begin = now_ns();
  int64_t tokens = 0;
  for (const Completion& done : complete(engine, std::move(requests), level.sequences)) {
    tokens += done.stats.generated_tokens;
  }
  return static_cast<double>(tokens) * 1e9 / static_cast<double>(now_ns() - begin);
}

// Memory for what is run at once and for one sequence of full length, which an engine insists on: several engines live
// side by side.
EngineOptions engine_options(const BenchSubject& subject, const BenchOptions& options) {
  EngineOptions engine = subject.engine;
  engine.prefix_cache = false;  // the same prompts come again
  if (!options.concurrency.empty()) engine.max_sequences = std::max(engine.max_sequences, options.concurrency.back());
  size_t longest = 0;
  for (const auto& prompt : subject.prompts) longest = std::max(longest, prompt.size());
  const int64_t most = static_cast<int64_t>(longest) + std::max(options.max_tokens, kConcurrentTokens) + kMaxWidth;
  const int64_t tokens = std::max<int64_t>(most * engine.max_sequences, subject.model->max_positions());
  engine.kv_pages = static_cast<int32_t>(tokens / kPageTokens + 1 + engine.max_sequences);
  return engine;
}

// Engines of one model, used in turns and never at once. The plain one is made first: the others reserve at least as
// many rows, and all share the model's activations.
struct Engines {
  std::unique_ptr<Engine> plain, drafted, block;

  Engines(const BenchSubject& subject, const BenchResult& result, std::shared_ptr<const SimulatedDrafts> simulated) {
    const EngineOptions options = engine_options(subject, result.options);
    const auto make = [&](DecoderSpec spec) {
      spec.simulated = simulated;
      if (simulated) spec.ngram = NgramUse::kNever;  // drafts of the drafter alone have the quality asked for
      return std::make_unique<Engine>(*subject.ops, make_decoder(*subject.model, spec), options);
    };
    plain = make(plain_spec(subject));
    if (result.has_drafted_answers()) drafted = make(subject.drafted);
    if (result.adapts) block = make(whole_block(subject, result.width));
  }
};

// Whole answers alone, plain and drafted in turns.
void measure_answers(const BenchSubject& subject, const Engines& engines, const BenchProgress& progress,
                     BenchResult& result) {
  const auto prompts = static_cast<int32_t>(subject.prompts.size());
  // At worst every token takes a step.
  const double step_seconds = std::max(result.plain.total, result.cycle.total);
  const double token_seconds =
      result.plain.total + (engines.drafted ? step_seconds : 0) + (engines.block ? step_seconds : 0);
  const int32_t most = std::max(1, result.options.repeat / 20) * prompts;
  const int32_t fewest = std::min(kFewestAnswers, most);
  result.max_tokens = fitting(result.options.seconds, fewest * token_seconds,
                              std::min(kFewestTokens, result.options.max_tokens), result.options.max_tokens);
  result.answers = fitting(result.options.seconds, result.max_tokens * token_seconds, fewest, most);
  result.shortened |= result.answers < most || result.max_tokens < result.options.max_tokens;
  for (int32_t i = 0; i < result.answers; ++i) {
    const Request request = make_request(subject, i % prompts, result.max_tokens);
    const std::vector<int32_t> expected = answer(*engines.plain, one_at_a_time(request), result.plain_answers);
    const auto compare = [&](const std::unique_ptr<Engine>& engine, AnswerSpeed& speed) {
      if (!engine) return;
      ++result.compared;
      if (answer(*engine, request, speed) == expected) ++result.identical;
    };
    compare(engines.drafted, result.drafted_answers);
    compare(engines.block, result.block_answers);
    if (progress) progress("answers", i + 1, result.answers);
  }
}

// A level of concurrency whose round takes `seconds` at most, where its answers come at the speed of single ones.
Concurrency plan_concurrency(const BenchSubject& subject, const BenchResult& result, int32_t sequences,
                             double seconds) {
  const auto prompts = static_cast<int32_t>(subject.prompts.size());
  const double token_seconds = 1 / std::max(result.plain_answers.tokens_per_second(), 1e-3);
  const int32_t most = (std::max(prompts, sequences * kWaves) + prompts - 1) / prompts * prompts;
  Concurrency level;
  level.sequences = sequences;
  level.max_tokens = fitting(seconds, sequences * token_seconds, kFewestConcurrentTokens, kConcurrentTokens);
  level.answers = fitting(seconds, level.max_tokens * token_seconds, std::min(sequences, most), most);
  return level;
}

void measure_concurrency(const BenchSubject& subject, const Engines& engines, const BenchProgress& progress,
                         BenchResult& result) {
  const auto levels = static_cast<double>(result.options.concurrency.size());
  const double seconds = result.options.seconds / (levels * (engines.drafted ? 2 : 1));
  int64_t done = 0;
  for (const int32_t sequences : result.options.concurrency) {
    Concurrency level = plan_concurrency(subject, result, sequences, seconds);
    const Concurrency whole = plan_concurrency(subject, result, sequences, 0);
    const bool fits = level.answers == whole.answers && level.max_tokens == whole.max_tokens;
    result.shortened |= !fits;
    const int32_t rounds = fits ? std::max(1, result.options.repeat / 20) : 1;
    std::vector<double> plain, drafted;
    for (int32_t round = 0; round < rounds; ++round) {
      plain.push_back(concurrent_speed(subject, *engines.plain, level, true));
      if (engines.drafted) drafted.push_back(concurrent_speed(subject, *engines.drafted, level, false));
    }
    level.plain = median(plain);
    level.drafted = median(drafted);
    result.concurrency.push_back(level);
    if (progress) progress("sequences at once", ++done, static_cast<int64_t>(levels));
  }
}

// How long the device waits for the host in steps of one answer, while an engine plans ahead.
void measure_work(const BenchSubject& subject, const Engines& engines, BenchResult& result) {
  const std::unique_ptr<DeviceProbe> probe = subject.ops->device_probe(1);
  if (!probe) return;
  const auto of = [&](Engine& engine, bool plain) {
    return measure_step_work(*probe, std::max(result.max_tokens, kConcurrentTokens),
                             [&](int32_t index, int32_t tokens) {
                               const Request request = make_request(subject, static_cast<size_t>(index), tokens);
                               AnswerSpeed speed;
                               answer(engine, plain ? one_at_a_time(request) : request, speed);
                               return static_cast<int64_t>(speed.steps);
                             });
  };
  result.plain_work = of(*engines.plain, true);
  if (const auto& cycles = engines.block ? engines.block : engines.drafted) result.cycle_work = of(*cycles, false);
}

// The answers that drafts are to be made of.
void learn_answers(const BenchSubject& subject, Engine& plain, const BenchOptions& options,
                   SimulatedDrafts& simulated) {
  std::vector<Request> requests;
  for (size_t i = 0; i < subject.prompts.size(); ++i)
    requests.push_back(one_at_a_time(make_request(subject, i, std::max(options.max_tokens, kConcurrentTokens))));
  const std::vector<Completion> answers =
      complete(plain, std::move(requests), options.concurrency.empty() ? 1 : options.concurrency.back());
  for (size_t i = 0; i < answers.size(); ++i) simulated.add(subject.prompts[i], answers[i].tokens);
}

void measure_engines(const BenchSubject& subject, const std::shared_ptr<SimulatedDrafts>& simulated,
                     const BenchProgress& progress, BenchResult& result) {
  const Engines engines(subject, result, simulated);
  if (simulated) learn_answers(subject, *engines.plain, result.options, *simulated);
  measure_answers(subject, engines, progress, result);
  measure_concurrency(subject, engines, progress, result);
  measure_work(subject, engines, result);
}

WeightBytes weight_bytes(const BenchSubject& subject) {
  const Model& model = *subject.model;
  const int64_t table = static_cast<int64_t>(model.embedding().bytes());
  WeightBytes bytes;
  // An embedding that is not also the head is looked up, not read.
  bytes.plain_step = static_cast<int64_t>(model.weight_bytes()) - (model.config().tied_head ? 0 : table);
  bytes.drafter = drafter_bytes_read(model, subject.drafted);
  return bytes;
}

void check_options(const BenchSubject& subject, BenchOptions& options) {
  if (subject.prompts.empty()) throw Error("bench", "there are no prompts to measure with");
  const int32_t longest = subject.model->max_positions();
  const int32_t needed = options.context + std::max(options.rows.back(), options.max_tokens + kMaxWidth);
  if (needed > longest) {
    throw Error("bench", "the context holds " + std::to_string(longest) + " tokens; " + std::to_string(needed) +
                             " are needed for --context " + std::to_string(options.context) + " and --max-tokens " +
                             std::to_string(options.max_tokens));
  }
  std::erase_if(options.prefills, [longest](int32_t tokens) { return tokens > longest; });
}

}  // namespace

DecoderSpec plain_spec(const BenchSubject& subject) {
  DecoderSpec spec;
  spec.block = subject.drafted.block;
  return spec;
}

std::vector<int32_t> long_prompt(const std::vector<std::vector<int32_t>>& prompts, int32_t length) {
  std::vector<int32_t> ids;
  for (size_t i = 0; ids.size() < static_cast<size_t>(length); ++i) {
    const std::vector<int32_t>& next = prompts[i % prompts.size()];
    ids.insert(ids.end(), next.begin(), next.end());
  }
  return {ids.end() - length, ids.end()};
}

DecoderSpec whole_block(const BenchSubject& subject, int32_t width) {
  DecoderSpec spec = subject.drafted;
  spec.dflash.width = width;
  spec.ngram = NgramUse::kNever;
  return spec;
}

BenchResult run_bench(const BenchSubject& subject, const BenchOptions& options, const BenchProgress& progress) {
  BenchResult result;
  result.options = options;
  check_options(subject, result.options);
  result.bytes = weight_bytes(subject);
  const int32_t widest = make_decoder(*subject.model, subject.drafted)->max_width();
  result.ngrams = !is_parallel(subject) && widest > 1;
  if (is_parallel(subject)) {
    result.width = widest;
    result.adapts = has_drafter(subject) && subject.drafted.dflash.width == 0;
    if (!has_drafter(subject)) result.block = result.width;
  }
  std::shared_ptr<SimulatedDrafts> simulated;
  if (options.accept_length > 0) {
    simulated = std::make_shared<SimulatedDrafts>(options.accept_length, has_drafter(subject) ? result.width : 1);
  }
  Ops& ops = *subject.ops;
  if (progress) progress("memory bandwidth", 0, 3);
  const int64_t beyond_caches = bandwidth_buffer_bytes(options.available_memory);
  result.memory = measure_read_bandwidth(ops, beyond_caches, options.bandwidth_seconds);
  if (progress) progress("memory bandwidth", 1, 3);
  result.weights = measure_read_bandwidth(ops, result.bytes.plain_step, options.bandwidth_seconds);
  if (progress) progress("memory bandwidth", 2, 3);
  result.copies = measure_copy_bandwidth(ops, beyond_caches, options.bandwidth_seconds);
  result.products = measure_products(ops, options.bandwidth_seconds);
  measure_steps(subject, progress, result);
  measure_engines(subject, simulated, progress, result);
  return result;
}

}  // namespace ashlar
