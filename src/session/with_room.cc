// SPDX-License-Identifier: Apache-2.0
#include "session/with_room.h"

#include "device/weights/kept_weights.h"
#include "session/memory_budget.h"

namespace ashlar {
namespace {

struct FewerBits {
  KeptWeights weights;
  double bytes;  // of a number, with its scales and a vocabulary that stays in 8 bits
};

constexpr FewerBits kFewer[] = {{KeptWeights::kInt8, 1.13}, {KeptWeights::kInt4, 0.75}};

// bf16, or what was asked for: files of fewer bits keep those.
double bytes_of(KeptWeights asked) {
  for (const FewerBits& fewer : kFewer) {
    if (fewer.weights == asked) return fewer.bytes;
  }
  return asked == KeptWeights::kFp8 ? kFewer[0].bytes : 2.0;
}

// "--weights int8 or int4"; empty: neither is new, or enough.
std::string what_would_fit(const NoRoom& no_room, KeptWeights asked) {
  std::string names;
  for (const FewerBits& fewer : kFewer) {
    const double saved = static_cast<double>(no_room.weights) * (1 - fewer.bytes / bytes_of(asked));
    if (saved <= 0 || static_cast<double>(no_room.needed) - saved > static_cast<double>(no_room.available.bytes)) {
      continue;
    }
    names += (names.empty() ? "" : " or ") + std::string(name_of(fewer.weights));
  }
  return names.empty() ? "" : "--weights " + names;
}

std::string note_of(const NoRoom& no_room, const std::string& instead, KeptWeights asked) {
  const std::string fits = what_would_fit(no_room, asked);
  return instead + ": the model needs " + format_bytes(no_room.needed) + " and " +
         format_bytes(no_room.available.bytes) + " of " + no_room.available.owner + "'s memory are free" +
         (fits.empty() ? "" : "; " + fits + " would fit there");
}

}  // namespace

std::unique_ptr<Session> with_room(const SessionOptions& options, const MakeSession& make) {
  const auto made = [&make](const SessionOptions& how) { return make ? make(how) : std::make_unique<Session>(how); };
  try {
    return made(options);
  } catch (const NoRoom& no_room) {
    if (options.device != kAutoDevice || no_room.available.owner.empty()) throw;
    SessionOptions on_host = options;
    on_host.device = device_names().front();
    on_host.note = note_of(no_room, on_host.device, options.device_options.weights);
    return made(on_host);
  }
}

}  // namespace ashlar
