// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tables of plain text, columns aligned.

#include <string>
#include <vector>

namespace ashlar {

class TextTable {
 public:
  /// The first column is aligned to the left, the others to the right.
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}

  /// As many cells as the header has.
  void add(std::vector<std::string> cells);
  /// Lines of header, rule and rows, each ending in a newline, indented by `indent` blanks.
  std::string render(int indent = 2) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// "3.14"; "-" for what is no finite number.
std::string fixed(double value, int decimals);
/// "12.3 %" of a share.
std::string percent(double share, int decimals = 1);
/// Enough digits for people: "0.214", "12.3", "1234".
std::string three_digits(double value);

}  // namespace ashlar
