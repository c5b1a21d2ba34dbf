// SPDX-License-Identifier: Apache-2.0
#include "app/chat/line_layout.h"

#include <algorithm>
#include <cwchar>

namespace ashlar {
namespace {

constexpr int kTab = 8;

int cells_of(wchar_t c, int column) {
  if (c == L'\t') return kTab - column % kTab;
  if (c < 0x20 || c == 0x7F) return 2;
  return std::max(wcwidth(c), 0);  // combining marks take none
}

}  // namespace

std::vector<ScreenRow> rows_of(std::wstring_view text, int columns) {
  columns = std::max(columns, 2);  // a wide character has room
  std::vector<ScreenRow> rows(1);
  for (const wchar_t c : text) {
    if (c == L'\n') {
      rows.emplace_back();
      continue;
    }
    const int cells = cells_of(c, rows.back().cells);
    if (rows.back().cells + cells > columns) rows.emplace_back();
    rows.back().text += c;
    rows.back().cells = std::min(rows.back().cells + cells, columns);
    rows.back().is_full = rows.back().cells == columns;
  }
  if (rows.back().is_full) rows.emplace_back();
  return rows;
}

}  // namespace ashlar
