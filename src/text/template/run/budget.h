// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a render may use. Templates come with model folders, so they are treated as hostile: every loop of the
// interpreter takes steps, every byte it writes or scans is work, and both run out.

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <functional>
#include <stdexcept>
#include <string>

namespace ashlar {

/// Limits of one Template::render. Running into one is an Error that names it.
struct RenderLimits {
  std::uint64_t steps = 2'000'000;          ///< evaluated nodes and visited elements
  std::uint64_t work_bytes = 256ull << 20;  ///< bytes written or scanned in total; bounds memory too
  std::size_t output_bytes = 16u << 20;     ///< the rendered text
  std::size_t string_bytes = 16u << 20;     ///< any single string
  std::size_t range_items = 100'000;        ///< range(), as Jinja's sandbox
  int depth = 800;                          ///< nested evaluations; over a hundred levels of macro recursion
};

/// Local time for strftime_now; an empty one reads the machine's clock.
using Clock = std::function<std::tm()>;

namespace tmpl {

/// Thrown inside the template engine; Template turns it into an Error with name and line.
struct TemplateFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A failure whose line is known: those of lexer and parser.
struct LocatedFailure : TemplateFailure {
  LocatedFailure(int at, const std::string& message) : TemplateFailure(message), line(at) {}
  int line;
};

[[noreturn]] inline void fail(const std::string& message) { throw TemplateFailure(message); }

/// Nesting of lists, dicts and objects. Bounds the recursion of printing, comparing and destroying values.
inline constexpr int kMaxNesting = 200;

class Budget {
 public:
  explicit Budget(const RenderLimits& limits) : limits_(limits) {}

  void step(std::uint64_t count = 1) {
    steps_ += count;
    if (steps_ > limits_.steps) [[unlikely]]
      fail("limit of " + std::to_string(limits_.steps) + " evaluation steps exceeded");
  }

  void work(std::uint64_t bytes) {
    work_ += bytes;
    if (work_ > limits_.work_bytes) [[unlikely]]
      fail("limit of " + std::to_string(limits_.work_bytes) + " bytes of work exceeded");
  }

  /// Before a string of `bytes` bytes is made.
  void string_size(std::uint64_t bytes) {
    if (bytes > limits_.string_bytes) [[unlikely]]
      fail("limit of " + std::to_string(limits_.string_bytes) + " bytes in a string exceeded");
    work(bytes);
  }

  const RenderLimits& limits() const { return limits_; }

 private:
  RenderLimits limits_;
  std::uint64_t steps_ = 0;
  std::uint64_t work_ = 0;
};

}  // namespace tmpl
}  // namespace ashlar
