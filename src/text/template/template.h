// SPDX-License-Identifier: Apache-2.0
#pragma once
// A sandboxed subset of Jinja, complete enough to render the chat templates of published models exactly as Hugging
// Face transformers does (ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks and loop controls).
// Left out: everything that loads other templates, autoescaping, and integers beyond 64 bits.

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/json.h"
#include "text/template/run/budget.h"
#include "text/template/run/variable.h"

namespace ashlar {

/// A parsed template. Immutable: any number of threads may render one.
class Template {
 public:
  /// Parses `source` (UTF-8, at most 1 MiB). `name` stands in messages. Throws Error("template") with the line.
  static Template parse(std::string_view source, std::string_view name);

  /// Renders with `variables`, in addition to the globals of transformers
  /// (raise_exception, strftime_now, range, dict, namespace, joiner, cycler). Throws Error("template") with the line:
  /// what the template itself raises, misuse of a value, or the limit that was exceeded.
  SourcedText render(std::span<const Variable> variables, const RenderLimits& limits = {},
                     const Clock& clock = {}) const;
  /// The members of the object `variables` as names; null counts as an empty one.
  std::string render(const Json& variables, const RenderLimits& limits = {}, const Clock& clock = {}) const;

 private:
  struct Parsed;
  explicit Template(std::shared_ptr<const Parsed> parsed) : parsed_(std::move(parsed)) {}

  std::shared_ptr<const Parsed> parsed_;
};

}  // namespace ashlar
