// SPDX-License-Identifier: Apache-2.0
#pragma once
// What \d, \w and \s of a pattern stand for. Those who read patterns do not agree: ECMAScript, Python and others.

#include "text/grammar/pattern/code_points.h"

namespace ashlar::grammar {

/// How the text of a pattern is understood where readers of it disagree.
enum class Reading : uint8_t {
  kNarrow,  ///< what all of them take for a match: for texts that are written
  kWide,    ///< what any of them may: for texts that must not match
};
inline Reading opposite(Reading reading) { return reading == Reading::kNarrow ? Reading::kWide : Reading::kNarrow; }

struct CharKind {
  CodePointSet narrow, wide;
  bool ascii_written = false;  ///< what is no member of the narrow set is written as none, too
  const CodePointSet& as(Reading reading) const { return reading == Reading::kNarrow ? narrow : wide; }
};

/// Narrow: those of ASCII. Wide: those of Unicode, as Python has them and more.
const CharKind& digits();
const CharKind& word_chars();
const CharKind& white_space();
/// The '.' of a pattern.
const CharKind& any_char();

}  // namespace ashlar::grammar
