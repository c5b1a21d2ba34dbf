// SPDX-License-Identifier: Apache-2.0
#include "server/page/page.h"

namespace ashlar::server {
namespace {

constexpr char kIndexHtml[] = {
#include "server/page/generated/index.html.inc"
};
constexpr char kStyleCss[] = {
#include "server/page/generated/style.css.inc"
};
constexpr char kPartsCss[] = {
#include "server/page/generated/parts.css.inc"
};
constexpr char kThemeJs[] = {
#include "server/page/generated/theme.js.inc"
};
constexpr char kAppJs[] = {
#include "server/page/generated/app.js.inc"
};
constexpr char kApiJs[] = {
#include "server/page/generated/api.js.inc"
};
constexpr char kAnswerJs[] = {
#include "server/page/generated/answer.js.inc"
};
constexpr char kAnswerViewJs[] = {
#include "server/page/generated/answer_view.js.inc"
};
constexpr char kChartsJs[] = {
#include "server/page/generated/charts.js.inc"
};
constexpr char kChatJs[] = {
#include "server/page/generated/chat.js.inc"
};
constexpr char kCompareJs[] = {
#include "server/page/generated/compare.js.inc"
};
constexpr char kConversationsJs[] = {
#include "server/page/generated/conversations.js.inc"
};
constexpr char kDomJs[] = {
#include "server/page/generated/dom.js.inc"
};
constexpr char kFiguresJs[] = {
#include "server/page/generated/figures.js.inc"
};
constexpr char kFlowJs[] = {
#include "server/page/generated/flow.js.inc"
};
constexpr char kFormingJs[] = {
#include "server/page/generated/forming.js.inc"
};
constexpr char kKeyJs[] = {
#include "server/page/generated/key.js.inc"
};
constexpr char kOutcomeJs[] = {
#include "server/page/generated/outcome.js.inc"
};
constexpr char kSettingsJs[] = {
#include "server/page/generated/settings.js.inc"
};
constexpr char kWelcomeJs[] = {
#include "server/page/generated/welcome.js.inc"
};
constexpr char kMarkdownBlocksJs[] = {
#include "server/page/generated/markdown/blocks.js.inc"
};
constexpr char kMarkdownHighlightJs[] = {
#include "server/page/generated/markdown/highlight.js.inc"
};
constexpr char kMarkdownInlineJs[] = {
#include "server/page/generated/markdown/inline.js.inc"
};
constexpr char kMarkdownLinesJs[] = {
#include "server/page/generated/markdown/lines.js.inc"
};
constexpr char kMarkdownCss[] = {
#include "server/page/generated/markdown/markdown.css.inc"
};
constexpr char kMarkdownTreeJs[] = {
#include "server/page/generated/markdown/tree.js.inc"
};

template <size_t n>
constexpr std::string_view view(const char (&bytes)[n]) {
  return {bytes, n};
}

constexpr const char* kHtml = "text/html; charset=utf-8";
constexpr const char* kCss = "text/css; charset=utf-8";
constexpr const char* kScript = "text/javascript; charset=utf-8";

constexpr PageFile kFiles[] = {
    {"/", kHtml, view(kIndexHtml)},
    {"/style.css", kCss, view(kStyleCss)},
    {"/parts.css", kCss, view(kPartsCss)},
    {"/theme.js", kScript, view(kThemeJs)},
    {"/app.js", kScript, view(kAppJs)},
    {"/api.js", kScript, view(kApiJs)},
    {"/answer.js", kScript, view(kAnswerJs)},
    {"/answer_view.js", kScript, view(kAnswerViewJs)},
    {"/charts.js", kScript, view(kChartsJs)},
    {"/chat.js", kScript, view(kChatJs)},
    {"/compare.js", kScript, view(kCompareJs)},
    {"/conversations.js", kScript, view(kConversationsJs)},
    {"/dom.js", kScript, view(kDomJs)},
    {"/figures.js", kScript, view(kFiguresJs)},
    {"/flow.js", kScript, view(kFlowJs)},
    {"/forming.js", kScript, view(kFormingJs)},
    {"/key.js", kScript, view(kKeyJs)},
    {"/markdown/blocks.js", kScript, view(kMarkdownBlocksJs)},
    {"/markdown/highlight.js", kScript, view(kMarkdownHighlightJs)},
    {"/markdown/inline.js", kScript, view(kMarkdownInlineJs)},
    {"/markdown/lines.js", kScript, view(kMarkdownLinesJs)},
    {"/markdown/markdown.css", kCss, view(kMarkdownCss)},
    {"/markdown/tree.js", kScript, view(kMarkdownTreeJs)},
    {"/outcome.js", kScript, view(kOutcomeJs)},
    {"/settings.js", kScript, view(kSettingsJs)},
    {"/welcome.js", kScript, view(kWelcomeJs)},
};

}  // namespace

std::span<const PageFile> page_files() { return kFiles; }

Headers page_headers() {
  return {{"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
           "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
           "require-trusted-types-for 'script'; trusted-types 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cache-Control", "no-cache"}};
}

}  // namespace ashlar::server
