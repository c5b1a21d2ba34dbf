// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text to token ids and back, as a Hugging Face model folder (tokenizer.json or tokenizer.model) or a GGUF file
// describes it.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "text/template/origins.h"

namespace ashlar {

struct EncodeOptions {
  bool add_special_tokens = false;  // what the post-processor puts around a text, such as a beginning-of-text token
  bool parse_special = true;        // false: the spelling of a special token in the text is text like any other
  bool parse_added = true;          // false: that of any added token is
};

/// Byte-level or character BPE, or a unigram model. Ids are those of the Python package `tokenizers` for the same file;
/// `truncation` and `padding` of the file are ignored, and an added token always has the id that the file states.
/// Immutable: every const method may be called from several threads at once.
class Tokenizer {
 public:
  /// Reads a tokenizer.json of at most 128 MiB. Throws Error("tokenizer", ...) that names the file and the field when
  /// it is not valid or asks for something that is not supported.
  static Tokenizer from_file(const std::filesystem::path& tokenizer_json);
  /// Of a model: its folder's tokenizer.json, or where that is missing its tokenizer.model (SentencePiece) with what
  /// tokenizer_config.json and added_tokens.json add; or the metadata of a GGUF file.
  static Tokenizer from_model(const std::filesystem::path& model);
  /// The same as from_file from memory; `name` stands for the file in errors.
  static Tokenizer from_json(std::string_view text, std::string_view name);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Ids of `text` (at most 1 GiB). Broken UTF-8 counts as U+FFFD, one per maximal broken subpart, as Python's
  /// errors="replace" has it. Throws Error when a regular expression of the file exceeds its matching limits on the
  /// text.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  /// Ids of a text of which parts are a caller's, to whom special tokens (where Origin::kSaid: tags such as <think>,
  /// too) are text like any other: a spelling that has a byte of such a part is no token. Nothing else depends on
  /// origins: words reach over their borders.
  std::vector<int32_t> encode(const SourcedText& text) const;

  /// Text of `ids`, valid UTF-8. Ids that the vocabulary lacks stand for nothing.
  std::string decode(std::span<const int32_t> ids, bool skip_special_tokens) const;

  /// What a token adds to the text: for a byte-level vocabulary, and for a token that stands for a byte, the bytes
  /// themselves, which need not be whole characters. Empty for an unknown id. The view lives as long as the tokenizer.
  std::string_view piece_bytes(int32_t id) const;

  /// Id of the token with this spelling in the file, added tokens included.
  std::optional<int32_t> token_id(std::string_view content) const;
  /// The spelling in the file; empty for an unknown id.
  std::string_view token_content(int32_t id) const;

  /// True for added tokens marked special: those that decode leaves out on request.
  bool is_special(int32_t id) const;
  /// True for added tokens: those that are cut out of a text before everything else.
  bool is_added(int32_t id) const;
  /// Highest id + 1.
  int32_t vocab_size() const;

 private:
  friend class Detokenizer;
  struct Parts;
  struct Source;
  std::vector<int32_t> encode(const Source& source) const;
  static Tokenizer from_root(const Json& root, const std::string& file);
  explicit Tokenizer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ashlar
