// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/sentencepiece/sentencepiece_model.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "text/tokenizer/sentencepiece/token_type.h"
#include "text/tokenizer/token_model.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::text {
namespace {

/// One field of a message after the other.
class MessageReader {
 public:
  MessageReader(std::string_view bytes, const std::string& file) : rest_(bytes), file_(file) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw Error("tokenizer", file_ + ": is no SentencePiece model: " + what);
  }

  bool next() {
    if (rest_.empty()) return false;
    const uint64_t key = varint();
    number_ = key >> 3;
    wire_ = static_cast<Wire>(key & 7);
    if (number_ == 0) fail("a field has the number 0");
    switch (wire_) {
      case Wire::kVarint:
        value_ = varint();
        break;
      case Wire::kFixed64:
        take(8);
        break;
      case Wire::kBytes:
        take(varint());
        break;
      case Wire::kFixed32:
        take(4);
        break;
      default:
        fail("field " + std::to_string(number_) + " has the unknown wire type " + std::to_string(key & 7));
    }
    return true;
  }

  uint64_t number() const { return number_; }
  int64_t integer() const {
    expect(Wire::kVarint);
    return static_cast<int64_t>(value_);
  }
  bool flag() const { return integer() != 0; }
  float number32() const {
    expect(Wire::kFixed32);
    float value;
    std::memcpy(&value, bytes_.data(), sizeof value);
    return value;
  }
  std::string_view bytes() const {
    expect(Wire::kBytes);
    return bytes_;
  }
  MessageReader message() const { return {bytes(), file_}; }

 private:
  enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  void expect(Wire wire) const {
    if (wire_ == wire) return;
    fail("field " + std::to_string(number_) + " has the wire type " + std::to_string(static_cast<int>(wire_)) +
         "; expected " + std::to_string(static_cast<int>(wire)));
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) fail("ends within a number");
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    fail("a number has more than 64 bits");
  }
  void take(uint64_t count) {
    if (count > rest_.size()) {
      fail("field " + std::to_string(number_) + " has " + std::to_string(count) + " bytes, of which " +
           std::to_string(rest_.size()) + " are there");
    }
    bytes_ = rest_.substr(0, count);
    rest_.remove_prefix(count);
  }

  std::string_view rest_, bytes_;
  const std::string& file_;
  uint64_t number_ = 0, value_ = 0;
  Wire wire_ = Wire::kVarint;
};

SentencePieceModel::Piece read_piece(MessageReader message, size_t id) {
  SentencePieceModel::Piece piece;
  while (message.next()) {
    if (message.number() == 1) piece.text = message.bytes();
    if (message.number() == 2) piece.score = message.number32();
    if (message.number() == 3) piece.type = message.integer();
  }
  const std::string name = "the piece " + std::to_string(id);
  if (piece.text.empty() || !is_valid_utf8(piece.text)) message.fail(name + " has no text in valid UTF-8");
  if (!std::isfinite(piece.score)) message.fail(name + " has a score that is not finite");
  if (piece.type < kNormal || piece.type > kByte) {
    message.fail(name + " has the type " + std::to_string(piece.type) + "; expected 1 to " + std::to_string(kByte));
  }
  return piece;
}

void read_trainer(MessageReader message, SentencePieceModel& model) {
  while (message.next()) {
    if (message.number() == 3) model.kind = message.integer();
    if (message.number() == 24) model.treats_whitespace_as_suffix = message.flag();
    if (message.number() == 35) model.byte_fallback = message.flag();
    if (message.number() == 41) model.bos_id = message.integer();
    if (message.number() == 42) model.eos_id = message.integer();
  }
}

void read_normalizer(MessageReader message, SentencePieceModel& model) {
  while (message.next()) {
    if (message.number() == 2) model.character_map = message.bytes();
    if (message.number() == 3) model.adds_prefix = message.flag();
    if (message.number() == 4) model.removes_spaces = message.flag();
    if (message.number() == 5) model.escapes_spaces = message.flag();
  }
}

bool maps_characters(MessageReader message) {
  bool found = false;
  while (message.next()) {
    if (message.number() == 2) found = !message.bytes().empty();
  }
  return found;
}

}  // namespace

SentencePieceModel parse_sentencepiece(std::string_view bytes, const std::string& file) {
  SentencePieceModel model;
  MessageReader message(bytes, file);
  while (message.next()) {
    if (message.number() == 1) {
      if (model.pieces.size() == static_cast<size_t>(kMaxVocabulary)) {
        message.fail("it has more than " + std::to_string(kMaxVocabulary) + " pieces, which is the limit");
      }
      model.pieces.push_back(read_piece(message.message(), model.pieces.size()));
    }
    if (message.number() == 2) read_trainer(message.message(), model);
    if (message.number() == 3) read_normalizer(message.message(), model);
    if (message.number() == 5) model.denormalizes = maps_characters(message.message());
  }
  if (model.pieces.empty()) message.fail("it has no pieces");
  return model;
}

}  // namespace ashlar::text
