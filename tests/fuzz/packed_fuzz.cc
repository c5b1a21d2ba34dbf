// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of packed weights: pieces that lie within it and have their checksums, or Error. Fuzzers find no
// checksums, so each input is also read as what a program might have written: its pieces, with the right ones.

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/error.h"
#include "fuzz/memory_file.h"
#include "io/weights/packed_file.h"

namespace {

void read(const std::string& path, const uint8_t* keys, size_t n) {
  try {
    const ashlar::PackedFile opened(path);
    unsigned sum = 0;
    for (size_t i = 0; i < n; ++i) {
      const auto piece = opened.find(keys[i]);
      if (piece == nullptr || !piece->is(piece->bytes)) continue;
      for (const std::byte byte : piece->bytes) sum += static_cast<unsigned>(byte);
    }
    volatile unsigned keep = sum;
    (void)keep;
  } catch (const ashlar::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const ashlar::MemoryFile file;
  file.fill(data, size);
  read(file.path(), data, size < 64 ? size : 64);
  static const std::string written =
      (std::filesystem::temp_directory_path() / ("ashlar-packed-fuzz-" + std::to_string(getpid()))).string();
  {
    ashlar::PackedFileWriter writer(written);
    for (size_t at = 0; at < size;) {  // a key, a length and as many bytes; a key may come twice
      const size_t length = at + 1 < size ? data[at + 1] : 0, begin = at + 2 < size ? at + 2 : size;
      const size_t n = length < size - begin ? length : size - begin;
      writer.add(data[at], std::as_bytes(std::span(data + begin, n)));
      at = begin + n;
    }
    writer.commit();
  }
  read(written, data, size < 64 ? size : 64);
  std::filesystem::remove(written);
  return 0;
}
