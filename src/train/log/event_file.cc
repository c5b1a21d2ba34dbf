// SPDX-License-Identifier: Apache-2.0
#include "train/log/event_file.h"

#include <bit>
#include <boost/crc.hpp>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace ashlar {
namespace {

// The kinds of fields in protocol buffers that occur here.
enum class Wire : uint8_t { kVarint = 0, kEightBytes = 1, kBytes = 2, kFourBytes = 5 };

void put_varint(std::string& out, uint64_t value) {
  for (; value >= 128; value >>= 7) out += static_cast<char>(value | 128);
  out += static_cast<char>(value);
}

void put_key(std::string& out, uint32_t field, Wire wire) {
  put_varint(out, (field << 3) | static_cast<uint32_t>(wire));
}

template <typename T>
void put_little_endian(std::string& out, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i));
}

void put_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  put_key(out, field, Wire::kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string summary_of(std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    put_bytes(value, 1, scalar.tag);
    put_key(value, 2, Wire::kFourBytes);
    put_little_endian(value, std::bit_cast<uint32_t>(scalar.value));
    put_bytes(summary, 1, value);
  }
  return summary;
}

uint32_t masked_checksum(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return std::rotr(static_cast<uint32_t>(crc.checksum()), 15) + 0xA282EAD8U;
}

}  // namespace

std::string event_bytes(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  std::string event;
  put_key(event, 1, Wire::kEightBytes);
  put_little_endian(event, std::bit_cast<uint64_t>(wall_time));
  if (step != 0) {  // fields that are zero are left out
    put_key(event, 2, Wire::kVarint);
    put_varint(event, static_cast<uint64_t>(step));
  }
  if (scalars.empty()) {
    put_bytes(event, 3, "brain.Event:2");
  } else {
    put_bytes(event, 5, summary_of(scalars));
  }
  return event;
}

std::string record_of(std::string_view bytes) {
  std::string record;
  put_little_endian(record, static_cast<uint64_t>(bytes.size()));
  put_little_endian(record, masked_checksum(std::string_view(record)));
  record += bytes;
  put_little_endian(record, masked_checksum(bytes));
  return record;
}

EventFile::EventFile(std::filesystem::path path, double wall_time) : path_(std::move(path)) {
  errno = 0;
  file_.open(path_, std::ios::binary);
  append(event_bytes(wall_time, 0, {}));
}

void EventFile::write(double wall_time, int64_t step, std::span<const Scalar> scalars) {
  errno = 0;
  append(event_bytes(wall_time, step, scalars));
}

void EventFile::append(const std::string& event) {
  if (file_) file_ << record_of(event) << std::flush;
  if (!file_) throw Error("file", path_.string() + ": cannot be written: " + std::strerror(errno));
}

}  // namespace ashlar
