// SPDX-License-Identifier: Apache-2.0
#pragma once
// A session where there is room for it: what the choice of a device leaves open.

#include <functional>
#include <memory>

#include "session/session.h"

namespace ashlar {

using MakeSession = std::function<std::unique_ptr<Session>(const SessionOptions& options)>;

/// Makes a session. Where kAutoDevice chose a device whose own memory has no room for the model (NoRoom), one of the
/// host's processor instead, whose first note says what was needed, what was free and what would have made it fit; if
/// that has no room either, its error says so, too. A device that was asked for by its name stays, and so does its
/// error, and that of a cache which was asked for (NoRoom::of_wishes). `make`: null for what Session itself does.
std::unique_ptr<Session> with_room(const SessionOptions& options, const MakeSession& make = nullptr);

}  // namespace ashlar
