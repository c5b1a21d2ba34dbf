// SPDX-License-Identifier: Apache-2.0
#pragma once
// Text that is put together from parts of different origins.

#include <utility>

#include "text/template/origins.h"
#include "text/template/run/budget.h"

namespace ashlar::tmpl {

/// Fails where the text would be too large. The runs of its origins are work; the bytes are what make_string charges.
class TextBuilder {
 public:
  explicit TextBuilder(Budget& budget) : budget_(budget) {}

  void put(std::string_view piece, const Origins& origins) {
    const std::size_t size = text_.bytes.size() + piece.size();
    if (size > budget_.limits().string_bytes) budget_.string_size(size);
    const std::size_t runs = text_.origins.runs().size();
    text_.append(piece, origins);
    budget_.work((text_.origins.runs().size() - runs) * sizeof(Origins::Run));
  }
  void put(const SourcedText& piece) { put(piece.bytes, piece.origins); }
  /// `part` points into `whole.bytes`, or is empty.
  void put_part(const SourcedText& whole, std::string_view part) { put(part, whole.origins_of(part)); }

  std::size_t size() const { return text_.bytes.size(); }
  SourcedText take() { return std::move(text_); }

 private:
  Budget& budget_;
  SourcedText text_;
};

}  // namespace ashlar::tmpl
