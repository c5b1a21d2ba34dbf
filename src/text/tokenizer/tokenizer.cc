// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/tokenizer.h"

#include <array>

#include "base/error.h"
#include "io/json.h"
#include "io/mapped_file.h"
#include "text/tokenizer/detokenizer.h"
#include "text/tokenizer/gguf/gguf_tokenizer.h"
#include "text/tokenizer/sentencepiece/sentencepiece_tokenizer.h"
#include "text/tokenizer/tokenizer_parts.h"
#include "text/tokenizer/utf8.h"

namespace ashlar {
namespace {

using text::JsonNode;

constexpr const char* kTag = "tokenizer";
constexpr size_t kMaxFileBytes = 128U << 20;
constexpr size_t kMaxTextBytes = 1U << 30;
constexpr size_t kMaxPieceBytes = 256U << 20;
constexpr size_t kMaxAddedBytes = 8U << 20;  // of all added tokens together; those in use have 200 KB at most

// What `read` gives; its errors become the tokenizer's.
template <class Read>
auto as_tokenizer(Read read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(kTag, error.message());
  }
}

// What the pieces of byte tokens point into.
const std::array<char, 256>& every_byte() {
  static const std::array<char, 256> bytes = [] {
    std::array<char, 256> all{};
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<char>(i);
    return all;
  }();
  return bytes;
}

void check_size(std::string_view text) {
  if (text.size() > kMaxTextBytes) {
    throw Error(kTag,
                "a text of " + std::to_string(text.size()) + " bytes; the limit is " + std::to_string(kMaxTextBytes));
  }
}

}  // namespace

Tokenizer::Parts::Parts(const JsonNode& root)
    : normalizer(root.find("normalizer")),
      pre_tokenizer(root.find("pre_tokenizer")),
      model(text::TokenModel::make(root.at("model"), pre_tokenizer.byte_level())),
      post_processor(root.find("post_processor")),
      decoder(root.find("decoder")) {
  const text::TokenTable& vocabulary = model->vocabulary();
  tokens.reserve(vocabulary.size());
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto [content, id] = vocabulary[i];
    if (tokens.size() <= static_cast<size_t>(id)) tokens.resize(static_cast<size_t>(id) + 1);
    tokens[static_cast<size_t>(id)].content = content;
  }
  if (const auto added = root.find("added_tokens")) add_tokens(*added);
  size_t bytes = 0;
  for (Token& token : tokens) {
    token.piece = decoder.piece_of(token.content);
    bytes += token.piece.size();
    if (bytes > kMaxPieceBytes) {
      root.fail("the decoder makes more than " + std::to_string(kMaxPieceBytes) +
                " bytes of the vocabulary, which is the limit");
    }
  }
  for (const int32_t id : post_processor.ids()) {
    if (!known(id)) root.fail("post_processor uses the id " + std::to_string(id) + ", which no token has");
  }
}

void Tokenizer::Parts::add_tokens(const JsonNode& node) {
  const std::vector<text::AddedToken> added = text::read_added_tokens(node);
  for (const text::AddedToken& token : added) {
    const auto in_vocabulary = model->vocabulary().find(token.content);
    if (in_vocabulary && *in_vocabulary != token.id) {
      node.fail("'" + for_message(token.content) + "' has the id " + std::to_string(token.id) + " here and " +
                std::to_string(*in_vocabulary) + " in model.vocab");
    }
    if (known(token.id) && tokens[static_cast<size_t>(token.id)].content != token.content) {
      node.fail("the id " + std::to_string(token.id) + " of '" + for_message(token.content) + "' belongs to '" +
                for_message(tokens[static_cast<size_t>(token.id)].content) + "'");
    }
    if (tokens.size() <= static_cast<size_t>(token.id)) tokens.resize(static_cast<size_t>(token.id) + 1);
    tokens[static_cast<size_t>(token.id)] = {token.content, {}, token.special};
    added_ids.add(token.content, token.id);
  }
  // Special tokens come first: of two tokens whose normalised forms are equal the reference finds the special one.
  std::vector<text::AddedTokenMatcher::Pattern> raw, normalized;
  size_t bytes = 0;
  for (const bool special : {true, false}) {
    for (const text::AddedToken& token : added) {
      if (token.special != special) continue;
      auto& patterns = token.normalized ? normalized : raw;
      const bool as_it_is = !token.normalized || token.literal;
      patterns.push_back({as_it_is ? token.content : normalizer.normalize(token.content), token});
      bytes += patterns.back().text.size();
      if (bytes > kMaxAddedBytes) {
        node.fail("the tokens take more than " + std::to_string(kMaxAddedBytes) +
                  " bytes in all after normalisation, which is the limit");
      }
    }
  }
  raw_matcher = text::AddedTokenMatcher(std::move(raw));
  normalized_matcher = text::AddedTokenMatcher(std::move(normalized));
}

Tokenizer::Tokenizer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Tokenizer Tokenizer::from_file(const std::filesystem::path& tokenizer_json) {
  const auto read = [&] { return read_text_file(tokenizer_json, kMaxFileBytes); };
  return from_json(as_tokenizer(read), tokenizer_json.string());
}

Tokenizer Tokenizer::from_json(std::string_view text, std::string_view name) {
  const std::string file(name);
  return from_root(as_tokenizer([&] { return parse_json(text, file); }), file);
}

Tokenizer Tokenizer::from_model(const std::filesystem::path& model) {
  if (is_gguf(model)) return from_root(text::gguf_tokenizer_json(open_gguf_metadata(model)), model.string());
  if (file_exists(model / "tokenizer.json")) return from_file(model / "tokenizer.json");
  const std::filesystem::path pieces = model / "tokenizer.model";
  if (!file_exists(pieces)) {
    throw Error("tokenizer",
                model.string() +
                    " has neither tokenizer.json nor tokenizer.model; expected one of the model's: fetch it from the "
                    "model's repository, or write it by transformers' AutoTokenizer and save_pretrained(FOLDER)");
  }
  const auto object = [&](const char* name) {
    return file_exists(model / name) ? read_json_file(model / name, RepeatedKeys::kLastHolds) : Json();
  };
  const Json root = as_tokenizer([&] {
    const std::string bytes = read_text_file(pieces, kMaxFileBytes);
    return text::sentencepiece_tokenizer_json(text::parse_sentencepiece(bytes, pieces.string()),
                                              object("tokenizer_config.json"), object("added_tokens.json"),
                                              pieces.string());
  });
  return from_root(root, pieces.string());
}

Tokenizer Tokenizer::from_root(const Json& root, const std::string& file) {
  try {
    return Tokenizer(std::make_unique<Parts>(JsonNode(root, file)));
  } catch (const Error& error) {
    // Steps that fail on a token of the file do not know the file.
    if (error.message().starts_with(file)) throw;
    throw Error(kTag, file + ": " + std::string(error.message()));
  }
}

// A text to encode, and which added tokens are looked for in it.
struct Tokenizer::Source {
  std::string_view text;  // valid UTF-8
  const Origins& origins;
  EncodeOptions options;

  using Choice = text::AddedTokenMatcher::Choice;
  Choice choose(const text::AddedToken& token, Origin greatest) const {
    if (token.special && !options.parse_special) return Choice::kLeave;
    const Origin most = token.special ? Origin::kTemplate : token.is_tag() ? Origin::kData : Origin::kSaid;
    return greatest <= most ? Choice::kTake : Choice::kOther;
  }
};

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  check_size(text);
  std::string repaired;
  if (!text::is_valid_utf8(text)) {
    repaired = text::replace_invalid_utf8(text);
    text = repaired;
  }
  std::vector<int32_t> ids = encode(Source{text, Origin::kTemplate, options});
  if (options.add_special_tokens) parts_->post_processor.apply(ids);
  return ids;
}

std::vector<int32_t> Tokenizer::encode(const SourcedText& text) const {
  check_size(text.bytes);
  if (text::is_valid_utf8(text.bytes)) return encode(Source{text.bytes, text.origins, {}});
  SourcedText repaired;
  size_t begin = 0;
  std::vector<Origins::Run> runs = text.origins.runs();
  if (runs.empty()) runs.push_back({text.bytes.size(), text.origins.greatest()});
  for (const Origins::Run& run : runs) {
    repaired.append(text::replace_invalid_utf8(std::string_view(text.bytes).substr(begin, run.end - begin)),
                    run.origin);
    begin = run.end;
  }
  return encode(Source{repaired.bytes, repaired.origins, {}});
}

std::vector<int32_t> Tokenizer::encode(const Source& source) const {
  std::vector<int32_t> ids;
  text::PreTokenizer::Pieces pieces;
  std::vector<text::Segment> outer;
  std::vector<text::Segment> inner;
  const auto cut = [&](const text::AddedTokenMatcher& matcher, std::string_view plain, const Origins& origins,
                       size_t offset, std::vector<text::Segment>& segments) {
    segments.clear();
    if (source.options.parse_added) {
      return matcher.split(
          plain,
          [&](const text::AddedToken& token, size_t begin, size_t end) {
            return source.choose(token, origins.greatest(offset + begin, offset + end));
          },
          segments);
    }
    if (!plain.empty()) segments.push_back({-1, plain});
  };
  cut(parts_->raw_matcher, source.text, source.origins, 0, outer);
  for (const text::Segment& segment : outer) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
      continue;
    }
    const auto offset = static_cast<size_t>(segment.text.data() - source.text.data());
    SourcedText normalized;
    if (parts_->normalizer.empty()) {
      cut(parts_->normalized_matcher, segment.text, source.origins, offset, inner);
    } else {
      normalized = parts_->normalizer.normalize(
          {std::string(segment.text), source.origins.slice(offset, offset + segment.text.size())});
      cut(parts_->normalized_matcher, normalized.bytes, normalized.origins, 0, inner);
    }
    for (const text::Segment& part : inner) {
      if (part.id >= 0) {
        ids.push_back(part.id);
        continue;
      }
      const std::string_view whole = parts_->normalizer.empty() ? source.text : std::string_view(normalized.bytes);
      const bool begins = offset == 0 && part.text.data() == whole.data();
      parts_->pre_tokenizer.split(part.text, begins, pieces);
      for (const std::string_view piece : pieces.views) parts_->model->encode(piece, ids);
    }
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  Detokenizer detokenizer(*this, skip_special_tokens);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.push(id);
  text += detokenizer.flush();
  return text;
}

std::string_view Tokenizer::piece_bytes(int32_t id) const {
  if (!parts_->known(id)) return {};
  const Parts::Token& token = parts_->tokens[static_cast<size_t>(id)];
  const int byte = parts_->decoder.fallback_byte(token.piece);
  return byte < 0 ? std::string_view(token.piece) : std::string_view(&every_byte()[static_cast<size_t>(byte)], 1);
}

std::string_view Tokenizer::token_content(int32_t id) const {
  return parts_->known(id) ? std::string_view(parts_->tokens[static_cast<size_t>(id)].content) : std::string_view();
}

std::optional<int32_t> Tokenizer::token_id(std::string_view content) const {
  if (const auto found = parts_->added_ids.find(content)) return found;
  return parts_->model->vocabulary().find(content);
}

bool Tokenizer::is_added(int32_t id) const {
  return parts_->known(id) && parts_->added_ids.contains(parts_->tokens[static_cast<size_t>(id)].content);
}

bool Tokenizer::is_special(int32_t id) const {
  return parts_->known(id) && parts_->tokens[static_cast<size_t>(id)].special;
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(parts_->tokens.size()); }

}  // namespace ashlar
