// SPDX-License-Identifier: Apache-2.0
#include "measure/report/svg.h"

#include <cmath>
#include <cstdio>

#include "base/check.h"

namespace ashlar {
namespace {

std::string attribute(std::string_view name, const std::string& value) {
  return " " + std::string(name) + "=\"" + svg_escape(value) + "\"";
}

std::string at(std::string_view name, double value) { return attribute(name, svg_number(value)); }

}  // namespace

std::string svg_number(double value) {
  ASHLAR_CHECK(std::isfinite(value));
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", value);
  std::string result = text;
  result.erase(result.find_last_not_of('0') + 1);
  if (result.back() == '.') result.pop_back();
  return result == "-0" ? "0" : result;
}

std::string svg_escape(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
    }
  }
  return result;
}

SvgWriter::SvgWriter(double width, double height) {
  body_ = "<svg xmlns=\"http://www.w3.org/2000/svg\"" + at("width", width) + at("height", height) +
          attribute("viewBox", "0 0 " + svg_number(width) + " " + svg_number(height)) +
          " font-family=\"system-ui, 'DejaVu Sans', Helvetica, Arial, sans-serif\">\n";
  rect(0, 0, width, height, {{"fill", "#ffffff"}});
}

void SvgWriter::element(std::string_view name, const std::string& geometry, Attributes attributes) {
  body_ += "<" + std::string(name) + geometry;
  for (const auto& [key, value] : attributes) body_ += attribute(key, value);
  body_ += "/>\n";
}

void SvgWriter::line(double x1, double y1, double x2, double y2, Attributes attributes) {
  element("line", at("x1", x1) + at("y1", y1) + at("x2", x2) + at("y2", y2), attributes);
}

void SvgWriter::rect(double x, double y, double width, double height, Attributes attributes) {
  element("rect", at("x", x) + at("y", y) + at("width", width) + at("height", height), attributes);
}

void SvgWriter::circle(double x, double y, double radius, Attributes attributes) {
  element("circle", at("cx", x) + at("cy", y) + at("r", radius), attributes);
}

void SvgWriter::polyline(const std::vector<std::pair<double, double>>& points, Attributes attributes) {
  std::string list;
  for (const auto& [x, y] : points) list += (list.empty() ? "" : " ") + svg_number(x) + "," + svg_number(y);
  element("polyline", attribute("points", list) + " fill=\"none\"", attributes);
}

void SvgWriter::text(double x, double y, std::string_view content, Attributes attributes) {
  body_ += "<text" + at("x", x) + at("y", y);
  for (const auto& [key, value] : attributes) body_ += attribute(key, value);
  body_ += ">" + svg_escape(content) + "</text>\n";
}

}  // namespace ashlar
