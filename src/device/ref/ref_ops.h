// SPDX-License-Identifier: Apache-2.0
#pragma once
// The executable specification: scalar fp32 loops, one thread, no packing. Slow on purpose.

#include <memory>

#include "device/kv/kv_codec.h"
#include "device/ops.h"

namespace ashlar {

/// Keys and values are kept exactly, in f32, or as codes.
std::unique_ptr<Ops> make_ref_ops(KvDType kv_dtype = KvDType::kF32);

}  // namespace ashlar
