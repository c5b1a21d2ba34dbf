// SPDX-License-Identifier: Apache-2.0
// Any bytes as a request: the first byte picks the endpoint. It is accepted, or refused with a message that is UTF-8.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "server/api/format/formats.h"
#include "server/api/parse/parse.h"
#include "text/output/output_parser.h"
#include "text/tokenizer/utf8.h"

namespace {

using namespace ashlar;
using namespace ashlar::server;

template <class T>
void check_message(const Parsed<T>& parsed) {
  if (parsed.ok()) return;
  const ApiError& error = parsed.error();
  const bool sound =
      error.status == 400 && !error.message.empty() && text::is_valid_utf8(error_body(Api::kChat, error));
  if (!sound) std::abort();
}

// Parts as one text, neighbours of a kind together.
class Order {
 public:
  void add(const text::OutputParser::Parts& parts) {
    for (const text::OutputParser::Part& part : parts) {
      if (part.text.empty()) continue;
      const std::string head = std::to_string(static_cast<int>(part.kind)) + "," + std::to_string(part.call);
      if (head != std::exchange(last_, head)) text_ += "\n" + head + ":";
      text_ += part.text;
    }
  }
  bool operator==(const Order&) const = default;

 private:
  std::string text_, last_;
};

void split(std::string_view bytes, const text::OutputParser::Options& options) {
  text::OutputParser whole(options), parts(options);
  Order a, b;
  a.add(whole.push(bytes));
  a.add(whole.finish());
  for (const char& c : bytes) b.add(parts.push({&c, 1}));
  b.add(parts.finish());
  if (!(a == b)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ApiLimits kLimits;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 10 == 9) {
    split(bytes, {});
    split(bytes, {.bare = {"f", "go"}});
    return 0;
  }
  const auto body = parse_body(bytes);
  check_message(body);
  if (!body.ok()) return 0;
  switch (data[0] % 10) {
    case 0:
      check_message(parse_chat(body.value(), kLimits));
      break;
    case 1:
      check_message(parse_completions(body.value(), kLimits));
      break;
    case 2:
      check_message(parse_responses(body.value(), kLimits));
      break;
    case 3:
      check_message(parse_messages(body.value(), kLimits));
      break;
    case 4:
      check_message(parse_count_tokens(body.value(), kLimits));
      break;
    case 5:
      check_message(parse_generate(body.value(), kLimits));
      break;
    case 6:
      check_message(parse_tokenize(body.value(), kLimits));
      break;
    case 7:
      check_message(parse_detokenize(body.value(), kLimits));
      break;
    default:
      check_message(parse_apply_template(body.value(), kLimits));
      break;
  }
  return 0;
}
