// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/pattern/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <string>

#include "base/error.h"
#include "io/json.h"
#include "text/tokenizer/pattern/regex_dialect.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::text {
namespace {

// A run of spaces of n bytes costs the usual patterns about n steps, so the limit is far above honest text of the
// largest size; it ends patterns that are exponential in their input.
constexpr uint32_t kMatchLimit = 400'000'000;
constexpr uint32_t kHeapLimitKib = 256 * 1024;
constexpr size_t kJitStackStart = 32 * 1024;
constexpr size_t kJitStackLimit = 16 * 1024 * 1024;
constexpr size_t kMaxPatternBytes = 64 * 1024;

// What a match needs besides the pattern; one per thread, because matching is const and concurrent.
struct Scratch {
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(kJitStackStart, kJitStackLimit, nullptr);
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);

  Scratch() {
    if (context == nullptr || stack == nullptr || data == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit(context, kMatchLimit);
    pcre2_set_heap_limit(context, kHeapLimitKib);
    pcre2_jit_stack_assign(context, nullptr, stack);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    pcre2_match_data_free(data);
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
  }
};

Scratch& scratch() {
  thread_local Scratch instance;
  return instance;
}

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

}  // namespace

struct Regex::Compiled {
  pcre2_code* code = nullptr;
  std::string pattern;  // as errors quote it

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() { pcre2_code_free(code); }
};

Regex::Regex(std::unique_ptr<Compiled> compiled) : compiled_(std::move(compiled)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Regex Regex::from_oniguruma(std::string_view pattern, std::string_view where) {
  if (pattern.size() > kMaxPatternBytes) {
    throw Error("tokenizer", std::string(where) + ": a regular expression of " + std::to_string(pattern.size()) +
                                 " bytes; the limit is " + std::to_string(kMaxPatternBytes));
  }
  const std::string translated = translate_oniguruma(pattern, where);
  auto compiled = std::make_unique<Compiled>();
  compiled->pattern = for_message(pattern);
  std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), pcre2_compile_context_free);
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE offset = 0;
  compiled->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, context.get());
  if (compiled->code == nullptr) {
    throw Error("tokenizer", std::string(where) + ": the regular expression '" + for_message(pattern) +
                                 "' does not compile: " + message_of(error) + " (at byte " + std::to_string(offset) +
                                 " of '" + for_message(translated) + "')");
  }
  // Without executable memory the interpreter runs instead: the same matches, slower.
  pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE);
  return Regex(std::move(compiled));
}

Regex Regex::from_literal(std::string_view text, std::string_view where) {
  std::string pattern;
  for (const char c : text) {
    const bool plain = static_cast<signed char>(c) < 0 || std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::iscntrl(static_cast<unsigned char>(c)) != 0 || c == ' ';
    if (!plain) pattern += '\\';
    pattern += c;
  }
  return from_oniguruma(pattern, where);
}

void Regex::find_all(std::string_view text, std::vector<ByteRange>& matches) const {
  matches.clear();
  Scratch& own = scratch();
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  bool matched_before = false;
  for (size_t from = 0; from <= text.size();) {
    const int rc = pcre2_match(compiled_->code, subject, text.size(), from, PCRE2_NO_UTF_CHECK, own.data, own.context);
    if (rc == PCRE2_ERROR_NOMATCH) return;
    if (rc < 0) {
      throw Error("tokenizer", "the tokenizer's regular expression '" + compiled_->pattern + "' failed on a text of " +
                                   std::to_string(text.size()) + " bytes: " + message_of(rc));
    }
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(own.data);
    const ByteRange match{found[0], found[1]};
    if (match.begin == match.end && matched_before && matches.back().end == match.end) {
      if (from == text.size()) return;
      from += utf8_at(text, from).length;
      continue;
    }
    // \K and lookbehind can move a match's start after its end or before `from`.
    if (match.end < match.begin || match.begin < from) {
      throw Error("tokenizer", "the tokenizer's regular expression '" + compiled_->pattern + "' matches backwards");
    }
    matches.push_back(match);
    matched_before = true;
    from = match.end;
  }
}

}  // namespace ashlar::text
