// SPDX-License-Identifier: Apache-2.0
#pragma once
// Traffic that a server keeps (`ashlar serve --learn`), as training data: files of numbers in a folder, a line of token
// ids and mask for each answer, next to the mark of the weights that gave it.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "train/data/document_set.h"

namespace ashlar {

/// "traffic-000012.jsonl". `number`: from 1 on.
std::string traffic_file_name(int64_t number);
/// 0 if a name is not that of such a file.
int64_t traffic_file_number(std::string_view name);

/// Whether the file's first line was answered by the weights of this mark (io/weights/weights_mark.h), or there is no
/// whole line.
bool is_traffic_of(const std::filesystem::path& file, const std::string& mark);

/// Such files, the oldest first. Throws Error("train", ...) where there is none.
std::vector<std::filesystem::path> traffic_files(const std::filesystem::path& folder);

/// All whole lines of the folder's files, the oldest first, as documents of one file; a server may write to it
/// meanwhile. Throws Error("train", ...) where there is none, or some are of other weights.
DocumentSet read_traffic(const std::filesystem::path& folder, const std::string& mark, const DocumentEncoder& encoder,
                         int32_t max_length);

/// Documents to be kept from training: those whose prompt the seed chooses, one prompt in `one_in` on average. All
/// answers to a prompt are on the same side, and stay there as documents come and go. Ascending.
std::vector<size_t> chosen_prompts(const DocumentSet& documents, uint64_t seed, uint32_t one_in);

/// Of these documents the newest for each prompt, and of those the newest `most`. Ascending.
std::vector<size_t> newest_of_each_prompt(const DocumentSet& documents, std::span<const size_t> chosen, size_t most);

}  // namespace ashlar
