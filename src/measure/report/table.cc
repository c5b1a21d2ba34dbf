// SPDX-License-Identifier: Apache-2.0
#include "measure/report/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/check.h"

namespace ashlar {
namespace {

// Columns on a screen: bytes that do not continue a UTF-8 character.
size_t columns_of(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

void TextTable::add(std::vector<std::string> cells) {
  ASHLAR_CHECK_EQ(cells.size(), rows_.front().size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::render(int indent) const {
  std::vector<size_t> widths(rows_.front().size());
  for (const auto& row : rows_) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], columns_of(row[c]));
  }
  std::string text;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line(static_cast<size_t>(indent), ' ');
    for (size_t c = 0; c < widths.size(); ++c) {
      const std::string& cell = rows_[r][c];
      const std::string pad(widths[c] - columns_of(cell), ' ');
      if (c > 0) line += "  ";
      line += c == 0 ? cell + pad : pad + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (r > 0) continue;
    std::string rule(static_cast<size_t>(indent), ' ');
    for (size_t c = 0; c < widths.size(); ++c) rule += (c > 0 ? "  " : "") + std::string(widths[c], '-');
    text += rule + "\n";
  }
  return text;
}

std::string fixed(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

std::string percent(double share, int decimals) {
  return std::isfinite(share) ? fixed(share * 100, decimals) + " %" : "-";
}

std::string three_digits(double value) {
  const double size = std::abs(value);
  return fixed(value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : size >= 0.9995 ? 2 : 3);
}

}  // namespace ashlar
