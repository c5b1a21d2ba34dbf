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

// "--weights int8 or int4"; empty: neither is new, or enough. A drafter's weights are not those of the flag.
std::string what_would_fit(const NoRoom& no_room, KeptWeights asked) {
  std::string names;
  for (const FewerBits& fewer : kFewer) {
    const double saved = static_cast<double>(no_room.needs.target_weights) -
                         static_cast<double>(no_room.needs.target_numbers) * fewer.bytes;
    if (fewer.weights == asked || saved <= 0 ||
        static_cast<double>(no_room.needed) - saved > static_cast<double>(no_room.available.bytes)) {
      continue;
    }
    names += (names.empty() ? "" : " or ") + std::string(name_of(fewer.weights));
  }
  return names.empty() ? "" : "--weights " + names;
}

std::string lack_of(const NoRoom& no_room, KeptWeights asked) {
  const std::string fits = what_would_fit(no_room, asked);
  return "the model needs " + format_bytes(no_room.needed) + " and " + format_bytes(no_room.available.bytes) + " of " +
         no_room.available.owner + "'s memory are free" + (fits.empty() ? "" : "; " + fits + " would fit there");
}

}  // namespace

std::unique_ptr<Session> with_room(const SessionOptions& options, const MakeSession& make) {
  const auto made = [&make](const SessionOptions& how) { return make ? make(how) : std::make_unique<Session>(how); };
  try {
    return made(options);
  } catch (const NoRoom& no_room) {
    if (options.device != kAutoDevice || no_room.available.owner.empty() || no_room.of_wishes) throw;
    const std::string lack = lack_of(no_room, options.device_options.weights);
    SessionOptions on_host = options;
    on_host.device = device_names().front();
    on_host.note = on_host.device + ": " + lack;
    try {
      return made(on_host);
    } catch (const NoRoom& either) {
      throw NoRoom(std::string(either.message()) + "; nor has " + no_room.available.owner + " room: " + lack,
                   either.needed, either.needs, either.available, either.of_wishes);
    }
  }
}

}  // namespace ashlar
