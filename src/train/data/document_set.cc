// SPDX-License-Identifier: Apache-2.0
#include "train/data/document_set.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "train/data/fingerprint.h"

namespace ashlar {
namespace {

constexpr int64_t kHeldOutPercent = 2;
constexpr int64_t kMaxHeldOut = 50;
constexpr int64_t kFewestForHolding = 10;  // documents of a file

void check_learnt(const DocumentSet& documents, const std::filesystem::path& file) {
  if (documents.size() > 0) return;
  throw Error("train", file.string() +
                           ": no document has a token to learn; expected turns of an assistant, "
                           "responses, texts or ids whose mask is 1");
}

}  // namespace

void DocumentSet::add(const EncodedDocument& document) {
  const size_t length = std::min(document.ids.size(), static_cast<size_t>(max_length_));
  counts_.lost_turns += document.lost_turns;
  const auto first = document.supervised.begin(), last = first + static_cast<std::ptrdiff_t>(length);
  if (length < 2 || std::find(first + 1, last, 1) == last) {
    ++counts_.unsupervised;
    return;
  }
  if (length < document.ids.size()) ++counts_.cut;
  counts_.tokens += static_cast<int64_t>(length);
  if (counts_.tokens > kMaxDataTokens) {
    throw Error("train",
                "the data have more than " + std::to_string(kMaxDataTokens) + " tokens; expected at most that");
  }
  counts_.supervised += std::count(first, last, 1);
  ids_.insert(ids_.end(), document.ids.begin(), document.ids.begin() + static_cast<std::ptrdiff_t>(length));
  supervised_.insert(supervised_.end(), first, last);
  ends_.push_back(ids_.size());
}

void DocumentSet::end_file(double weight) {
  files_.push_back(ends_.size());
  weights_.push_back(weight);
}

double DocumentSet::weight(size_t document) const {
  const auto file = std::upper_bound(files_.begin(), files_.end(), document);
  return file == files_.end() ? 1 : weights_[static_cast<size_t>(file - files_.begin())];
}

std::span<const int32_t> DocumentSet::ids(size_t document) const {
  const Extent at = extent(document);
  return std::span(ids_).subspan(at.begin, at.end - at.begin);
}

EncodedDocument DocumentSet::document(size_t document) const {
  const std::span<const int32_t> own_ids = ids(document);
  const std::span<const uint8_t> learnt = supervised(document);
  return {{own_ids.begin(), own_ids.end()}, {learnt.begin(), learnt.end()}};
}

std::span<const uint8_t> DocumentSet::supervised(size_t document) const {
  const Extent at = extent(document);
  return std::span(supervised_).subspan(at.begin, at.end - at.begin);
}

uint64_t DocumentSet::fingerprint() const {
  uint64_t hash = kNoBytes;
  hash = fingerprint_with(hash, std::as_bytes(std::span(ids_)));
  hash = fingerprint_with(hash, std::as_bytes(std::span(supervised_)));
  hash = fingerprint_with(hash, std::as_bytes(std::span(ends_)));
  hash = fingerprint_with(hash, std::as_bytes(std::span(files_)));
  // States of runs that weigh all files alike say nothing of weights.
  if (std::ranges::count(weights_, 1.0) == std::ssize(weights_)) return hash;
  return fingerprint_with(hash, std::as_bytes(std::span(weights_)));
}

std::vector<size_t> DocumentSet::held_out() const {
  if (held_out_) return *held_out_;
  std::vector<size_t> out;
  const auto all = static_cast<int64_t>(size());
  size_t begin = 0;
  for (const size_t end : files_) {
    const auto n = static_cast<int64_t>(end - begin);
    begin = end;
    if (n < kFewestForHolding) continue;
    const int64_t share = std::max<int64_t>(1, kMaxHeldOut * n / all);
    const int64_t held = std::min((n * kHeldOutPercent + 99) / 100, share);
    for (int64_t i = held; i > 0; --i) out.push_back(end - static_cast<size_t>(i));
  }
  return out;
}

std::vector<size_t> DocumentSet::training() const {
  std::vector<size_t> all(size());
  std::iota(all.begin(), all.end(), size_t{0});
  const std::vector<size_t> held = held_out();
  std::vector<size_t> out;
  std::set_difference(all.begin(), all.end(), held.begin(), held.end(), std::back_inserter(out));
  return out;
}

DocumentSet read_documents(std::span<const DataFile> files, const DocumentEncoder& encoder, int32_t max_length) {
  DocumentSet documents(max_length);
  for (const DataFile& file : files) {
    read_examples(file.path, [&](const TrainingExample& example) { documents.add(encoder.encode(example)); });
    documents.end_file(file.weight);
  }
  check_learnt(documents, files.front().path);
  return documents;
}

DocumentSet read_documents(const std::filesystem::path& file, std::span<const DataPart> parts,
                           const DocumentEncoder& encoder, int32_t max_length) {
  DocumentSet documents(max_length);
  int64_t lines = 0;
  const auto end_parts = [&] {
    for (; !parts.empty() && parts.front().end <= lines; parts = parts.subspan(1)) {
      documents.end_file(parts.front().weight);
    }
  };
  read_examples(file, [&](const TrainingExample& example) {
    end_parts();  // one without lines ends before the first
    documents.add(encoder.encode(example));
    ++lines;
  });
  end_parts();
  check_learnt(documents, file);
  return documents;
}

std::vector<OrderedDocument> ordered_documents(const DocumentSet& documents, std::span<const size_t> chosen) {
  std::vector<OrderedDocument> out;
  for (const size_t document : chosen) out.push_back({documents.length(document), documents.weight(document)});
  return out;
}

std::vector<std::string> describe_data(const DocumentSet& documents, int32_t max_length) {
  const DataCounts& counts = documents.counts();
  std::vector<std::string> out = {std::to_string(documents.size()) + " documents, " + std::to_string(counts.tokens) +
                                  " tokens, " + std::to_string(counts.supervised) + " of them learnt"};
  const auto say = [&out](int64_t n, const std::string& what) {
    if (n > 0) out.push_back(std::to_string(n) + what);
  };
  say(counts.cut,
      " documents were longer than " + std::to_string(max_length) + " tokens and lost their end (--max-length)");
  say(counts.unsupervised, " documents were left out: no token of theirs is learnt");
  say(counts.lost_turns,
      " turns of assistants are not learnt: the template writes what is before them otherwise once "
      "the conversation goes on");
  return out;
}

}  // namespace ashlar
