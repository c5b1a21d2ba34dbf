// SPDX-License-Identifier: Apache-2.0
#include "train/replicas/replica.h"

#include <utility>

#include "base/check.h"
#include "base/error.h"

namespace ashlar {
namespace {

// For checkpoints and whatever else is on that disk.
constexpr uintmax_t kRoomLeft = uintmax_t{2} << 30;

void check_room(const std::filesystem::path& folder) {
  std::error_code unknown;
  const std::filesystem::space_info space = std::filesystem::space(folder, unknown);
  if (unknown || space.available >= kRoomLeft) return;
  throw Error("file", folder.string() + ": less than 2 GiB are free there");
}

}  // namespace

Replica::Replica(const TrainPlace& place, const TrainedDrafter& drafter, const TrainOptions& options,
                 int32_t max_tokens)
    : model_(*place.model),
      max_tokens_(max_tokens),
      capture_(*place.model, drafter.aux_layers, max_tokens, HiddenCapture::kRows, options.distribution.has_value()),
      keeps_(options.keeps_hidden_states),
      learns_distributions_(options.distribution.has_value()),
      trainer_(place.make_trainer(drafter, options)),
      all_reduce_(place.all_reduce) {
  const HiddenLayout layout = hidden_layout(drafter, place.model->config(), options);
  if (!options.hidden_states.empty()) store_ = std::make_unique<HiddenStore>(options.hidden_states, layout);
  if (!options.hidden_server.url.empty()) server_ = std::make_unique<HiddenServer>(options.hidden_server);
  if (store_ && keeps_) store_->remove_abandoned();  // here: later another replica may be writing
  if (store_ || server_) stored_ = std::make_unique<StoredHidden>(*place.model, layout);
}

// Where the folder cannot be written, or the disk is nearly full, training goes on with what is computed each time.
void Replica::keep(std::span<const EncodedView> documents, const std::function<bool(size_t)>& is_here) {
  if (!keeps_) return;
  std::vector<HiddenWriter::Document> missing;
  for (size_t i = 0; i < documents.size(); ++i) {
    if (!is_here(i) || !is_missing(documents[i])) continue;
    missing.push_back({*documents[i].number, documents[i].ids, documents[i].supervised});
  }
  if (missing.empty()) return;
  try {
    check_room(store_->folder());
    if (writer_ == nullptr) writer_ = std::make_unique<HiddenWriter>(model_, *store_, max_tokens_);
    writer_->write(missing);
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception& error) {
    keeps_ = false;
    writer_.reset();
    const auto* named = dynamic_cast<const Error*>(&error);
    not_kept_ = named != nullptr ? std::string(named->message()) : message_of(error);
  }
}

std::string Replica::take_not_kept() { return std::exchange(not_kept_, {}); }

std::span<const TrainDocument> Replica::capture(std::span<const EncodedView> documents, std::span<const int32_t> shares,
                                                int32_t share) {
  ASHLAR_CHECK(shares.empty() || shares.size() == documents.size());
  const auto is_here = [&](size_t i) { return shares.empty() || shares[i] == share; };
  keep(documents, is_here);
  std::vector<std::span<const int32_t>> computed, asked;
  std::vector<StoredDocument> read;
  std::vector<size_t> computed_at, read_at, asked_at;  // in documents
  batch_.clear();
  for (size_t i = 0; i < documents.size(); ++i) {
    batch_.push_back({documents[i].ids, documents[i].supervised, Tensor{}});
    if (!is_here(i)) continue;
    if (is_stored(documents[i])) {
      read.push_back({store_->path_of(*documents[i].number), documents[i].ids});
      read_at.push_back(i);
    } else if (server_ && documents[i].number) {
      asked.push_back(documents[i].ids);
      asked_at.push_back(i);
    } else {
      computed.push_back(documents[i].ids);
      computed_at.push_back(i);
    }
  }
  const auto put = [&](std::span<const size_t> at, std::span<const Tensor> hidden, std::span<const Tensor> finals) {
    for (size_t i = 0; i < at.size(); ++i) {
      batch_[at[i]].aux_hidden = hidden[i];
      if (learns_distributions_) batch_[at[i]].final_hidden = finals[i];
    }
  };
  struct Served {
    std::vector<ServedFile> files;
    ~Served() { HiddenServer::remove(files); }
  } served;  // files are taken away whether they could be read or not
  if (!asked.empty()) served.files = server_->ask(asked);
  for (size_t i = 0; i < served.files.size(); ++i) read.push_back({served.files[i].path, asked[i], false});
  read_at.insert(read_at.end(), asked_at.begin(), asked_at.end());
  if (!read.empty()) {
    const std::span<const Tensor> hidden = stored_->load(read);
    put(read_at, hidden, stored_->final_hidden());
  }
  const std::span<const Tensor> hidden = capture_.capture(computed);
  put(computed_at, hidden, capture_.final_hidden());
  return batch_;
}

}  // namespace ashlar
