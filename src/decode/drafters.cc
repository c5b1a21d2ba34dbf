// SPDX-License-Identifier: Apache-2.0
#include "decode/drafters.h"

#include <algorithm>

#include "base/error.h"
#include "decode/logits.h"
#include "decode/propose/autoregressive.h"
#include "decode/propose/draft_context.h"
#include "model/drafters/eagle3_config.h"
#include "model/drafters/heads/candidate_lattice.h"
#include "model/drafters/mtp.h"
#include "model/drafters/mtp_config.h"

namespace ashlar {
namespace {

DrafterFacts facts_of_dflash(const std::filesystem::path& folder, const ModelConfig* target,
                             const DflashOptions& options, int32_t sequences) {
  const DflashConfig config = read_dflash_config(folder);
  if (target != nullptr) check_fit(config, *target);
  DrafterFacts facts;
  facts.aux_layers = config.aux_layers;
  facts.block_size = config.block_size;
  facts.mask_id = config.mask_id;
  facts.sample_from_anchor = config.sample_from_anchor;
  facts.head = config.head;
  facts.selector = config.selector;
  facts.lattice = config.lattice;
  facts.markov = config.markov;
  facts.domino = config.domino;
  facts.refiner = config.refiner;
  if (config.lattice) {
    facts.head_workspace = CandidateLattice::workspace(*config.lattice, config.stack.hidden, kLogitRows);
  }
  if (config.refiner) {
    facts.head_workspace = BlockRefiner::workspace(*config.refiner, config.stack.hidden, config.block_size,
                                                   config.draft_vocab, kLogitRows);
  }
  facts.vocab = config.vocab;
  facts.own_vocabulary = config.own_vocabulary;
  facts.stack = config.stack;
  facts.max_width = options.width > 0 ? options.width : std::min(config.max_width(), kMaxWidth);
  facts.aux_width = static_cast<int64_t>(config.aux_layers.size()) * config.target_hidden;
  facts.draft_vocab = config.draft_vocab;
  facts.window_pages = drafter_window_pages(config, options, sequences);
  facts.spare_pages = drafter_spare_pages(config, options, sequences);
  return facts;
}

// Of the target, whose drafts are then chains; without one nothing is known.
bool has_recurrent_layers(const ModelConfig* target) {
  return target != nullptr && (target->stack.delta_net || target->stack.short_conv);
}

// What all heads that draft token by token have in common.
DrafterFacts facts_of_head(const StackConfig& stack, const ModelConfig* target, const DflashOptions& options,
                           int32_t sequences) {
  const AutoregressiveOptions own = {options.width, options.window,
                                     has_recurrent_layers(target) ? 0 : options.branches};
  DrafterFacts facts;
  facts.stack = stack;
  facts.max_width = own.max_width();
  facts.reads_before = true;
  facts.window_pages = DraftContext::window_pages(own.window, own.max_width(), sequences);
  facts.spare_pages = branch_pages(own.branches, own.max_width(), sequences);
  facts.own_spare_pages = own.spare_pages(sequences);
  return facts;
}

DrafterFacts facts_of_eagle3(const std::filesystem::path& folder, const ModelConfig* target,
                             const DflashOptions& options, int32_t sequences) {
  Eagle3Config config = read_eagle3_config(folder);
  if (target != nullptr) fit_to_target(config, *target);
  DrafterFacts facts = facts_of_head(config.stack, target, options, sequences);
  facts.aux_width = config.aux_width();
  facts.aux_layers = config.aux_layers;
  facts.vocab = config.vocab;
  facts.draft_vocab = config.draft_vocab;
  facts.own_vocabulary = config.draft_vocab != config.vocab;
  if (config.mask_id >= 0) facts.own_spare_pages = 0;  // its pass has a row for each position
  return facts;
}

DrafterFacts facts_of_mtp(const std::filesystem::path& folder, const ModelConfig* target, const DflashOptions& options,
                          int32_t sequences) {
  const ModelConfig& model = *target;
  check_own_layer(folder, model);
  DrafterFacts facts = facts_of_head(mtp_stack(model), target, options, sequences);
  facts.aux_width = model.stack.hidden;
  facts.aux_layers = {model.stack.n_layers - 1};
  facts.vocab = facts.draft_vocab = model.vocab;
  facts.tensors = model.mtp_prefix();
  return facts;
}

DrafterFacts facts_of_mtp_folder(const std::filesystem::path& folder, const ModelConfig* target,
                                 const DflashOptions& options, int32_t sequences) {
  const MtpFolderConfig config = read_mtp_config(folder);
  if (target != nullptr) check_fit(config, *target);
  DrafterFacts facts = facts_of_head(config.stack, target, options, sequences);
  facts.aux_width = config.stack.hidden;
  if (target != nullptr) facts.aux_layers = {target->stack.n_layers - 1};
  facts.vocab = facts.draft_vocab = config.vocab;
  return facts;
}

struct Kind {
  const char* method;
  bool (*is_one)(const std::filesystem::path& folder);
  DrafterFacts (*facts)(const std::filesystem::path& folder, const ModelConfig* target, const DflashOptions& options,
                        int32_t sequences);  // target null: only where is_folder
  bool is_folder;                            // of its own, and not a model's
  bool is_one_by_one;                        // a head of AutoregressiveProposer
};

constexpr Kind kKinds[] = {
    {"eagle3", is_eagle3_folder, facts_of_eagle3, true, true},
    {"dflash", is_dflash_folder, facts_of_dflash, true, false},
    {"mtp", is_mtp_folder, facts_of_mtp_folder, true, true},
    {"mtp", is_model_of_mtp_family, facts_of_mtp, false, true},
};

const Kind& kind_of(const std::filesystem::path& folder) {
  for (const Kind& kind : kKinds) {
    if (kind.is_one(folder)) return kind;
  }
  throw Error("drafter",
              folder.string() +
                  ": is not a drafter this engine knows; expected a DFlash, EAGLE-3 or MTP folder, whose "
                  "config.json has dflash_config, eagle_config, mtp_config or speculators_model_type, a GGUF file of "
                  "architecture dflash or eagle3, or mtp, for a model that has a layer to draft");
}

DrafterFacts facts_of(const Kind& kind, const std::filesystem::path& folder, const ModelConfig* target,
                      const DflashOptions& options, int32_t sequences) {
  DrafterFacts facts = kind.facts(folder, target, options, sequences);
  facts.method = kind.method;
  facts.folder = folder;
  return facts;
}

}  // namespace

bool is_drafter_folder(const std::filesystem::path& folder) {
  return std::ranges::any_of(kKinds, [&](const Kind& kind) { return kind.is_folder && kind.is_one(folder); });
}

std::string method_of_drafter(const std::filesystem::path& folder) { return kind_of(folder).method; }

bool drafts_one_by_one(const std::string& method) {
  const auto kind = std::ranges::find_if(kKinds, [&](const Kind& one) { return one.method == method; });
  return kind != std::end(kKinds) && kind->is_one_by_one;
}

DrafterFacts drafter_facts(const std::filesystem::path& folder, const ModelConfig& target, const DflashOptions& options,
                           int32_t sequences) {
  return facts_of(kind_of(folder), folder, &target, options, sequences);
}

DrafterFacts drafter_facts(const std::filesystem::path& folder) {
  const Kind& kind = kind_of(folder);
  ASHLAR_CHECK(kind.is_folder);
  return facts_of(kind, folder, nullptr, {}, 1);
}

}  // namespace ashlar
