// SPDX-License-Identifier: Apache-2.0
// Any bytes as a server's stream: an answer or an error, and the same however the bytes are cut.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "measure/serve/serve_stream.h"

namespace {

void require(bool law) {
  if (!law) std::abort();
}

ashlar::RequestRecord record(std::string_view bytes, size_t step) {
  ashlar::StreamRecorder recorder(0);
  int64_t now = 1;
  while (!bytes.empty()) {
    recorder.bytes(200, bytes.substr(0, step), now++);
    bytes.remove_prefix(std::min(step, bytes.size()));
  }
  return recorder.finish(200, "", "", now);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const ashlar::RequestRecord whole = record(bytes, bytes.size() + 1);
  const ashlar::RequestRecord pieces = record(bytes, data[0] % 16 + 1);
  require(whole.error == pieces.error && whole.tokens == pieces.tokens && whole.chunks == pieces.chunks);
  require(whole.drafted == pieces.drafted && whole.accepted == pieces.accepted);
  require(!whole.ok() || (whole.chunks > 0 && whole.gaps_s.size() + 1 == static_cast<size_t>(whole.chunks)));
  return 0;
}
