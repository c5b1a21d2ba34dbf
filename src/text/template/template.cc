// SPDX-License-Identifier: Apache-2.0
#include "text/template/template.h"

#include "base/error.h"
#include "io/json.h"
#include "text/template/parse/parser.h"
#include "text/template/parse/scope_analysis.h"
#include "text/template/run/interpreter.h"
#include "text/template/values/objects.h"
#include "text/template/values/utf8.h"

namespace ashlar {
namespace {

constexpr std::size_t kMaxSourceBytes = 1u << 20;
constexpr std::size_t kMaxReason = 500;  // bytes; honest templates explain a refusal in up to 200

// `message` may quote anything: what the template says by raise_exception, its names, the conversation.
[[noreturn]] void fail_at(const std::string& name, int line, const std::string& message) {
  throw Error("template", name + ":" + std::to_string(line) + ": " + for_message(message, kMaxReason));
}

}  // namespace

struct Template::Parsed {
  std::string name;
  tmpl::Body body;
  tmpl::HiddenNames hidden;
};

Template Template::parse(std::string_view source, std::string_view name) {
  auto parsed = std::make_shared<Parsed>();
  parsed->name = std::string(name);
  if (source.size() > kMaxSourceBytes)
    fail_at(
        parsed->name, 1,
        "limit of " + std::to_string(kMaxSourceBytes) + " bytes of source exceeded: " + std::to_string(source.size()));
  if (!tmpl::valid_utf8(source)) fail_at(parsed->name, 1, "the source is not valid UTF-8");
  try {
    parsed->body = tmpl::Parser(tmpl::tokenize(source)).parse();
    parsed->hidden = tmpl::analyze_scopes(parsed->body);
  } catch (const tmpl::LocatedFailure& failure) {
    fail_at(parsed->name, failure.line, failure.what());
  } catch (const tmpl::TemplateFailure& failure) {
    fail_at(parsed->name, 1, failure.what());
  }
  return Template(std::move(parsed));
}

std::string Template::render(const Json& variables, const RenderLimits& limits, const Clock& clock) const {
  std::vector<Variable> list;
  if (!variables.is_object() && !variables.is_null())
    fail_at(parsed_->name, 1, std::string("the variables must be an object, got ") + variables.type_name());
  for (const auto& [name, value] : variables.items()) list.push_back({name, &value});
  return render(list, limits, clock).bytes;
}

SourcedText Template::render(std::span<const Variable> variables, const RenderLimits& limits,
                             const Clock& clock) const {
  std::unique_ptr<tmpl::Interpreter> interpreter;
  try {
    interpreter = std::make_unique<tmpl::Interpreter>(limits, clock, variables);
    return interpreter->run(parsed_->body, parsed_->hidden);
  } catch (const tmpl::TemplateFailure& failure) {
    // The sender of the conversation reads this, and need not know where the file lies.
    fail_at(parsed_->name.substr(parsed_->name.rfind('/') + 1), interpreter != nullptr ? interpreter->line() : 1,
            failure.what());
  }
}

}  // namespace ashlar
