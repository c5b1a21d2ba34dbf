// SPDX-License-Identifier: Apache-2.0
#pragma once
// The alphabet of byte-level BPE (GPT-2): each byte is spelled as one printable character, so that a vocabulary of byte
// strings can be written as text. Bytes that are printable in Latin-1 stand for themselves, the others, in order, for
// U+0100...

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace ashlar::text {

/// UTF-8 spelling of each byte.
const std::array<std::string, 256>& byte_alphabet();

/// The bytes that `spelling` stands for, or nothing when a character is not of the alphabet.
std::optional<std::string> bytes_of_spelling(std::string_view spelling);

}  // namespace ashlar::text
