// SPDX-License-Identifier: Apache-2.0
#pragma once
// Decoding written out by hand on top of Model and DflashDrafter, without engine, scheduler or sampler: the shortest
// program that can disagree with them.

#include <memory>
#include <numeric>
#include <vector>

#include "device/device_array.h"
#include "model/drafters/dflash.h"
#include "model/model.h"

namespace ashlar::testing {

struct DirectRun {
  std::vector<int32_t> tokens;
  std::vector<int32_t> accept_lengths;
  std::vector<int32_t> drafted_ids;  // of all steps, one after the other
};

inline int32_t argmax(const float* values, int32_t n) {
  int32_t best = 0;
  for (int32_t i = 1; i < n; ++i) {
    if (values[i] > values[best]) best = i;
  }
  return best;
}

class DirectDecoder {
 public:
  DirectDecoder(Model& model, DflashDrafter* drafter, int32_t max_tokens)
      : model_(model),
        drafter_(drafter),
        batch_(model.ops(), max_tokens, 1),
        pages_(model.ops(), max_tokens / kPageTokens + 1) {
    KvLayout layout;
    layout.keep_log(kLogRows);
    model.register_state(layout);
    if (drafter != nullptr) drafter->register_state(layout);
    kv_ = std::make_unique<KvMemory>(model.ops(), layout, static_cast<int32_t>(pages_.size()));
    std::vector<int32_t> pages(static_cast<size_t>(pages_.size()));
    std::iota(pages.rbegin(), pages.rend(), 0);  // pages in reverse order: positions must go through the table
    pages_.upload(pages);
    model.reserve(max_tokens);
    const int32_t aux_width =
        drafter != nullptr ? drafter->aux_width() : model.config().stack.hidden * (model.config().stack.n_layers);
    if (drafter != nullptr) drafter->reserve(max_tokens, kMaxBlock);
    if (drafter != nullptr && drafter->selector() != nullptr) drafter->selector()->reserve(model.ops(), kMaxBlock);
    if (drafter != nullptr && drafter->in_turn() != nullptr) drafter->in_turn()->reserve(model.ops(), 1);
    if (drafter != nullptr && drafter->refiner() != nullptr) drafter->refiner()->reserve(model.ops(), kMaxBlock);
    storage_ =
        model.ops().allocate(sizeof(float) * (static_cast<size_t>(max_tokens) * (aux_width + model.config().vocab)));
    aux_hidden_ = {reinterpret_cast<float*>(storage_->data()), max_tokens, aux_width, aux_width};
    logits_ = {aux_hidden_.row(max_tokens), max_tokens, model.config().vocab, model.config().vocab};
  }

  /// Runs `ids` at positions from `start`; logits of every row.
  Tensor target(const std::vector<int32_t>& ids, int32_t start, std::span<const AuxLayer> layers) {
    fill(ids, start, next_state(start, static_cast<int32_t>(ids.size())));
    const Tensor hidden = model_.forward(batch_, *kv_, {layers, aux_hidden_});
    model_.head(hidden, logits_.narrow(hidden.rows));
    return logits_.narrow(hidden.rows);
  }

  /// Final hidden states of every row of `ids` at positions from `start`.
  Tensor hidden(const std::vector<int32_t>& ids, int32_t start) {
    fill(ids, start, next_state(start, static_cast<int32_t>(ids.size())));
    return model_.forward(batch_, *kv_, {});
  }

  /// Hidden states of one draft block.
  Tensor draft_hidden(int32_t last_token, int32_t start, int32_t width) {
    std::vector<int32_t> ids(width, drafter_->config().mask_id);
    ids[0] = last_token;
    fill(ids, start);
    return drafter_->forward(batch_, *kv_);
  }

  /// Logits of draft_hidden's rows over the draft vocabulary.
  Tensor draft_logits(Tensor hidden) {
    drafter_->head(hidden, last_logits(hidden.rows));
    return last_logits(hidden.rows);
  }

  /// What a head with candidates says of the slots that predict.
  SelectedEdges select(Tensor hidden, Tensor logits, int32_t last_token) {
    const CandidateRows::Begin begin = {0, last_token};
    Tensor features;
    if (drafter_->selector()->sees_blocks()) features = drafter_->features(aux_hidden_.part(newest_row_, 1));
    return drafter_->selector()->score(model_.ops(), {hidden, logits, {&begin, 1}, features});
  }

  /// The first rows of logits over the draft vocabulary, as the last call left them.
  Tensor last_logits(int32_t rows) const {
    const int32_t vocab = drafter_->config().draft_vocab;
    return {logits_.data, rows, vocab, vocab};
  }

  /// Drafted ids of one block: argmax of the slots that predict, the walk of a candidate selector, one after the other,
  /// or in rounds.
  std::vector<int32_t> draft(int32_t last_token, int32_t start, int32_t width) {
    const bool from_anchor = drafter_->config().sample_from_anchor;
    const Tensor hidden = draft_hidden(last_token, start, from_anchor ? width - 1 : width);
    const Tensor logits = draft_logits(hidden);
    const int32_t first = from_anchor ? 0 : 1;
    std::vector<int32_t> ids;
    if (drafter_->selector() != nullptr) {
      const SelectedEdges edges = select(hidden.skip(first), logits.skip(first), last_token);
      int32_t before = 0;
      for (int32_t row = 0; row < hidden.rows - first; ++row) {
        before = argmax(edges.after(row, before), edges.n);
        ids.push_back(edges.candidates(row)[before]);
      }
      return ids;
    }
    if (drafter_->refiner() != nullptr) return refine(hidden, logits.skip(first), last_token);
    int32_t before = last_token;
    for (int32_t slot = first; slot < hidden.rows; ++slot) {
      if (drafter_->in_turn() != nullptr) {
        const InTurnHead::Step step = {slot, before, 0, slot - first + 1};
        drafter_->in_turn()->add(model_.ops(), hidden, logits, {&step, 1});
      }
      const int32_t id = argmax(logits.row(slot), logits.cols);
      before = drafter_->id_map() != nullptr ? drafter_->id_map()[id] : id;
      ids.push_back(before);
    }
    return ids;
  }

  void write_context(const std::vector<int32_t>& ids, int32_t start) {
    fill(ids, start);
    drafter_->write_context(aux_hidden_.narrow(static_cast<int32_t>(ids.size())), batch_.rows(), *kv_);
    newest_row_ = static_cast<int32_t>(ids.size()) - 1;
    newest_id_ = ids.back();
  }

  DirectRun speculate(const std::vector<int32_t>& prompt, int32_t max_new, const std::vector<int32_t>& stops,
                      int32_t width) {
    DirectRun run;
    const auto ended = [&] {
      return static_cast<int32_t>(run.tokens.size()) >= max_new ||
             std::find(stops.begin(), stops.end(), run.tokens.back()) != stops.end();
    };
    const Tensor first = target(prompt, 0, drafter_->aux_layers());
    run.tokens.push_back(argmax(first.row(first.rows - 1), first.cols));
    write_context(prompt, 0);
    auto start = static_cast<int32_t>(prompt.size());
    while (!ended()) {
      std::vector<int32_t> ids = draft(run.tokens.back(), start, width);
      run.drafted_ids.insert(run.drafted_ids.end(), ids.begin(), ids.end());
      ids.insert(ids.begin(), run.tokens.back());
      const Tensor rows = target(ids, start, drafter_->aux_layers());
      int32_t accepted = 0;  // counted past the end of the answer, as the goldens do
      for (int32_t row = 0; row < rows.rows; ++row) {
        const int32_t token = argmax(rows.row(row), rows.cols);
        if (!ended()) run.tokens.push_back(token);
        ++accepted;
        if (row + 1 == rows.rows || ids[row + 1] != token) break;
      }
      run.accept_lengths.push_back(accepted);
      ids.resize(accepted);
      write_context(ids, start);
      start += accepted;
    }
    return run;
  }

  std::vector<int32_t> greedy(const std::vector<int32_t>& prompt, int32_t max_new, const std::vector<int32_t>& stops) {
    Tensor rows = target(prompt, 0, {});
    std::vector<int32_t> tokens = {argmax(rows.row(rows.rows - 1), rows.cols)};
    while (static_cast<int32_t>(tokens.size()) < max_new &&
           std::find(stops.begin(), stops.end(), tokens.back()) == stops.end()) {
      rows = target({tokens.back()}, static_cast<int32_t>(prompt.size() + tokens.size()) - 1, {});
      tokens.push_back(argmax(rows.row(0), rows.cols));
    }
    return tokens;
  }

  Tensor aux_hidden() const { return aux_hidden_; }

 private:
  static constexpr int32_t kLogRows = 64, kMaxBlock = 64;

  int32_t target_id(int32_t entry) const { return drafter_->id_map() != nullptr ? drafter_->id_map()[entry] : entry; }

  // All rounds of a refiner, whether drafts still change or not. logits: of the slots that predict; as the last round
  // leaves them, which begin in logits_.
  std::vector<int32_t> refine(Tensor hidden, Tensor logits, int32_t last_token) {
    const int32_t n = logits.rows, lead = hidden.rows - n;
    std::vector<float> base(logits.row(0), logits.row(0) + static_cast<ptrdiff_t>(n) * logits.cols);
    std::vector<int32_t> ids, wanted;
    for (int32_t row = 0; row < n; ++row) {
      ids.push_back(target_id(argmax(logits.row(row), logits.cols)));
      wanted.push_back(lead + row);
    }
    const BlockRefiner::Block block = {0, hidden.rows};
    drafter_->refiner()->begin(model_.ops(), hidden, {&block, 1});
    for (int32_t round = 0; round < drafter_->refiner()->rounds(); ++round) {
      std::vector<int32_t> before = {newest_id_, last_token};
      before.insert(before.end(), ids.begin(), ids.end());
      if (lead == 0) before.erase(before.begin());
      before.resize(static_cast<size_t>(hidden.rows));
      drafter_->refiner()->correct(model_.ops(), before, wanted, logits);
      model_.ops().reduce_add({base.data(), n, logits.cols, logits.cols}, logits);
      for (int32_t row = 0; row < n; ++row) {
        ids[static_cast<size_t>(row)] = target_id(argmax(logits.row(row), logits.cols));
      }
    }
    return ids;
  }

  // Of n rows of the target from `start` on. Recurrent layers can go back as far as their logs do.
  StateSpan next_state(int32_t start, int32_t n) {
    const StateSpan state = {0, start > 0 ? start - logged_from_ : 0, kLogRows, {}};
    ASHLAR_CHECK_GE(state.replays, 0);
    logged_from_ = start + n - state.logged(n);
    return state;
  }

  void fill(const std::vector<int32_t>& ids, int32_t start, const StateSpan& state = {}) {
    batch_.clear();
    batch_.begin_sequence(pages_.device(), 0, state);
    const auto end = start + static_cast<int32_t>(ids.size());
    for (size_t i = 0; i < ids.size(); ++i) {
      batch_.add_row(ids[i], start + static_cast<int32_t>(i), end);
      batch_.want_output();
    }
  }

  Model& model_;
  DflashDrafter* drafter_;
  RowBatch batch_;
  DeviceArray<int32_t> pages_;
  int32_t newest_row_ = 0;  // of aux_hidden_: before the last token
  int32_t newest_id_ = 0;   // the token there
  std::unique_ptr<KvMemory> kv_;
  int32_t logged_from_ = 0;  // position of the first row of the logs
  std::unique_ptr<Buffer> storage_;
  Tensor aux_hidden_, logits_;
};

}  // namespace ashlar::testing
