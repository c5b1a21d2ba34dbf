// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/flags.h"

#include <cmath>
#include <random>

#include "app/command_line/validators.h"
#include "base/error.h"
#include "device/device_name.h"
#include "device/weights/kept_weights.h"
#include "session/memory_plan.h"
#include "session/weights_cache.h"

namespace ashlar {
namespace {

constexpr const char* kDrafterGroup = "Drafting";
constexpr const char* kDenoisingGroup = "Denoising (block-diffusion models)";
constexpr const char* kDeviceGroup = "Device and memory";
constexpr const char* kSamplingGroup = "Sampling";

std::vector<std::string> device_words() {
  std::vector<std::string> words = device_names();
  words.insert(words.begin(), kAutoDevice);
  return words;
}

// A kind of device, or one of several of it.
CLI::Validator a_device() {
  const auto check = [](std::string& name) -> std::string {
    try {
      check_device_name(name);
      return {};
    } catch (const Error&) {
      return one_of(device_words())(name);
    }
  };
  return CLI::Validator(check, "", "word");
}

void add_drafter_flags(CLI::App& command, SessionOptions& options) {
  command
      .add_option("--drafter", options.drafter,
                  "Drafter, mtp, ngram or none (default: one found for MODEL, else mtp, else ngram)")
      ->type_name("FOLDER")
      ->envname("ASHLAR_DRAFTER")
      ->group(kDrafterGroup);
  command
      .add_option("--width", options.dflash.width,
                  "Most tokens checked at once, last token included (default: chosen pass by pass)")
      ->type_name("N")
      ->transform(whole(2, kMaxWidth))
      ->group(kDrafterGroup);
  command
      .add_option("--draft-window", options.dflash.window,
                  "The drafter sees and keeps the newest N tokens only (0: all)")
      ->type_name("N")
      ->transform(whole(0, 1 << 24))
      ->capture_default_str()
      ->group(kDrafterGroup);
  command
      .add_option("--branches", options.dflash.branches,
                  "Drafts are a tree with up to N branches after its first (0: a chain)")
      ->type_name("N")
      ->transform(whole(0, kMaxWidth - 1))
      ->capture_default_str()
      ->group(kDrafterGroup);
  add_choice<NgramUse>(command, "--ngram-drafts,--recall", options.ngram,  // the second: its name in the version before
                       "Draft what followed the same tokens before (default: auto, where it pays; with --width never)",
                       {{"auto", NgramUse::kWherePaying}, {"always", NgramUse::kAlways}, {"never", NgramUse::kNever}})
      ->group(kDrafterGroup);
  CLI::Option* passes = command.add_option("--passes", options.dflash.passes,
                                           "Drafter passes a block; 1 is plain DFlash and mostly fastest");
  passes->type_name("N")->transform(whole(1, kMaxWidth))->capture_default_str()->group(kDrafterGroup);
  add_choice<DenoiseSchedule>(command, "--schedule", options.dflash.schedule,
                              "With more passes: how many tokens each one fixes (default: cosine)",
                              {{"cosine", DenoiseSchedule::kCosine},
                               {"linear", DenoiseSchedule::kLinear},
                               {"sqrt", DenoiseSchedule::kSquareRoot}})
      ->needs(passes)
      ->group(kDrafterGroup);
  command.add_flag("!--no-self-test", options.self_test, "Skip the drafter's self-test at the start")
      ->group(kDrafterGroup);
}

std::string check_algorithm(std::string& name) {
  try {
    find_algorithm(name);
    return {};
  } catch (const Error& error) {
    return std::string(error.message());
  }
}

void add_denoising_flags(CLI::App& command, DllmOptions& options) {
  command
      .add_option("--dllm-algorithm", options.algorithm,
                  "Which masked positions a pass fills (default: low_confidence)")
      ->type_name("NAME")
      ->check(CLI::Validator(check_algorithm, ""))
      ->envname("ASHLAR_DLLM_ALGORITHM")
      ->group(kDenoisingGroup);
  command
      .add_option("--dllm-algorithm-config", options.config_file,
                  "Its parameters: lines like threshold = 0.9 or threshold: 0.9")
      ->type_name("FILE")
      ->envname("ASHLAR_DLLM_ALGORITHM_CONFIG")
      ->group(kDenoisingGroup);
  command.add_option("--dllm-block-size", options.block_size, "Positions of a block (default: the model's)")
      ->type_name("N")
      ->transform(whole(1, kMaxWidth))
      ->envname("ASHLAR_DLLM_BLOCK_SIZE")
      ->group(kDenoisingGroup);
}

void add_memory_flags(CLI::App& command, SessionOptions& options) {
  command
      .add_option("--max-context", options.max_context, "Longest sequence in tokens, prompt included (0: the model's)")
      ->type_name("N")
      ->transform(whole(0, 1 << 24))
      ->capture_default_str()
      ->group(kDeviceGroup);
  const auto set_kv_bytes = [&options](const std::string& text) { options.engine.kv_bytes = *parse_bytes(text); };
  command
      .add_option_function<std::string>("--kv-memory", set_kv_bytes,
                                        "Memory for the KV cache, e.g. 512M (default: what is needed)")
      ->type_name("SIZE")
      ->check(size(int64_t{1} << 20, int64_t{1} << 50))
      ->envname("ASHLAR_KV_MEMORY")
      ->group(kDeviceGroup);
  std::vector<std::pair<std::string, KvDType>> kv_dtypes;
  for (const NamedKvDType& named : kKvDTypes) kv_dtypes.emplace_back(named.name, named.dtype);
  add_choice<KvDType>(command, "--kv-dtype", options.device_options.kv_dtype,
                      "Numbers in the KV cache (default: bf16); int8 takes half the memory, tq4 (4 and 6 bits) a third",
                      kv_dtypes)
      ->group(kDeviceGroup);
  std::vector<std::pair<std::string, KeptWeights>> weights;
  for (const NamedKeptWeights& named : kKeptWeights) weights.emplace_back(named.name, named.weights);
  add_choice<KeptWeights>(command, "--weights", options.device_options.weights,
                          "Weights on cpu and cuda (default: auto, as few bits as the file)", weights)
      ->envname("ASHLAR_WEIGHTS")
      ->group(kDeviceGroup);
  add_choice<KeptWeights>(command, "--drafter-weights", options.device_options.drafter_weights,
                          "The drafter's; no token depends on them (default: auto, by device)", weights)
      ->envname("ASHLAR_DRAFTER_WEIGHTS")
      ->group(kDeviceGroup);
  options.weights_cache = default_weights_cache();
  command
      .add_option("--weights-cache", options.weights_cache,
                  "Keeps rounded weights for the next start, or none (default: ~/.cache/ashlar)")
      ->type_name("FOLDER")
      ->envname("ASHLAR_WEIGHTS_CACHE")
      ->group(kDeviceGroup);
  command.add_option("--max-sequences", options.engine.max_sequences, "Answers that run at once; more wait")
      ->type_name("N")
      ->transform(whole(1, 256))
      ->capture_default_str()
      ->group(kDeviceGroup);
  command
      .add_option("--prefill-chunk", options.engine.prefill_chunk,
                  "Most prompt tokens of one answer in a step; 0: what suits the device")
      ->type_name("N")
      ->transform(whole(0, 1 << 16))
      ->capture_default_str()
      ->group(kDeviceGroup);
  command.add_flag("!--no-prefix-cache", options.engine.prefix_cache, "Do not reuse the work on a common beginning")
      ->group(kDeviceGroup);
  command
      .add_option("--depth", options.engine.depth, "Steps in flight; 2 overlaps host and device, 1 is for debugging")
      ->type_name("1|2")
      ->transform(whole(1, 2))
      ->capture_default_str()
      ->group(kDeviceGroup);
}

}  // namespace

void add_computing_flags(CLI::App& command, SessionOptions& options) {
  std::string devices;
  for (const std::string& name : device_words()) devices += (devices.empty() ? "" : "|") + name;
  command
      .add_option("--device", options.device,
                  "auto: an NVIDIA GPU (cuda), else cpu; cuda:1: the second; ref: plain loops")
      ->type_name(devices)
      ->check(a_device())
      ->capture_default_str()
      ->envname("ASHLAR_DEVICE")
      ->group(kDeviceGroup);
  command
      .add_option("--threads", options.device_options.threads,
                  "Worker threads (0: one per core, within a container's limit)")
      ->type_name("N")
      ->transform(whole(0, 1024))
      ->capture_default_str()
      ->envname("ASHLAR_THREADS")
      ->group(kDeviceGroup);
  std::string isas;
  for (const std::string& isa : isa_choices()) isas += (isas.empty() ? "" : ", ") + isa;
  command.add_option("--isa", options.device_options.isa, "Instruction set (default: the first of " + isas + ")")
      ->type_name("NAME")
      ->envname("ASHLAR_FORCE_ISA")
      ->group(kDeviceGroup);
}

void add_session_flags(CLI::App& command, SessionOptions& options) {
  command.add_option("MODEL", options.model, "Hugging Face model folder or .gguf file (default: the bundled model)")
      ->check(CLI::Validator(
          [](std::string& name) {
            return name.empty() ? "is empty; expected a folder, a file or a name" : std::string();
          },
          ""))
      ->envname("ASHLAR_MODEL");
  add_drafter_flags(command, options);
  add_denoising_flags(command, options.dllm);
  add_computing_flags(command, options);
  add_memory_flags(command, options);
}

CLI::Option* add_sampling_flags(CLI::App& command, SamplingParams& sampling) {
  const auto add_number = [&command](const char* name, double& value, const char* what, double low, double high) {
    command.add_option(name, value, what)
        ->type_name("X")
        ->transform(number(low, high))
        ->capture_default_str()
        ->group(kSamplingGroup);
  };
  add_number("--temperature", sampling.temperature, "0: always the most likely token (greedy); 0.7 is lively", 0.0,
             100.0);
  command.add_option("--top-k", sampling.top_k, "Keep the K most likely tokens (0: all)")
      ->type_name("K")
      ->transform(whole(0, 1 << 24))
      ->capture_default_str()
      ->group(kSamplingGroup);
  command.add_option("--top-p", sampling.top_p, "Keep the most likely tokens up to this mass (1: all)")
      ->type_name("X")
      ->transform(number_above(0, 1))
      ->capture_default_str()
      ->group(kSamplingGroup);
  add_number("--min-p", sampling.min_p, "Keep tokens at least this likely, relative to the best (0: all)", 0.0, 1.0);
  add_number("--repetition-penalty", sampling.repetition_penalty, "Above 1: less of what prompt and answer hold", 0.01,
             100.0);
  add_number("--presence-penalty", sampling.presence_penalty, "Above 0: less of what the answer holds", -100.0, 100.0);
  add_number("--frequency-penalty", sampling.frequency_penalty, "The same for each time it occurs", -100.0, 100.0);
  command
      .add_option_function<std::vector<std::string>>(
          "--logit-bias",
          [&sampling](const std::vector<std::string>& entries) {
            for (const std::string& entry : entries) sampling.logit_bias.push_back(parse_logit_bias(entry));
          },
          "Adds VALUE to the logit of token ID (repeatable)")
      ->type_name("ID:VALUE")
      ->allow_extra_args(false)
      ->group(kSamplingGroup);
  CLI::Option* seed =
      command.add_option("--seed", sampling.seed, "Seed of the sampling noise: the same seed gives the same answer")
          ->type_name("S")
          ->transform(whole(0, UINT64_MAX))
          ->capture_default_str()
          ->envname("ASHLAR_SEED")
          ->group(kSamplingGroup);
  add_choice<SamplingScheme>(command, "--scheme", sampling.scheme,
                             "coupled (default): the tokens of plain decoding; rejection: its distribution only",
                             {{"coupled", SamplingScheme::kCoupled}, {"rejection", SamplingScheme::kRejection}})
      ->group(kSamplingGroup);
  return seed;
}

CLI::Option* add_sampling_flags_with_fresh_seed(CLI::App& command, SamplingParams& sampling) {
  return add_sampling_flags(command, sampling)
      ->description("Seed of the noise: same seed, same answers (default: a fresh one, which is said)")
      ->default_str("");
}

bool choose_seed(SamplingParams& sampling) {
  if (sampling.temperature <= 0.0) return false;
  sampling.seed = std::random_device()();  // 32 bits: short enough to be typed again
  return true;
}

void add_color_flag(CLI::App& command, ColorMode& mode) {
  add_choice<ColorMode>(command, "--color", mode, "Tint tokens that were drafted (default: auto, on a terminal)",
                        {{"auto", ColorMode::kAuto}, {"always", ColorMode::kAlways}, {"never", ColorMode::kNever}});
}

std::pair<int32_t, float> parse_logit_bias(const std::string& text) {
  const size_t colon = text.find(':');
  try {
    size_t used_id = 0, used_value = 0;
    const std::string value_text = colon == std::string::npos ? "" : text.substr(colon + 1);
    const int id = std::stoi(text.substr(0, colon), &used_id);
    const float value = std::stof(value_text, &used_value);
    if (used_id == colon && used_value == value_text.size() && id >= 0 && std::isfinite(value)) return {id, value};
  } catch (const std::exception&) {  // the same answer as to anything else that is no pair
  }
  throw CLI::ValidationError("--logit-bias", "\"" + text + "\" is not ID:VALUE, for instance 262:-5.5");
}

}  // namespace ashlar
