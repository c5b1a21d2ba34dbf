// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "app/command_line/flags.h"
#include "app/command_line/validators.h"
#include "app/commands/commands.h"
#include "app/eval_prompts.h"
#include "base/error.h"
#include "measure/evaluation/block_report.h"
#include "measure/prompt_file.h"
#include "measure/report/report_file.h"
#include "session/models/model_locator.h"
#include "session/output.h"
#include "session/progress.h"

namespace ashlar {
namespace {

struct DllmEvalOptions : EvalBasics {
  BlockStudyOptions study;
  std::vector<std::string> algorithms;
  std::vector<double> thresholds;
  std::vector<int32_t> blocks;
};

// Values that an algorithm's first parameter is tried at; none: its usual value only.
std::vector<double> dial_values(const DllmEvalOptions& options, const AlgorithmParameter& parameter) {
  const std::string key = parameter.key;
  if (key == "threshold") {
    return options.thresholds.empty() ? std::vector<double>{0.5, 0.7, 0.9, 0.95} : options.thresholds;
  }
  if (key == "gamma" || key == "eb_threshold") return {0.05, 0.15, 0.35, 0.7};
  if (key == "factor") return {0.25, 0.5, 1, 1.5};
  if (key == "steps") return {2, 4, 6};
  if (key == "min_span") return {1, 2, 4};
  return {parameter.usual};
}

// With the value that flags or their file configure among them, unless others were asked for.
std::vector<double> dial_values(const DllmEvalOptions& options, const AlgorithmParameter& parameter,
                                const std::map<std::string, double>& configured) {
  std::vector<double> values = dial_values(options, parameter);
  const auto own = configured.find(parameter.key);
  const bool asked = std::string_view(parameter.key) == "threshold" && !options.thresholds.empty();
  if (own == configured.end() || asked) return values;
  const auto at = std::lower_bound(values.begin(), values.end(), own->second);
  if (at == values.end() || *at != own->second) values.insert(at, own->second);
  return values;
}

// What was named to be compared, by flags or their file; empty: nothing was.
std::vector<std::string> named_algorithms(const DllmEvalOptions& options, const AlgorithmSpec& configured) {
  if (!options.algorithms.empty() || configured.name.empty()) return options.algorithms;
  return {configured.name};
}

// What is tried at each block length. The algorithm that is configured keeps its other parameters.
std::vector<AlgorithmSpec> specs_of(const DllmEvalOptions& options, const AlgorithmSpec& configured,
                                    std::vector<std::string> names) {
  if (names.empty()) {
    for (const AlgorithmDescription& algorithm : algorithm_descriptions()) {
      if (std::string_view(algorithm.name) != "sequential") names.emplace_back(algorithm.name);
    }
  }
  std::vector<AlgorithmSpec> specs;
  for (const std::string& name : names) {
    const AlgorithmDescription& algorithm = find_algorithm(name);
    const AlgorithmParameter& dial = algorithm.parameters.front();
    AlgorithmSpec spec = {algorithm.name, {}};
    if (find_algorithm(configured.name).name == algorithm.name) spec.values = configured.values;
    for (const double value : dial_values(options, dial, spec.values)) {
      spec.values[dial.key] = value;
      specs.push_back(spec);
    }
  }
  return specs;
}

DecoderSpec decoder_spec(const Session& session, const AlgorithmSpec& algorithm, int32_t block) {
  DecoderSpec spec = session.spec();
  spec.block.algorithm = algorithm;
  spec.block.block_size = block;
  return spec;
}

// What can be measured at all block lengths. Asks the decoder before anything is measured: what was named and does not
// fit is an error, of the rest it is left out.
std::vector<AlgorithmSpec> fitting_specs(const Session& session, const DllmEvalOptions& options) {
  const AlgorithmSpec& configured = session.spec().block.algorithm;
  const std::vector<std::string> named = named_algorithms(options, configured);
  std::vector<AlgorithmSpec> specs = specs_of(options, configured, named);
  for (const int32_t block : options.blocks) {
    const auto decoder = make_decoder(session.model(), decoder_spec(session, {"sequential", {}}, block));
    const auto misfit = [&](const AlgorithmSpec& spec) {
      const std::string problem = decoder->check({spec.name, spec.values});
      if (!problem.empty() && !named.empty()) throw Error("decode", problem);
      return !problem.empty();
    };
    specs.erase(std::remove_if(specs.begin(), specs.end(), misfit), specs.end());
  }
  return specs;
}

void evaluate_dllm(DllmEvalOptions& options) {
  if (options.session.model.empty()) options.session.model = kBundledBlockModel;
  ReportFile json_file(options.json), svg_file(options.svg);
  const auto texts = options.prompts.empty() ? builtin_prompts() : read_prompt_file(options.prompts, options.limit);
  const std::unique_ptr<Session> session = open_session(options.session);
  if (!session->is_block_diffusion()) {
    throw Error("eval", session->choice().model.string() + ": is an autoregressive model (" + session->config().family +
                            "); eval dllm measures block-diffusion models, eval acceptance drafters");
  }
  if (options.blocks.empty()) options.blocks = {session->engine().max_width()};
  const std::vector<AlgorithmSpec> specs = fitting_specs(*session, options);
  options.study.stop_ids = session->stop_ids();
  options.study.blocks_from_answer = session->config().diffusion->block_size == 0;
  const std::vector<PromptIds> prompts = encode_prompts(*session, texts, options.limit, options.raw);
  BlockStudy study(options.study, prompts);
  {
    Progress progress("eval", static_cast<int64_t>(prompts.size() * options.blocks.size() * (specs.size() + 1)));
    const auto update = [&](int64_t done) { progress.update(done); };
    const auto engine = [&](const AlgorithmSpec& algorithm, int32_t block) -> Engine& {
      return session->start(decoder_spec(*session, algorithm, block));
    };
    for (const int32_t block : options.blocks) {
      study.run_sequential(engine({"sequential", {}}, block), block, update);
      for (const AlgorithmSpec& spec : specs) study.run(engine(spec, block), spec, update);
    }
  }
  write_output(block_study_text(study));
  if (json_file.wanted()) {
    Json json = describe_subject(*session, options);
    json.update(block_study_json(study));
    json_file.write(json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  if (svg_file.wanted()) {
    svg_file.write(block_study_svg(study, folder_name(session->choice().model) + ": denoising algorithms"));
  }
}

}  // namespace

void add_eval_dllm_command(CLI::App& eval) {
  auto options = std::make_shared<DllmEvalOptions>();
  CLI::App* command = eval.add_subcommand(
      "dllm", "Denoising of a block-diffusion model: tokens a forward, agreement with one at a time");
  add_prompt_flags(*command, *options, options->study.max_tokens);
  command
      ->add_option("--algorithms", options->algorithms,
                   "What to compare with sequential decoding (default: the one configured, or all that fit the model)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,...");
  command
      ->add_option("--thresholds", options->thresholds,
                   "Values of algorithms that have a threshold (default: 0.5,0.7,0.9,0.95 and the configured one)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(number(0.0, 1.0))
      ->type_name("T,...");
  command->add_option("--blocks", options->blocks, "Block lengths (default: the model's)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(whole(1, kMaxWidth))
      ->type_name("N,...");
  command->add_option("--temperature", options->study.sampling.temperature, "0: greedy")
      ->transform(number(0.0, 100.0))
      ->type_name("X")
      ->capture_default_str();
  add_study_flags(*command, *options, options->study.sampling.seed, options->study.batch,
                  "tokens per forward against agreement");
  command->footer(
      "Examples:\n"
      "  ashlar eval dllm    (the bundled pebble-11m-sdar)\n"
      "  ashlar eval dllm MODEL --algorithms low_confidence,entropy_bound --thresholds 0.8,0.9,0.95 --blocks 4,8,16\n"
      "  ashlar eval dllm MODEL --json dllm.json --svg dllm.svg");
  command->callback([options] { evaluate_dllm(*options); });
}

}  // namespace ashlar
