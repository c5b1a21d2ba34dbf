#include "server/page/page.h"

namespace ashlar::server {
namespace {

constexpr char kIndex[] = {
#include "server/page/generated/index.html.inc"
};
constexpr char kStyle[] = {
#include "server/page/generated/style.css.inc"
};
constexpr char kScript[] = {
#include "server/page/generated/app.js.inc"
};

template <size_t n>
constexpr std::string_view view(const char (&bytes)[n]) {
  return {bytes, n};
}

constexpr PageFile kFiles[] = {
    {"/", "text/html; charset=utf-8", view(kIndex)},
    {"/style.css", "text/css; charset=utf-8", view(kStyle)},
    {"/app.js", "text/javascript; charset=utf-8", view(kScript)},
};

}  // namespace

std::span<const PageFile> page_files() { return kFiles; }

Headers page_headers() {
  return {{"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
           "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cache-Control", "no-cache"}};
}

}  // namespace ashlar::server
