// SPDX-License-Identifier: Apache-2.0
#pragma once
// A bench as text and JSON.

#include <string>

#include "io/json.h"
#include "measure/engine/bench.h"

namespace ashlar {

std::string bench_text(const BenchResult& result);
/// Every figure, without provenance. Times in milliseconds, rates per second.
Json bench_json(const BenchResult& result);

}  // namespace ashlar
