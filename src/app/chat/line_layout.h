// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ashlar {

/// A row of a text on a screen.
struct ScreenRow {
  std::wstring text;
  int cells = 0;         ///< columns that it takes
  bool is_full = false;  ///< the text goes on in the next row since no column is left
};

/// The rows of a screen `columns` wide that a text takes which begins at a row's start, as libedit lays it out: wide
/// characters take two cells and are not split, control characters are shown as two ("^A"), tabs go to every eighth
/// column, and a text that fills its last row to the end goes on in another one. At least one row.
std::vector<ScreenRow> rows_of(std::wstring_view text, int columns);

}  // namespace ashlar
