// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a device rounded and packed at an earlier start of the same model, so that this one is quick.

#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "device/device.h"
#include "io/weights/packed_file.h"

namespace ashlar {

/// One file of packed weights. What is in it is found by its content (PackedStore), so that a file of other weights, of
/// another scheme or of another layout has nothing to give; what is missing or damaged is packed again, and then the
/// whole file is written anew, next to the old one, which it replaces at once. Nothing about the file can fail a start.
class WeightsCache final : public PackedStore {
 public:
  explicit WeightsCache(std::filesystem::path file);

  bool is_open() const override { return open_; }
  std::shared_ptr<const std::byte> take(uint64_t key, size_t bytes) override;
  bool is_whole(uint64_t key, std::span<const std::byte> copy) override;
  void keep(uint64_t key, std::span<const std::byte> bytes) override;

  /// All weights are there: puts a new file in its place. What a person may want to know of it; empty: nothing.
  std::string finish();

 private:
  void start_file();
  void add(uint64_t key, size_t bytes, const std::function<void()>& write);
  template <class Fn>
  void unless_failed(const Fn& fn);

  std::filesystem::path path_;
  bool open_ = true;
  std::string damage_;                     ///< of the old file
  std::shared_ptr<const PackedFile> old_;  ///< null: there is none that is of use
  std::set<uint64_t> taken_;               ///< from the old file
  std::optional<PackedFileWriter> fresh_;
  std::set<uint64_t> added_;  ///< to the new file
  std::string failure_;       ///< of the new file, which is given up
};

/// Where packed weights are kept by default: ashlar/weights in XDG_CACHE_HOME or ~/.cache. Empty: there is no such
/// place.
std::string default_weights_cache();

/// The cache of a model in `folder`; null: none, since the folder is "none" or empty, or since the model is so small
/// that it starts in a moment.
std::unique_ptr<WeightsCache> open_weights_cache(const std::string& folder, const std::filesystem::path& model,
                                                 const std::string& device, KeptWeights kept);

/// Removes what starts of `model` kept in `folder`, on any device; the bytes that frees. Another model of the same
/// folder name loses its own too, and packs them again.
int64_t remove_kept_weights(const std::filesystem::path& folder, const std::filesystem::path& model);

}  // namespace ashlar
