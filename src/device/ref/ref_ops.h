#pragma once
// The executable specification: scalar fp32 loops, one thread, no packing. Slow on purpose.

#include <memory>

#include "device/ops.h"

namespace ashlar {

std::unique_ptr<Ops> make_ref_ops();

}  // namespace ashlar
