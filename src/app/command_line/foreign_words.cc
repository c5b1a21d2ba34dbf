// SPDX-License-Identifier: Apache-2.0
#include "app/command_line/foreign_words.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace ashlar {
namespace {

struct Foreign {
  const char* word;
  const char* here;
};

// Of Ollama, vLLM, SGLang, llama.cpp's programs and Hugging Face's hf.
constexpr const char* kQuantize =
    "here a model is quantised when it is loaded: ashlar run MODEL --weights int8, int4 or fp8";
constexpr const char* kEmbeddings = "here models write text: embeddings and rerankers are not served";

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
    {"llama-perplexity", "here it is: ashlar eval perplexity MODEL"},
    {"quantize", kQuantize},
    {"convert", kQuantize},
    {"llama-quantize", kQuantize},
    {"embed", kEmbeddings},
    {"signin", "here there is no account; a hub's token is read from HF_TOKEN: ashlar pull --help"},
    {"login", "here there is no account; a hub's token is read from HF_TOKEN: ashlar pull --help"},
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
constexpr const char* kWidth = "here it is --width N, the last token included; left alone it follows what pays";
constexpr const char* kOneDevice = "here a model runs on one device: --device cuda";
constexpr const char* kRows = "here it is --prefill-chunk N";
constexpr const char* kNoPrefixCache = "here it is --no-prefix-cache";
constexpr const char* kWholeModel = "here the whole model lies on one device; --weights int4 makes it smaller";
constexpr const char* kKindOfDrafter =
    "here a drafter's kind is read from its folder: --drafter FOLDER, mtp, ngram or none";
constexpr const char* kTemplate =
    "here the template is that of the model's folder (chat_template.jinja or tokenizer_config.json) or file";
constexpr const char* kForms =
    "here it is always so: the forms of calls and reasoning are read from the model's template";
constexpr const char* kAlwaysOn = "here that is always on, so that there is no flag for it";
constexpr const char* kNoSuch = "here there is nothing of the kind, so that there is no flag for it";
constexpr const char* kText = "here models read and write text: pictures and sound are refused";
constexpr const char* kConstraint = "here a server's requests bring it: response_format, guided_json, guided_grammar";
constexpr const char* kRope = "here rope scaling is what the model's config.json says";
constexpr const char* kSamplers =
    "here the samplers are --temperature, --top-k, --top-p, --min-p and the three penalties of --help";
constexpr const char* kKeepAlive = "here a model stays loaded as long as its server runs: ashlar serve MODEL";
constexpr const char* kChat = "here it is ashlar chat MODEL";
constexpr const char* kOnce = "here it is ashlar run MODEL --prompt TEXT";
constexpr const char* kMapped = "here files are mapped where that serves, so that there is no flag for it";
constexpr const char* kAlgorithm = "here the fastest way for the machine is chosen, so that there is no flag for it";
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
    {"-hfd", kDrafter},
    {"-hfrd", kDrafter},
    {"--hf-repo-draft", kDrafter},
    {"--spec-draft-model", kDrafter},
    {"--spec-draft-hf", kDrafter},
    {"--speculative-config", kDrafter},
    {"--speculative-model", kDrafter},
    {"--speculative-draft-model-path", kDrafter},
    {"--spec-type", kKindOfDrafter},
    {"--speculative-algorithm", kKindOfDrafter},
    {"--speculative-num-steps", kWidth},
    {"--speculative-num-draft-tokens", kWidth},
    {"--num-speculative-tokens", kWidth},
    {"--spec-draft-n-max", kWidth},
    {"--draft", kWidth},
    {"--draft-max", kWidth},
    {"--draft-n", kWidth},
    {"--spec-draft-n-min", kWidth},
    {"--spec-draft-p-min", kWidth},
    {"--speculative-dflash-block-size", kWidth},
    {"--speculative-eagle-topk", "here it is --branches N"},
    {"--speculative-draft-window-size", "here it is --draft-window N"},
    {"--kv-transfer-config", "here hidden states for trainers are ashlar serve --allow-hidden-states FOLDER"},
    {"--enable-return-hidden-states", "here hidden states of prompts are ashlar serve --allow-hidden-states FOLDER"},
    // memory and the machine
    {"-c", kMaxContext},
    {"--ctx-size", kMaxContext},
    {"--max-model-len", kMaxContext},
    {"--context-length", kMaxContext},
    {"--num-ctx", kMaxContext},
    {"-t", "here it is --threads N"},
    {"-tb", "here it is --threads N"},
    {"--threads-batch", "here it is --threads N"},
    {"-ngl", kDevice},
    {"-ngld", kDevice},
    {"--gpu-layers", kDevice},
    {"--n-gpu-layers", kDevice},
    {"--tensor-parallel-size", kOneDevice},
    {"-tp", kOneDevice},
    {"--tp", kOneDevice},
    {"--tp-size", kOneDevice},
    {"--pipeline-parallel-size", kOneDevice},
    {"--data-parallel-size", kOneDevice},
    {"--dp", kOneDevice},
    {"--dp-size", kOneDevice},
    {"-sm", kOneDevice},
    {"--split-mode", kOneDevice},
    {"-ts", kOneDevice},
    {"--tensor-split", kOneDevice},
    {"-mg", "here it is --device cuda:1 for the second"},
    {"--main-gpu", "here it is --device cuda:1 for the second"},
    {"--cpu-offload-gb", kWholeModel},
    {"--swap-space", kWholeModel},
    {"--n-cpu-moe", kWholeModel},
    {"-ncmoe", kWholeModel},
    {"--gpu-memory-utilization", "here it is --kv-memory SIZE; the weights take what they are"},
    {"--mem-fraction-static", "here it is --kv-memory SIZE; the weights take what they are"},
    {"--kv-cache-dtype", kKvDtype},
    {"-ctk", kKvDtype},
    {"-ctv", kKvDtype},
    {"--cache-type-k", kKvDtype},
    {"--cache-type-v", kKvDtype},
    {"-np", kSlots},
    {"--parallel", kSlots},
    {"--max-num-seqs", kSlots},
    {"--max-running-requests", kSlots},
    {"-b", kRows},
    {"-ub", kRows},
    {"--batch-size", kRows},
    {"--ubatch-size", kRows},
    {"--max-num-batched-tokens", kRows},
    {"--chunked-prefill-size", kRows},
    {"-cb", kAlwaysOn},
    {"--cont-batching", kAlwaysOn},
    {"--enable-chunked-prefill", kAlwaysOn},
    {"--enable-prefix-caching", "here that is always so; --no-prefix-cache ends it"},
    {"--no-enable-prefix-caching", kNoPrefixCache},
    {"--disable-radix-cache", kNoPrefixCache},
    {"-fa", "here attention never stores its scores, so that there is no flag for it"},
    {"--flash-attn", "here attention never stores its scores, so that there is no flag for it"},
    {"--enforce-eager", "here nothing is compiled at the start, so that there is no flag for it"},
    {"--compilation-config", "here nothing is compiled at the start, so that there is no flag for it"},
    {"--attention-backend", kAlgorithm},
    {"--sampling-backend", kAlgorithm},
    {"--mlock", kMapped},
    {"--no-mmap", kMapped},
    {"--load-format", "here the form is seen from the folder or file, so that there is no flag for it"},
    {"--download-dir", "here it is the variable HF_HUB_CACHE"},
    {"--hf-token", "here it is the variable HF_TOKEN"},
    {"--rope-scaling", kRope},
    {"--rope-scale", kRope},
    {"--rope-freq-base", kRope},
    {"--hf-overrides", kRope},
    // the server
    {"--tool-call-parser", kForms},
    {"--enable-auto-tool-choice", kForms},
    {"--reasoning-parser", kForms},
    {"--reasoning-format", kForms},
    {"--jinja", kForms},
    {"--chat-template", kTemplate},
    {"--chat-template-file", kTemplate},
    {"--metrics", kAlwaysOn},
    {"--enable-metrics", kAlwaysOn},
    {"--slots", "here it is GET /stats, always on"},
    {"--no-webui", "here the page is always on, so that there is no flag for it"},
    {"--embedding", kEmbeddings},
    {"--embeddings", kEmbeddings},
    {"--rerank", kEmbeddings},
    {"--reranking", kEmbeddings},
    {"--mmproj", kText},
    {"--image", kText},
    {"--limit-mm-per-prompt", kText},
    {"--grammar", kConstraint},
    {"--grammar-file", kConstraint},
    {"--json-schema", kConstraint},
    {"--guided-decoding-backend", kAlgorithm},
    {"--grammar-backend", kAlgorithm},
    {"--ssl-certfile", "here it is --tls-cert FILE"},
    {"--ssl-cert-file", "here it is --tls-cert FILE"},
    {"--ssl-keyfile", "here it is --tls-key FILE"},
    {"--ssl-key-file", "here it is --tls-key FILE"},
    {"--allowed-origins", "here it is --allowed-origin ORIGIN, once for each"},
    {"--disable-log-requests", "here it is --log-level warn"},
    {"--uvicorn-log-level", "here it is --log-level debug|info|warn|error"},
    {"--api-server-count", kNoSuch},
    {"-to", "here it is --timeout S, of a request"},
    {"--keepalive", kKeepAlive},
    // sampling and text
    {"--temp", "here it is --temperature X"},
    {"-s", "here it is --seed S"},
    {"--n-predict", kMaxTokens},
    {"--num-predict", kMaxTokens},
    {"--predict", kMaxTokens},
    {"--repeat-penalty", "here it is --repetition-penalty X"},
    {"--mirostat", kSamplers},
    {"--typical", kSamplers},
    {"--samplers", kSamplers},
    {"--file", "here it is --prompt-file FILE"},
    {"-sys", "here it is --system TEXT"},
    {"--system-prompt", "here it is --system TEXT"},
    {"-cnv", kChat},
    {"--conversation", kChat},
    {"-i", kChat},
    {"--interactive", kChat},
    {"--no-cnv", "here it is ashlar run --raw"},
    {"-no-cnv", "here it is ashlar run --raw"},
    {"--no-conversation", "here it is ashlar run --raw"},
    {"-st", kOnce},
    {"--single-turn", kOnce},
    {"-v", kFigures},
    {"--verbose", kFigures},
    {"--nowordwrap", "here text is printed as it comes, so that there is no flag for it"},
    {"--think", "here a model thinks as its template has it; a server's requests say enable_thinking"},
    {"--hidethinking", "here a server's requests say include_reasoning: false"},
    {"--format", "here it is --json for the answer with its figures; a server's requests take a response_format"},
};

// A server's flags are not about answers.
constexpr std::string_view kOfRequests[] = {"--temperature",
                                            "--temp",
                                            "--top-p",
                                            "--top-k",
                                            "--min-p",
                                            "--seed",
                                            "-s",
                                            "-n",
                                            "--max-tokens",
                                            "--n-predict",
                                            "--predict",
                                            "--stop",
                                            "--system",
                                            "--system-prompt",
                                            "--repeat-penalty",
                                            "--repetition-penalty",
                                            "--presence-penalty",
                                            "--frequency-penalty",
                                            "--logit-bias"};

template <size_t n>
std::string find(const Foreign (&table)[n], const std::string& word) {
  for (const Foreign& one : table) {
    if (word == one.word) return one.here;
  }
  return {};
}

}  // namespace

std::string foreign_command(const std::string& word) { return find(kCommands, word); }

std::string foreign_flag(const std::string& flag, bool of_server) {
  if (of_server && std::ranges::find(kOfRequests, flag) != std::end(kOfRequests)) {
    return "here each request says it; where none does, what the model's generation_config.json recommends";
  }
  return find(kFlags, flag);
}

std::vector<std::string> foreign_hints() {
  std::vector<std::string> out;
  for (const Foreign& one : kCommands) out.emplace_back(one.here);
  for (const Foreign& one : kFlags) out.emplace_back(one.here);
  return out;
}

}  // namespace ashlar
