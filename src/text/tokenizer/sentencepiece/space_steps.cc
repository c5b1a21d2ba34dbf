// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/sentencepiece/space_steps.h"

#include <utility>

namespace ashlar::text {
namespace {

constexpr const char* kWrittenSpace = "\xE2\x96\x81";  // U+2581

}  // namespace

Json space_normalizer(Json before, bool adds_prefix) {
  if (adds_prefix) before.push_back({{"type", "Prepend"}, {"prepend", kWrittenSpace}});
  before.push_back({{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kWrittenSpace}});
  return {{"type", "Sequence"}, {"normalizers", std::move(before)}};
}

Json space_decoder(bool adds_prefix) {
  Json decoders = Json::array({{{"type", "Replace"}, {"pattern", {{"String", kWrittenSpace}}}, {"content", " "}},
                               {{"type", "ByteFallback"}},
                               {{"type", "Fuse"}}});
  if (adds_prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1U}, {"stop", 0U}});
  return {{"type", "Sequence"}, {"decoders", std::move(decoders)}};
}

}  // namespace ashlar::text
