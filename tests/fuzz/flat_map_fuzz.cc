// SPDX-License-Identifier: Apache-2.0
// Any bytes as a settings file: an error, or entries that read the same when written down again.

#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "io/flat_map.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<ashlar::FlatEntry> entries;
  try {
    entries = ashlar::parse_flat_map({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const ashlar::Error&) {
    return 0;
  }
  std::string text;
  for (const ashlar::FlatEntry& entry : entries) {
    try {
      ashlar::number_of(entry, "fuzz");
    } catch (const ashlar::Error&) {
    }
    const char* quote = !entry.quoted ? "" : entry.value.find('"') == std::string::npos ? "\"" : "'";
    text += entry.key + " = " + quote + entry.value + quote + "\n";
  }
  if (text.size() > 60000) return 0;
  const auto again = ashlar::parse_flat_map(text, "again");
  if (again.size() != entries.size()) std::abort();
  for (std::size_t i = 0; i < again.size(); ++i) {
    if (again[i].key != entries[i].key || again[i].value != entries[i].value) std::abort();
  }
  return 0;
}
