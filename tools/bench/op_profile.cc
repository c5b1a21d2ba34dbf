// SPDX-License-Identifier: Apache-2.0
// op_profile MODEL[+DRAFTER] THREADS CONTEXT ROUNDS SEQUENCESxROWS[:OUTPUTS]...: where a pass of the target spends its
// time, op by op, for batches of that many sequences and rows each, in turns; the last OUTPUTS rows of a sequence (all)
// are asked for. Each sequence has CONTEXT tokens in the cache. With a drafter, its passes of as many rows stand next
// to those of the target, each run before it as when serving. Prints the 10th percentile of every op's sum over a pass,
// in microseconds. ASHLAR_FORCE_ISA chooses the instruction set, ASHLAR_WEIGHTS (exact, int8, int4, fp8) what is kept.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>

#include "base/clock.h"
#include "device/device.h"
#include "device/weights/kept_weights.h"
#include "measure/engine/kernel_bench.h"
#include "measure/statistics.h"
#include "model/drafters/dflash.h"
#include "model/model.h"

namespace {

using namespace ashlar;

struct Layout {
  std::string name;
  int32_t sequences = 0;
  int32_t rows = 0;
  int32_t outputs = 0;  // of each sequence
  bool drafts = false;
  std::map<std::string, std::vector<double>> spent;  // microseconds a pass
  std::vector<double> whole;
};

class Passes {
 public:
  Passes(Model& model, DflashDrafter* drafter, TimedOps& ops, int32_t context, int32_t sequences, int32_t rows)
      : model_(model),
        drafter_(drafter),
        ops_(ops),
        context_(context),
        batch_(ops, std::max(sequences * rows, context), sequences) {
    model.reserve(batch_.max_rows());
    KvLayout layout;
    layout.keep_log(rows);
    model.register_state(layout);
    if (drafter != nullptr) {
      drafter->reserve(1, sequences * rows);
      drafter->register_state(layout);
    }
    pages_of_one_ = (context + rows) / kPageTokens + 1;
    pages_.resize(static_cast<size_t>(pages_of_one_) * sequences);
    std::iota(pages_.begin(), pages_.end(), 0);
    kv_ = std::make_unique<KvMemory>(ops, layout, static_cast<int32_t>(pages_.size()), sequences);
    for (int32_t s = 0; s < sequences; ++s) {
      batch_.clear();
      add(s, 0, context, 0);
      model.forward(batch_, *kv_, {});
    }
  }

  void run(Layout& layout) {
    batch_.clear();
    for (int32_t s = 0; s < layout.sequences; ++s) add(s, context_, layout.rows, layout.outputs);
    ids_.resize(batch_.n());
    ops_.record();
    const int64_t begin = now_ns();
    if (layout.drafts) {
      drafter_->head_argmax(drafter_->forward(batch_, *kv_), ids_.data());
    } else if (model_.config().diffusion) {
      statistics_.resize(batch_.n_outputs());
      model_.head_statistics(model_.forward(batch_, *kv_, {}), -1, statistics_.data());
    } else {
      model_.head_argmax(model_.forward(batch_, *kv_, {}), ids_.data());
    }
    layout.whole.push_back(static_cast<double>(now_ns() - begin) * 1e-3);
    for (const KernelRow& row : by_op(ops_.take())) layout.spent[row.op].push_back(row.seconds * 1e6);
  }

 private:
  void add(int32_t sequence, int32_t start, int32_t rows, int32_t outputs) {
    // As if none of the rows were committed, and the one before them was.
    const StateSpan state = {sequence, start > 0 ? 1 : 0, start > 0 ? rows : 1, {}};
    batch_.begin_sequence(pages_.data() + int64_t{sequence} * pages_of_one_, 0, state);
    for (int32_t r = 0; r < rows; ++r) {
      batch_.add_row((start + r * 37 + sequence * 101) % model_.config().vocab, start + r, start + rows);
      if (r >= rows - outputs) batch_.want_output();
    }
  }

  Model& model_;
  DflashDrafter* drafter_;
  TimedOps& ops_;
  int32_t context_;
  int32_t pages_of_one_;
  RowBatch batch_;
  std::vector<int32_t> pages_, ids_;
  std::vector<RowStatistics> statistics_;
  std::unique_ptr<KvMemory> kv_;
};

KeptWeights weights_of(const std::string& name) {
  if (const auto weights = kept_weights_of(name)) return *weights;
  throw std::runtime_error("no weights '" + name + "'; expected " + kKeptWeightsNames);
}

void profile(int argc, char** argv) {
  DeviceOptions device;
  device.threads = std::atoi(argv[2]);
  if (const char* isa = std::getenv("ASHLAR_FORCE_ISA")) device.isa = isa;
  if (const char* weights = std::getenv("ASHLAR_WEIGHTS")) device.weights = weights_of(weights);
  const std::unique_ptr<Ops> ops = make_device("cpu", device);
  TimedOps timed(*ops);
  const std::string folders = argv[1];
  const size_t plus = folders.find('+');
  const std::unique_ptr<Model> model = Model::load(timed, folders.substr(0, plus));
  const std::unique_ptr<DflashDrafter> drafter =
      plus == std::string::npos ? nullptr : DflashDrafter::load(*model, folders.substr(plus + 1));
  std::vector<Layout> layouts;
  int32_t max_sequences = 0;
  int32_t max_rows = 0;
  for (int i = 5; i < argc; ++i) {
    Layout layout;
    layout.name = argv[i];
    layout.sequences = std::atoi(argv[i]);
    layout.rows = std::atoi(layout.name.substr(layout.name.find('x') + 1).c_str());
    const size_t colon = layout.name.find(':');
    layout.outputs = colon == std::string::npos ? layout.rows : std::atoi(layout.name.substr(colon + 1).c_str());
    max_sequences = std::max(max_sequences, layout.sequences);
    max_rows = std::max(max_rows, layout.rows);
    if (drafter) {
      layouts.push_back(layout);
      layouts.back().name = "d" + layout.name;
      layouts.back().drafts = true;
    }
    layouts.push_back(layout);
  }
  Passes passes(*model, drafter.get(), timed, std::atoi(argv[3]), max_sequences, max_rows);
  for (Layout& layout : layouts) passes.run(layout);
  for (Layout& layout : layouts) layout.spent.clear(), layout.whole.clear();
  for (int round = 0; round < std::atoi(argv[4]); ++round) {
    for (Layout& layout : layouts) passes.run(layout);
  }
  std::printf("%s, %d threads\n%-28s", ops->isa().c_str(), ops->threads(), "us a pass");
  for (const Layout& layout : layouts) std::printf("%10s", layout.name.c_str());
  std::set<std::string> ops_seen;
  for (const Layout& layout : layouts) {
    for (const auto& [op, values] : layout.spent) ops_seen.insert(op);
  }
  for (const std::string& op : ops_seen) {
    std::printf("\n%-28s", op.c_str());
    for (Layout& layout : layouts) std::printf("%10.1f", quantile(layout.spent[op], 0.1));
  }
  std::printf("\n%-28s", "whole");
  for (const Layout& layout : layouts) std::printf("%10.1f", quantile(layout.whole, 0.1));
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fputs("op_profile MODEL[+DRAFTER] THREADS CONTEXT ROUNDS SEQUENCESxROWS[:OUTPUTS]...\n", stderr);
    return 2;
  }
  try {
    profile(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
