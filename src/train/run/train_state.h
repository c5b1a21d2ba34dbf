// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a training run needs to go on where it stopped, in one file: weights and moments in fp32, and how far it is.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "io/json.h"
#include "io/weights/safetensors_writer.h"
#include "train/drafter_trainer.h"

namespace ashlar {

struct TrainProgress {
  int64_t step = 0;                ///< steps that are done, the skipped ones too
  int64_t skipped = 0;             ///< of those, the ones whose loss or gradient was no number
  Json settings = Json::object();  ///< what decides the run: what goes on must agree with it
};

/// Replaces the file at once when all is on the disk. Throws Error("file", ...).
void save_train_state(const std::filesystem::path& path, std::span<const TrainParameter> tensors,
                      const TrainProgress& progress);
/// Settings as a file at `path` has them, with those that runs of before there was a choice do not say. Throws
/// Error("train", ...) if they are no object.
Json complete_settings(Json saved, const std::filesystem::path& path);
/// What the file says of itself. Throws Error("train", ...) if it is no such file.
TrainProgress read_train_progress(const std::filesystem::path& path);
/// Fills the tensors with the very numbers that were saved. Throws Error("train", ...) naming the tensor that the file
/// lacks or has in another shape, or if the file was damaged since it was written (files of before had no hash).
TrainProgress load_train_state(const std::filesystem::path& path, std::span<const TrainParameter> tensors);

/// Fills the values, not the moments, with the weights of a drafter's folder. Those of a head stay what they are where
/// the folder has nothing of one. Throws the same.
void load_drafter_weights(const std::filesystem::path& folder, std::span<const TrainParameter> tensors);

/// The values alone, for write_drafter_folder.
std::vector<TensorToWrite> values_of(std::span<const TrainParameter> tensors);

}  // namespace ashlar
