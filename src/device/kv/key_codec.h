// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "device/kv/kv_codec.h"

namespace ashlar {

/// How keys are coded where `values` is how values are: another codec if keys need more bits, `values` itself if not.
/// Both keep vectors in the same coordinates.
const KvCodec& key_codec(const KvCodec& values);

}  // namespace ashlar
