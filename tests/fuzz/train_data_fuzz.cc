// SPDX-License-Identifier: Apache-2.0
// Any bytes as a line of training data: an example that keeps its laws, or an Error.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "train/data/example.h"

namespace {

void require(bool law) {
  if (!law) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using Form = ashlar::TrainingExample::Form;
  try {
    const ashlar::TrainingExample example =
        ashlar::parse_example({reinterpret_cast<const char*>(data), size}, "fuzz:1");
    require(example.ids.size() == example.supervised.size());
    require((example.form == Form::kIds) == !example.ids.empty());
    const bool turns = example.form == Form::kConversation || example.form == Form::kPair;
    require(turns == example.messages.is_array());
    for (const ashlar::Json& message : example.messages) require(message["role"].is_string());
  } catch (const ashlar::Error& error) {
    require(std::string_view(error.what()).substr(0, 15) == "[train] fuzz:1:");
  }
  return 0;
}
