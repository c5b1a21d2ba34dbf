// SPDX-License-Identifier: Apache-2.0
#include "train/run/capture_run.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "device/copy_row.h"
#include "train/capture/hidden_capture.h"

namespace ashlar {
namespace {

// What a file has of a token: the drafter's layers in the order of its columns, and the last one.
std::vector<int32_t> layers_of_file(const HiddenLayout& layout, int32_t target_layers) {
  std::vector<int32_t> layers = layout.layers;
  layers.push_back(target_layers - 1);
  return layers;
}

class Writer {
 public:
  Writer(Model& model, const DocumentSet& documents, const HiddenStore& store, int32_t max_tokens)
      : ops_(model.ops()),
        documents_(documents),
        store_(store),
        capture_(model, layers_of_file(store.layout(), model.config().stack.n_layers), max_tokens, HiddenCapture::kRows,
                 store.layout().final_hidden) {}

  void write(std::span<const size_t> group) {
    std::vector<std::span<const int32_t>> ids;
    for (const size_t document : group) ids.push_back(documents_.ids(document));
    const std::span<const Tensor> found = capture_.capture(ids);
    for (size_t i = 0; i < group.size(); ++i) {
      const std::vector<float> states = values_of(found[i]);
      std::vector<float> finals;
      if (store_.layout().final_hidden) finals = values_of(capture_.final_hidden()[i]);
      // A document whose states are no numbers is computed anew in training, which skips it.
      if (!all_finite(states) || !all_finite(finals)) continue;
      write_hidden_file(store_.path_of(group[i]), ids[i], documents_.supervised(group[i]), store_.layout(),
                        {states, finals, ops_.activation_type()});
    }
  }

 private:
  static bool all_finite(std::span<const float> values) {
    return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
  }
  std::vector<float> values_of(Tensor rows) {
    ASHLAR_CHECK_EQ(rows.stride, rows.cols);
    const size_t n = static_cast<size_t>(rows.rows) * static_cast<size_t>(rows.cols);
    staging_.resize(n * bytes_of(rows.dtype));
    ops_.download(static_cast<const std::byte*>(rows.data), staging_.data(), staging_.size());
    rows.data = staging_.data();
    std::vector<float> values(n);
    for (int32_t row = 0; row < rows.rows; ++row) copy_row(rows, row, values.data() + int64_t{row} * rows.cols);
    return values;
  }

  Ops& ops_;
  const DocumentSet& documents_;
  const HiddenStore& store_;
  HiddenCapture capture_;
  std::vector<std::byte> staging_;
};

}  // namespace

HiddenLayout hidden_layout(const TrainedDrafter& drafter, const ModelConfig& target, const TrainOptions& options) {
  return {options.target, drafter.aux_layers, target.stack.hidden, options.distribution.has_value()};
}

int64_t capture_bytes(const Model& model, const DocumentSet& documents, const HiddenLayout& layout) {
  int64_t tokens = 0;
  for (const size_t document : documents.training()) tokens += documents.length(document);
  const int64_t width = layout.width() + layout.hidden * (layout.final_hidden ? 2 : 1);
  return tokens *
         (width * static_cast<int64_t>(bytes_of(model.ops().activation_type())) + 2 * int64_t{sizeof(int64_t)});
}

int64_t capture_documents(Model& model, const DocumentSet& documents, const HiddenStore& store, int32_t max_tokens,
                          const std::function<bool(int64_t done)>& go_on) {
  std::error_code failed;
  std::filesystem::create_directories(store.folder(), failed);
  if (failed) throw Error("file", store.folder().string() + ": cannot be made: " + failed.message());
  Writer writer(model, documents, store, max_tokens);
  int64_t done = 0, tokens = 0;
  std::vector<size_t> group;
  const auto write_group = [&] {
    writer.write(group);
    done += static_cast<int64_t>(group.size());
    group.clear();
    tokens = 0;
    return go_on(done);
  };
  for (const size_t document : documents.training()) {
    if (store.has(document)) {
      store.open(document, documents.ids(document));
      if (!go_on(++done)) return done;
      continue;
    }
    const int32_t length = documents.length(document);
    if (tokens > 0 && tokens + length > HiddenCapture::kRows && !write_group()) return done;
    group.push_back(document);
    tokens += length;
  }
  if (!group.empty()) write_group();
  return done;
}

}  // namespace ashlar
