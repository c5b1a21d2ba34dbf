// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes SVG: elements that are always closed, text that is always escaped, numbers that are always finite.

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ashlar {

class SvgWriter {
 public:
  using Attributes = std::initializer_list<std::pair<std::string_view, std::string>>;

  /// Size in pixels; the background is white.
  SvgWriter(double width, double height);

  void line(double x1, double y1, double x2, double y2, Attributes attributes);
  void rect(double x, double y, double width, double height, Attributes attributes);
  void circle(double x, double y, double radius, Attributes attributes);
  /// Joins points by straight lines.
  void polyline(const std::vector<std::pair<double, double>>& points, Attributes attributes);
  void text(double x, double y, std::string_view content, Attributes attributes);

  /// The whole document.
  std::string finish() const { return body_ + "</svg>\n"; }

 private:
  void element(std::string_view name, const std::string& geometry, Attributes attributes);

  std::string body_;
};

/// A coordinate: at most two decimals. The value must be finite.
std::string svg_number(double value);
/// Text for SVG: markup and quotes as entities, control characters (not allowed in XML) as '?'.
std::string svg_escape(std::string_view text);

}  // namespace ashlar
