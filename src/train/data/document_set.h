// SPDX-License-Identifier: Apache-2.0
#pragma once
// All documents of a training run as token ids in memory: 5 bytes a token.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "train/data/batch_order.h"
#include "train/data/document_encoder.h"

namespace ashlar {

/// Most tokens of all documents together: 5 GiB.
inline constexpr int64_t kMaxDataTokens = int64_t{1} << 30;

/// What became of the lines.
struct DataCounts {
  int64_t cut = 0;           ///< documents that were longer than the limit and lost their end
  int64_t unsupervised = 0;  ///< documents that were left out, since no token of them is learnt
  int64_t lost_turns = 0;    ///< turns of assistants whose tokens could not be found
  int64_t tokens = 0;        ///< of the documents that are there
  int64_t supervised = 0;    ///< of those, the learnt ones
};

class DocumentSet {
 public:
  /// `max_length`: most tokens of a document.
  explicit DocumentSet(int32_t max_length) : max_length_(max_length) {}

  /// Takes a document in, cut to the limit; leaves out one without a learnt token after its first. Throws
  /// Error("train", ...) beyond kMaxDataTokens.
  void add(const EncodedDocument& document);
  /// What was added since the last call is one file, of whose documents an epoch has each `weight` times.
  void end_file(double weight = 1);

  size_t size() const { return ends_.size(); }
  std::span<const int32_t> ids(size_t document) const;
  std::span<const uint8_t> supervised(size_t document) const;
  EncodedDocument document(size_t document) const;
  int32_t length(size_t document) const { return static_cast<int32_t>(ids(document).size()); }
  const DataCounts& counts() const { return counts_; }
  /// Of the document's file; 1 where that has not ended.
  double weight(size_t document) const;
  /// FNV-1a over all of it: other data have another one, unless by a chance of 2^-64.
  uint64_t fingerprint() const;

  /// Documents that are never trained on: those of hold_out(), or, where it was not called, of every file that has ten
  /// or more its last 2 %, one at least, together about 50 at most, so that each file has its share. Ascending.
  std::vector<size_t> held_out() const;
  /// `documents`: ascending.
  void hold_out(std::vector<size_t> documents) { held_out_ = std::move(documents); }
  /// All others. Ascending.
  std::vector<size_t> training() const;

 private:
  struct Extent {
    size_t begin, end;
  };
  Extent extent(size_t document) const { return {document == 0 ? 0 : ends_[document - 1], ends_[document]}; }

  int32_t max_length_;
  std::vector<int32_t> ids_;
  std::vector<uint8_t> supervised_;
  std::vector<size_t> ends_;     // of each document in these
  std::vector<size_t> files_;    // documents up to the end of each file
  std::vector<double> weights_;  // of each file
  std::optional<std::vector<size_t>> held_out_;
  DataCounts counts_;
};

/// A part of a file that stands for a file of its own.
struct DataPart {
  int64_t end = 0;  ///< lines up to its end
  double weight = 1;
};

/// Reads and encodes the files. Throws Error("train", ...), also where nothing is left to learn.
DocumentSet read_documents(std::span<const DataFile> files, const DocumentEncoder& encoder, int32_t max_length);
/// One file, of which each part is taken for a file. `parts`: ascending, the last one ends with the file.
DocumentSet read_documents(const std::filesystem::path& file, std::span<const DataPart> parts,
                           const DocumentEncoder& encoder, int32_t max_length);

/// What an order of these documents needs of them.
std::vector<OrderedDocument> ordered_documents(const DocumentSet& documents, std::span<const size_t> chosen);

/// "8 310 documents, 1 204 331 tokens, 700 121 of them learnt" and what was cut, left out or not found: a sentence
/// each.
std::vector<std::string> describe_data(const DocumentSet& documents, int32_t max_length);

}  // namespace ashlar
