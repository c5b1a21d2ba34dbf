// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/steps/token_decoder.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "io/json.h"
#include "text/tokenizer/pattern/byte_alphabet.h"

namespace ashlar::text {
namespace {

constexpr const char* kKnown =
    "(known: ByteLevel; Sequence of Metaspace or Replace, ByteFallback, Fuse, Strip in this order)";
constexpr int64_t kMaxStrip = 1024;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// The byte that <0xHH> stands for, -1 for any other token.
int byte_of_token(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  const int high = hex_digit(piece[3]);
  const int low = hex_digit(piece[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

}  // namespace

TokenDecoder::TokenDecoder(const std::optional<JsonNode>& node) {
  if (!node) return;
  const std::string& type = node->text("type");
  if (type == "ByteLevel") {
    kind_ = Kind::kBytes;
    return;
  }
  kind_ = Kind::kChain;
  if (type != "Sequence") {
    add_step(*node);
    return;
  }
  const auto steps = node->at("decoders").items(kMaxSteps);
  if (steps.size() == 1 && steps[0].text("type") == "ByteLevel") {
    kind_ = Kind::kBytes;
    return;
  }
  for (const JsonNode& step : steps) add_step(step);
}

void TokenDecoder::add_step(const JsonNode& node) {
  const std::string& type = node.text("type");
  const bool stripped = strip_start_ > 0;
  if (type == "Metaspace" && !metaspace_ && replacements_.empty() && !byte_fallback_ && !fuse_ && !stripped) {
    metaspace_.emplace(node);
  } else if (type == "Replace" && !metaspace_ && !byte_fallback_ && !fuse_ && !stripped) {
    replacements_.push_back({Replacement(node), node.place()});
  } else if (type == "ByteFallback" && !byte_fallback_ && !fuse_ && !stripped) {
    byte_fallback_ = true;
  } else if (type == "Fuse" && !fuse_ && !stripped) {
    fuse_ = true;
  } else if (type == "Strip" && fuse_ && !stripped) {
    strip_content_ = node.text("content");
    strip_start_ = static_cast<size_t>(node.index("start", kMaxStrip));
    const Utf8Unit unit = strip_content_.empty() ? Utf8Unit{} : utf8_at(strip_content_, 0);
    if (unit.length != strip_content_.size()) node.fail("Strip needs one character as its content");
    if (node.index("stop", kMaxStrip) != 0)
      node.fail("Strip at the end of the text is not supported; 'stop' must be 0");
  } else {
    node.fail("the decoder type '" + for_message(type) + "' is not supported here " + kKnown);
  }
}

std::string TokenDecoder::piece_of(std::string_view spelling) const {
  if (kind_ == Kind::kBytes) {
    if (auto bytes = bytes_of_spelling(spelling)) return *bytes;
    return std::string(spelling);
  }
  if (metaspace_) {
    std::string piece;
    for (size_t at = 0; at < spelling.size();) {
      const bool space = spelling.substr(at).starts_with(metaspace_->space);
      piece += space ? ' ' : spelling[at];
      at += space ? metaspace_->space.size() : 1;
    }
    return piece;
  }
  const size_t most = max_grown_bytes(spelling.size());
  std::string piece(spelling);
  for (const auto& [replacement, place] : replacements_) {
    piece = replacement.apply(piece, most);
    if (piece.size() > most) {
      throw Error("tokenizer", "the tokenizer's " + place + " lets the token '" + for_message(spelling) +
                                   "' grow beyond " + std::to_string(most) + " bytes, which is the limit");
    }
  }
  return piece;
}

int TokenDecoder::fallback_byte(std::string_view piece) const { return byte_fallback_ ? byte_of_token(piece) : -1; }

TokenDecoder::State TokenDecoder::start() const {
  State state;
  state.left_to_strip = strip_start_;
  return state;
}

// What the first token of a text adds where words were given a space.
std::string TokenDecoder::without_spaces(std::string_view spelling) const {
  std::string text;
  while (!spelling.empty()) {
    const size_t at = std::min(spelling.find(metaspace_->space), spelling.size());
    text += spelling.substr(0, at);
    spelling.remove_prefix(std::min(spelling.size(), at + metaspace_->space.size()));
  }
  return text;
}

void TokenDecoder::push(std::string_view piece, std::string_view spelling, State& state, std::string& out) const {
  switch (kind_) {
    case Kind::kBytes:
      return state.utf8.push(piece, out);
    case Kind::kJoinedBySpaces:
      if (state.started) out += ' ';
      state.started = true;
      out += piece;
      return;
    case Kind::kChain:
      if (const int byte = fallback_byte(piece); byte >= 0) {
        state.started = true;
        state.byte_run.push_back(static_cast<char>(byte));
        return;
      }
      end_byte_run(state, out);
      if (metaspace_ && metaspace_->prefixed && !std::exchange(state.started, true)) {
        return emit(without_spaces(spelling), state, out);
      }
      return emit(piece, state, out);
  }
}

void TokenDecoder::flush(State& state, std::string& out) const {
  state.utf8.flush(out);
  end_byte_run(state, out);
}

void TokenDecoder::emit(std::string_view text, State& state, std::string& out) const {
  while (state.left_to_strip > 0 && !text.empty()) {
    if (!text.starts_with(strip_content_)) {
      state.left_to_strip = 0;
      break;
    }
    text.remove_prefix(strip_content_.size());
    --state.left_to_strip;
  }
  out += text;
}

// A run of byte tokens is text only as a whole: one broken character makes every byte of it a U+FFFD.
void TokenDecoder::end_byte_run(State& state, std::string& out) const {
  const std::string run = std::move(state.byte_run);
  state.byte_run.clear();
  if (is_valid_utf8(run)) return emit(run, state, out);
  for (size_t i = 0; i < run.size(); ++i) emit(kReplacement, state, out);
}

}  // namespace ashlar::text
