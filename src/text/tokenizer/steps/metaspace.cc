// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/steps/metaspace.h"

#include "io/json.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::text {

MetaspaceOptions::MetaspaceOptions(const JsonNode& node) : space(node.text("replacement")) {
  if (space.empty() || utf8_at(space, 0).length != space.size() || space == " ") {
    node.fail("'replacement' must be one character that is no space");
  }
  const bool old_prefix = node.flag_or("add_prefix_space", true);
  const std::string scheme = node.text_or("prepend_scheme", old_prefix ? "always" : "never");
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    node.fail("the prepend_scheme '" + for_message(scheme) + "' is not known (known: always, first, never)");
  }
  prefixed = scheme != "never";
  only_first = scheme == "first";
  if (prefixed && !old_prefix) node.fail("'add_prefix_space' is false, and prepend_scheme is " + scheme);
}

}  // namespace ashlar::text
