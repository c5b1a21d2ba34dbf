// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ashlar {

inline constexpr const char* kPalette[] = {"#0072b2", "#d55e00", "#009e73",
                                           "#cc79a7", "#e69f00", "#56b4e9"};  // Okabe and Ito
inline constexpr const char* kInk = "#222222";
inline constexpr const char* kFaint = "#666666";
inline constexpr const char* kGrid = "#e4e4e4";

}  // namespace ashlar
