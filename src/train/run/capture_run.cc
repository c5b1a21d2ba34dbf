// SPDX-License-Identifier: Apache-2.0
#include "train/run/capture_run.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "device/copy_row.h"
#include "io/mapped_file.h"
#include "io/weights/hashed_file.h"

namespace ashlar {
namespace {

// What a file has of a token: the drafter's layers in the order of its columns, and the last one.
std::vector<int32_t> layers_of_file(const HiddenLayout& layout, int32_t target_layers) {
  std::vector<int32_t> layers = layout.layers;
  layers.push_back(target_layers - 1);
  return layers;
}

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

// What is wrong with a file that is there, which is then made anew; empty: nothing. Throws where it is of other data.
std::string damage_in(const HiddenStore& store, size_t document, std::span<const int32_t> ids) {
  const std::filesystem::path path = store.path_of(document);
  { const MappedFile readable(path); }  // one that may not be read is not damaged
  try {
    const std::string damage = damage_of(SafetensorsFile(path));
    if (!damage.empty()) return path.string() + ": " + damage;
  } catch (const Error& error) {
    return std::string(error.message());
  }
  store.open(document, ids);
  return {};
}

}  // namespace

HiddenWriter::HiddenWriter(Model& model, const HiddenStore& store, int32_t max_tokens)
    : ops_(model.ops()),
      store_(store),
      capture_(model, layers_of_file(store.layout(), model.config().stack.n_layers), max_tokens, HiddenCapture::kRows,
               store.layout().final_hidden) {}

void HiddenWriter::write(std::span<const Document> documents) {
  std::vector<std::span<const int32_t>> ids;
  for (const Document& document : documents) ids.push_back(document.ids);
  const std::span<const Tensor> found = capture_.capture(ids);
  for (size_t i = 0; i < documents.size(); ++i) {
    const std::vector<float> states = values_of(found[i]);
    std::vector<float> finals;
    if (store_.layout().final_hidden) finals = values_of(capture_.final_hidden()[i]);
    if (!all_finite(states) || !all_finite(finals)) continue;
    write_hidden_file(store_.path_of(documents[i].number), ids[i], documents[i].supervised, store_.layout(),
                      {states, finals, ops_.activation_type()});
  }
}

std::vector<float> HiddenWriter::values_of(Tensor rows) {
  ASHLAR_CHECK_EQ(rows.stride, rows.cols);
  const size_t n = static_cast<size_t>(rows.rows) * static_cast<size_t>(rows.cols);
  staging_.resize(n * bytes_of(rows.dtype));
  ops_.download(static_cast<const std::byte*>(rows.data), staging_.data(), staging_.size());
  rows.data = staging_.data();
  std::vector<float> values(n);
  for (int32_t row = 0; row < rows.rows; ++row) copy_row(rows, row, values.data() + int64_t{row} * rows.cols);
  return values;
}

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
                          const std::function<bool(int64_t done)>& go_on,
                          const std::function<void(const std::string& what)>& on_damaged) {
  std::error_code failed;
  std::filesystem::create_directories(store.folder(), failed);
  if (failed) throw Error("file", store.folder().string() + ": cannot be made: " + failed.message());
  store.remove_abandoned();
  HiddenWriter writer(model, store, max_tokens);
  int64_t done = 0, tokens = 0;
  std::vector<HiddenWriter::Document> group;
  const auto write_group = [&] {
    writer.write(group);
    done += static_cast<int64_t>(group.size());
    group.clear();
    tokens = 0;
    return go_on(done);
  };
  for (const size_t document : documents.training()) {
    if (store.has(document)) {
      const std::string damage = damage_in(store, document, documents.ids(document));
      if (damage.empty()) {
        if (!go_on(++done)) return done;
        continue;
      }
      if (on_damaged) on_damaged(damage);
    }
    const int32_t length = documents.length(document);
    if (tokens > 0 && tokens + length > HiddenCapture::kRows && !write_group()) return done;
    group.push_back({document, documents.ids(document), documents.supervised(document)});
    tokens += length;
  }
  if (!group.empty()) write_group();
  return done;
}

}  // namespace ashlar
