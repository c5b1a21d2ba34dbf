// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers of the target as training data: a line for each prompt, in the order of the prompts, so that what is there
// already says where to go on.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ashlar {

/// What decides an answer.
struct AnswerWish {
  std::string model;  ///< a mark that other weights would not have
  std::vector<int32_t> prompt;
  double temperature = 0;
  uint64_t seed = 0;
  int32_t max_tokens = 0;
};

/// A line is {"ids": ..., "mask": ...}, which is training data as it is: the very tokens that the target wrote are
/// learnt, and an answer that was cut does not teach an end. Next to them the wish, how the answer ended and its text.
class AnswerFile {
 public:
  /// Makes the file, or goes on after its whole lines; what a kill left of a line goes. Throws Error("train", ...)
  /// naming the line if one answers another prompt or was wished for otherwise, and Error("file", ...) if it cannot be
  /// written. `wishes` outlive this.
  AnswerFile(std::filesystem::path path, std::span<const AnswerWish> wishes);

  /// Wishes that have answers on the disk: the first ones.
  size_t done() const { return done_; }
  /// Takes the answer to a wish, in any order; lines wait for those before them. Throws Error("file", ...) if the disk
  /// is full.
  void add(size_t wish, std::span<const int32_t> tokens, std::string_view finish, std::string_view text);

 private:
  size_t kept_lines(uintmax_t& bytes) const;

  std::filesystem::path path_;
  std::span<const AnswerWish> wishes_;
  std::ofstream file_;
  size_t done_ = 0;
  std::map<size_t, std::string> waiting_;
};

}  // namespace ashlar
