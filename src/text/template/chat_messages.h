// SPDX-License-Identifier: Apache-2.0
#pragma once
// Conversations that a person or a program wrote down, before a chat template sees them.

#include "io/json.h"

namespace ashlar::text {

/// A list of messages with a role and content each, whose content is a string or null: text parts, [{"type": "text",
/// "text": ...}], are joined. Throws Error("messages", ...) naming what is wrong.
Json plain_messages(const Json& messages);

}  // namespace ashlar::text
