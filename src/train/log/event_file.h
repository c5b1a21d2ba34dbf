// SPDX-License-Identifier: Apache-2.0
#pragma once
// Event files of TensorBoard: what it draws curves from. A file is a row of records, each an Event of its protocol
// buffers: a first one with the version, then one a step with a Summary of named numbers.
// Source: tensorflow's core/util/event.proto, core/framework/summary.proto and core/lib/io/record_writer.h.

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace ashlar {

struct Scalar {
  std::string tag;  ///< "loss"; a slash makes a group of it
  float value = 0;
};

/// An Event of a step, or, without scalars, that which a file begins with. wall_time: seconds since 1970.
std::string event_bytes(double wall_time, int64_t step, std::span<const Scalar> scalars);

/// A record: the length as 8 bytes, its checksum, the bytes, theirs; checksums are CRC32C, rotated by 15 and with a
/// constant added, all in little endian.
std::string record_of(std::string_view bytes);

class EventFile {
 public:
  /// Begins the file anew, at `wall_time`. TensorBoard looks for names with "tfevents" in them. Throws Error("file",
  /// ...) if it cannot be written.
  EventFile(std::filesystem::path path, double wall_time);

  /// Appends a step's numbers, so that a TensorBoard that runs sees them. Throws Error("file", ...) if the disk is
  /// full.
  void write(double wall_time, int64_t step, std::span<const Scalar> scalars);

 private:
  void append(const std::string& event);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace ashlar
