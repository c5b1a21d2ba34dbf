// SPDX-License-Identifier: Apache-2.0
// device_speed [--sample T[:P[:K]]] [--rejection] [--scores] [--chunk ROWS] [--kv-dtype NUMBERS] DEVICE[:WEIGHTS]
// MODEL[+DRAFTER] PROMPT TOKENS SEQUENCES...: how fast a device answers, by the engine alone, so that a program without
// other libraries runs on a bare machine. For each number of SEQUENCES that many prompts of PROMPT random tokens are
// answered with one token, which says how fast prompts are, and, now that their pages are cached and all sequences
// decode together, with one token and with TOKENS, whose difference is decoding; three times, by plain decoding and, if
// there is a drafter, in cycles of its whole block. Prints medians: prompt tokens a second, and milliseconds a step.
// WEIGHTS: auto, exact, int8, int4 or fp8. Greedy, or with --sample at temperature T with top-p P and top-k K, with
// --rejection by classic speculative rejection; with --scores prompts come with log-probabilities of their tokens and 5
// others each. --chunk: most prompt rows of a step, of one sequence and of all. A model that decodes in blocks has them
// for steps.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "base/clock.h"
#include "decode/registry.h"
#include "device/device.h"
#include "device/weights/kept_weights.h"
#include "engine/engine.h"
#include "engine/event_queue.h"

namespace {

using namespace ashlar;

struct Asked {
  int32_t chunk = 0;  ///< most prompt rows of a step; 0: the default
  SamplingParams sampling;
  bool scores = false;
};

struct Run {
  double seconds = 0;
  double steps = 0;  ///< of the sequence that took most
};

void read_sampling(const char* text, SamplingParams& params) {
  std::sscanf(text, "%lf:%lf:%d", &params.temperature, &params.top_p, &params.top_k);
}

Run answer(Engine& engine, const Asked& asked, int32_t sequences, int32_t prompt, int32_t tokens, int32_t vocab,
           uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::shared_ptr<EventQueue>> queues;
  const int64_t begin = now_ns();
  for (int32_t s = 0; s < sequences; ++s) {
    Request request;
    for (int32_t i = 0; i < prompt; ++i) {
      request.prompt.push_back(4 + static_cast<int32_t>(random() % static_cast<uint32_t>(vocab - 4)));
    }
    request.max_tokens = tokens;
    request.sampling = asked.sampling;
    if (asked.scores) request.prompt_logprobs = {1, 5};
    request.sampling.seed = seed + static_cast<uint32_t>(s);
    queues.push_back(std::make_shared<EventQueue>());
    request.sink = queues.back();
    const Result<RequestId> id = engine.submit(std::move(request));
    if (!id.ok()) throw std::runtime_error(id.error());
  }
  double steps = 0;
  for (const auto& queue : queues) {
    for (;;) {
      const Event event = queue->next();
      const auto* const end = std::get_if<EndEvent>(&event);
      if (end == nullptr) continue;
      steps = std::max(steps, static_cast<double>(end->stats.verify_steps));
      break;
    }
  }
  return {static_cast<double>(now_ns() - begin) * 1e-9, steps};
}

KeptWeights weights_of(const std::string& name) {
  if (const auto weights = kept_weights_of(name)) return *weights;
  throw std::runtime_error("no weights '" + name + "'; expected " + kKeptWeightsNames);
}

Run median(std::vector<Run>& runs) {
  std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.seconds < b.seconds; });
  return runs[runs.size() / 2];
}

void measure(Ops& ops, Model& model, const DecoderSpec& spec, const Asked& asked, const char* name, int32_t prompt,
             int32_t tokens, const std::vector<int32_t>& counts) {
  const int32_t most = *std::max_element(counts.begin(), counts.end());
  EngineOptions options;
  if (asked.chunk > 0) options.prefill_chunk = options.max_step_rows = asked.chunk;
  options.max_sequences = most;
  options.kv_pages = (most + 1) * ((prompt + tokens) / kPageTokens + 4);
  Engine engine(ops, make_decoder(model, spec), options);
  const int32_t vocab = model.config().vocab;
  answer(engine, asked, most, prompt, 8, vocab, 99);  // memory and kernels are there
  for (const int32_t sequences : counts) {
    std::vector<Run> prompts, decodings;
    for (uint32_t round = 0; round < 3; ++round) {
      engine.drop_prefix_cache();
      prompts.push_back(answer(engine, asked, sequences, prompt, 1, vocab, round));
      const Run first = answer(engine, asked, sequences, prompt, 1, vocab, round);
      const Run all = answer(engine, asked, sequences, prompt, tokens, vocab, round);
      decodings.push_back({all.seconds - first.seconds, all.steps});
    }
    const Run all = median(decodings);
    std::printf("%-8s %3d x %d + %d: prompts %8.0f tokens/s, %7.3f ms a step of %.0f, %8.1f tokens/s\n", name,
                sequences, prompt, tokens, sequences * prompt / median(prompts).seconds, all.seconds * 1e3 / all.steps,
                all.steps, sequences * (tokens - 1) / all.seconds);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  Asked asked;
  std::string kv_dtype = "bf16";
  for (; argc > 1 && argv[1][0] == '-'; --argc, ++argv) {
    const std::string flag = argv[1];
    if (flag == "--sample" && argc > 2) {
      read_sampling(argv[2], asked.sampling);
      --argc, ++argv;
    } else if (flag == "--chunk" && argc > 2) {
      asked.chunk = std::atoi(argv[2]);
      --argc, ++argv;
    } else if (flag == "--kv-dtype" && argc > 2) {
      kv_dtype = argv[2];
      --argc, ++argv;
    } else if (flag == "--rejection") {
      asked.sampling.scheme = SamplingScheme::kRejection;
    } else if (flag == "--scores") {
      asked.scores = true;
    } else {
      argc = 0;
    }
  }
  if (argc < 6) {
    std::fprintf(
        stderr,
        "usage: device_speed [--sample T[:P[:K]]] [--rejection] [--scores] [--chunk ROWS] [--kv-dtype NUMBERS] "
        "DEVICE[:WEIGHTS] MODEL[+DRAFTER] PROMPT TOKENS SEQUENCES...\n");
    return 2;
  }
  try {
    const std::string models = argv[2];
    const size_t plus = models.find('+');
    const int32_t prompt = std::atoi(argv[3]), tokens = std::atoi(argv[4]);
    std::vector<int32_t> counts;
    for (int i = 5; i < argc; ++i) counts.push_back(std::atoi(argv[i]));
    const std::string device = argv[1];
    const size_t colon = device.find(':');
    DeviceOptions options;
    if (colon != std::string::npos) options.weights = weights_of(device.substr(colon + 1));
    const auto* const named = std::ranges::find(kKvDTypes, kv_dtype, &NamedKvDType::name);
    if (named == std::end(kKvDTypes)) throw std::runtime_error("no numbers of keys and values are called " + kv_dtype);
    options.kv_dtype = named->dtype;
    const auto ops = make_device(device.substr(0, colon), options);
    const int64_t begin = now_ns();
    const auto model = Model::load(*ops, models.substr(0, plus), prompt + tokens + 64);
    std::printf("%s (%s), %s: loaded in %.1f s\n", ops->name().c_str(), ops->isa().c_str(), argv[2],
                static_cast<double>(now_ns() - begin) * 1e-9);
    measure(*ops, *model, {}, asked, "plain", prompt, tokens, counts);
    if (plus == std::string::npos) return 0;
    DecoderSpec drafted;
    drafted.method = "dflash";
    drafted.drafter = models.substr(plus + 1);
    drafted.dflash.width = 16;
    measure(*ops, *model, drafted, asked, "drafted", prompt, tokens, counts);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "device_speed: %s\n", error.what());
    return 1;
  }
  return 0;
}
