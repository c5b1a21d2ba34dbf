// SPDX-License-Identifier: Apache-2.0
#pragma once
// A document's hidden states in a file, as vLLM's speculators exchange them: a safetensors file with token_ids [tokens]
// and hidden_states [tokens, layers + 1, hidden], the last of which is the target's last layer before its final norm.
// Ours say more: loss_mask [tokens], final_hidden [tokens, hidden] (what the head takes) where it was asked for, and in
// the metadata which target and which layers they are of. Source: vllm-project/speculators, data_generation.

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "device/tensor.h"
#include "io/weights/safetensors.h"

namespace ashlar {

/// What a file must hold to be of use.
struct HiddenLayout {
  std::string target;           ///< a mark of the target's weights (io/weights/weights_mark.h)
  std::vector<int32_t> layers;  ///< target layers in the order of the drafter's columns, from 0
  int32_t hidden = 0;           ///< of the target
  bool final_hidden = false;    ///< what the head takes is needed, too

  int32_t width() const { return static_cast<int32_t>(layers.size()) * hidden; }
};

/// Numbers of a document, each [tokens, ...] in rows without gaps.
struct HiddenStates {
  std::span<const float> states;        ///< [tokens, layers + 1, hidden]
  std::span<const float> final_hidden;  ///< [tokens, hidden], or empty
  DType type;                           ///< what they are stored as, which holds each of them exactly
};

/// What our files say of themselves.
std::map<std::string, std::string> metadata_of(const HiddenLayout& layout);

/// Replaces the file at once when it is on the disk. Throws Error("file", ...).
void write_hidden_file(const std::filesystem::path& path, std::span<const int32_t> ids,
                       std::span<const uint8_t> supervised, const HiddenLayout& layout, const HiddenStates& states);

class HiddenFile {
 public:
  /// Opens the file and checks that it is of these tokens and of this layout. A file without metadata, which others
  /// wrote, is taken to be of this target and its layers. Throws Error("train", ...) or Error("safetensors", ...) that
  /// names the file, what was found and what was expected.
  HiddenFile(const std::filesystem::path& path, std::span<const int32_t> ids, const HiddenLayout& layout);

  /// Reads all of it. Throws Error("train", ...) if it is not what was written; files of others say nothing of that.
  void check_content() const;

  /// to: [tokens, layout.width()] of `type`: the auxiliary hidden states, rounded where the file has more bits. Throws
  /// Error("train", ...) if a number is none.
  void read_aux(DType type, std::byte* to) const;
  /// to: [tokens, hidden], likewise: the target's last layer before its norm.
  void read_last(DType type, std::byte* to) const;
  /// to: [tokens, hidden], likewise; of a layout with final_hidden.
  void read_final(DType type, std::byte* to) const;

 private:
  void check_metadata(const HiddenLayout& layout) const;
  void check_ids(std::span<const int32_t> ids) const;
  struct Columns {
    int64_t of, begin, n;
  };
  void read(const StoredTensor& from, Columns columns, DType type, std::byte* to) const;

  std::filesystem::path path_;
  SafetensorsFile file_;
  int64_t width_, hidden_;
  const StoredTensor* states_ = nullptr;
  const StoredTensor* final_ = nullptr;
};

}  // namespace ashlar
