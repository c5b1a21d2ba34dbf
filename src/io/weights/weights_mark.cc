// SPDX-License-Identifier: Apache-2.0
#include "io/weights/weights_mark.h"

#include <string_view>

#include "base/content_hash.h"
#include "base/keyed_hash.h"
#include "io/mapped_file.h"
#include "io/weights/checkpoint.h"

namespace ashlar {

std::string weights_mark(const std::filesystem::path& model) {
  constexpr size_t kPlaces = 8, kBytes = 4096;
  std::string sample;
  for (const std::filesystem::path& path : weight_files(model)) {
    const MappedFile file(path);
    const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    sample += std::to_string(bytes.size()) + " ";
    for (size_t i = 0; i < kPlaces; ++i) sample += bytes.substr(bytes.size() / kPlaces * i, kBytes);
    file.check_whole();
  }
  return hex_of(sip_hash({}, sample));
}

}  // namespace ashlar
