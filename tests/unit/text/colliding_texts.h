#pragma once
// Texts that an unkeyed hash takes for one.

#include <cstddef>
#include <string>
#include <vector>

namespace ashlar::test {

/// 2^n texts of 16 n letters, digits and signs that std::hash of libstdc++ (MurmurHash64A with a seed that everybody
/// knows) takes for one: pieces of two blocks each, of which the second makes up for what the first changed.
std::vector<std::string> colliding_texts(std::size_t n);

}  // namespace ashlar::test
