// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/foreign_words.h"

namespace ashlar {
namespace {

struct Foreign {
  const char* word;
  const char* here;
};

// Of Ollama, vLLM, llama.cpp's programs and Hugging Face's hf.
constexpr Foreign kCommands[] = {
    {"ls", "here it is: ashlar list"},
    {"ps",
     "here it is: curl http://127.0.0.1:8080/stats, for what a server is doing; ashlar list, for the models that are "
     "here"},
    {"show", "here it is: ashlar inspect MODEL"},
    {"remove", "here it is: ashlar rm ORG/MODEL"},
    {"delete", "here it is: ashlar rm ORG/MODEL"},
    {"start", "here it is: ashlar serve MODEL"},
    {"stop", "here a server serves one model until it ends: Ctrl-C, or SIGTERM to its process"},
    {"download", "here it is: ashlar pull ORG/MODEL"},
    {"create", "here a model is a Hugging Face folder or a GGUF file as it is: ashlar run FOLDER"},
    {"push", "here models are only fetched: ashlar pull ORG/MODEL"},
    {"cp", "here models are folders and files: copy them by cp"},
    {"complete", "here it is: ashlar run --raw --prompt TEXT"},
    {"generate", "here it is: ashlar run MODEL --prompt TEXT"},
    {"cli", "here it is: ashlar chat MODEL, or ashlar run MODEL --prompt TEXT"},
    {"server", "here it is: ashlar serve MODEL"},
    {"llama-server", "here it is: ashlar serve MODEL"},
    {"llama-cli", "here it is: ashlar chat MODEL, or ashlar run MODEL --prompt TEXT"},
    {"llama-bench", "here it is: ashlar bench MODEL"},
    {"perplexity", "here it is: ashlar eval perplexity MODEL"},
};

constexpr const char* kMaxContext = "here it is --max-context N";
constexpr const char* kDevice = "here it is --device cuda, which has the whole model on the GPU";
constexpr const char* kDrafter = "here it is --drafter FOLDER";
constexpr const char* kFromHub = "here it is ashlar pull ORG/MODEL, after which every command takes ORG/MODEL";
constexpr const char* kModel =
    "here the model stands without a flag: ashlar COMMAND MODEL, a folder, a .gguf file or ORG/MODEL";
constexpr const char* kFigures =
    "here it is --show-stats in ashlar chat; ashlar run ends with its figures unless --quiet";
constexpr const char* kSlots = "here it is --max-sequences N";
constexpr const char* kMaxTokens = "here it is --max-tokens N";
constexpr const char* kKvDtype = "here it is --kv-dtype bf16|f32|int8|tq4";

// Where a command has the flag itself, it counts and not this table.
constexpr Foreign kFlags[] = {
    // the model
    {"-m", kModel},
    {"--model", kModel},
    {"--model-path", kModel},
    {"-hf", kFromHub},
    {"-hfr", kFromHub},
    {"--hf-repo", kFromHub},
    {"-mu", kFromHub},
    {"--model-url", kFromHub},
    {"--tokenizer", "here the tokenizer is the one in the model's folder"},
    {"--revision", "here it is ORG/MODEL@REVISION"},
    {"--dtype", "here it is --weights auto|int4|int8|fp8|exact"},
    {"--quantization", "here it is --weights int8, int4 or fp8; files that are quantised are run as they are"},
    {"--lora", "here a model is whole: merge the adapter into its base first (peft: merge_and_unload)"},
    {"--enable-lora", "here a model is whole: merge the adapter into its base first (peft: merge_and_unload)"},
    {"--served-model-name", "here it is ashlar serve MODEL --name NAME"},
    {"--trust-remote-code", "here no code of a model's folder is ever run, so that nothing is to be trusted"},
    // drafting
    {"-md", kDrafter},
    {"--model-draft", kDrafter},
    {"--draft-model", kDrafter},
    {"--speculative-config", kDrafter},
    {"--speculative-model", kDrafter},
    {"--spec-type", "here a drafter's kind is read from its folder: --drafter FOLDER, mtp, ngram or none"},
    {"--draft", "here it is --width N, the last token included; left alone it follows what pays"},
    {"--draft-max", "here it is --width N, the last token included; left alone it follows what pays"},
    {"--num-speculative-tokens", "here it is --width N, the last token included; left alone it follows what pays"},
    // memory and the machine
    {"-c", kMaxContext},
    {"--ctx-size", kMaxContext},
    {"--max-model-len", kMaxContext},
    {"--num-ctx", kMaxContext},
    {"-t", "here it is --threads N"},
    {"-ngl", kDevice},
    {"--gpu-layers", kDevice},
    {"--n-gpu-layers", kDevice},
    {"--tensor-parallel-size", "here a model runs on one device: --device cuda"},
    {"-tp", "here a model runs on one device: --device cuda"},
    {"--gpu-memory-utilization", "here it is --kv-memory SIZE; the weights take what they are"},
    {"--kv-cache-dtype", kKvDtype},
    {"-ctk", kKvDtype},
    {"-ctv", kKvDtype},
    {"--cache-type-k", kKvDtype},
    {"--cache-type-v", kKvDtype},
    {"-np", kSlots},
    {"--parallel", kSlots},
    {"--max-num-seqs", kSlots},
    {"-b", "here it is --prefill-chunk N"},
    {"-ub", "here it is --prefill-chunk N"},
    {"--batch-size", "here it is --prefill-chunk N"},
    {"--max-num-batched-tokens", "here it is --prefill-chunk N"},
    {"--enable-prefix-caching", "here that is always so; --no-prefix-cache ends it"},
    {"--no-enable-prefix-caching", "here it is --no-prefix-cache"},
    {"-fa", "here attention never stores its scores, so that there is no flag for it"},
    {"--flash-attn", "here attention never stores its scores, so that there is no flag for it"},
    {"--enforce-eager", "here nothing is compiled at the start, so that there is no flag for it"},
    // sampling and text
    {"--temp", "here it is --temperature X"},
    {"-s", "here it is --seed S"},
    {"--n-predict", kMaxTokens},
    {"--num-predict", kMaxTokens},
    {"--predict", kMaxTokens},
    {"--repeat-penalty", "here it is --repetition-penalty X"},
    {"--file", "here it is --prompt-file FILE"},
    {"-sys", "here it is --system TEXT"},
    {"--system-prompt", "here it is --system TEXT"},
    {"-cnv", "here it is ashlar chat MODEL"},
    {"--conversation", "here it is ashlar chat MODEL"},
    {"-i", "here it is ashlar chat MODEL"},
    {"--interactive", "here it is ashlar chat MODEL"},
    {"--no-cnv", "here it is ashlar run --raw"},
    {"-no-cnv", "here it is ashlar run --raw"},
    {"-v", kFigures},
    {"--verbose", kFigures},
    {"--format", "here it is --json for the answer with its figures; a server's requests take a response_format"},
};

template <size_t n>
std::string find(const Foreign (&table)[n], const std::string& word) {
  for (const Foreign& one : table) {
    if (word == one.word) return one.here;
  }
  return {};
}

}  // namespace

std::string foreign_command(const std::string& word) { return find(kCommands, word); }

std::string foreign_flag(const std::string& flag) { return find(kFlags, flag); }

std::vector<std::string> foreign_hints() {
  std::vector<std::string> out;
  for (const Foreign& one : kCommands) out.emplace_back(one.here);
  for (const Foreign& one : kFlags) out.emplace_back(one.here);
  return out;
}

}  // namespace ashlar
