// SPDX-License-Identifier: Apache-2.0
#include "server/api/parse/fields.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ashlar::server {
namespace {

const Json& empty_object() {
  static const Json kEmpty = Json::object();
  return kEmpty;
}

std::string joined(std::initializer_list<std::string_view> words) {
  std::string text;
  for (const std::string_view word : words) {
    if (!text.empty()) text += ", ";
    text.append("\"").append(word).append("\"");
  }
  return text;
}

/// What clients send for "not wanted".
bool is_neutral(const Json& value) {
  if (value.is_string()) return value.get_ref<const std::string&>().empty();
  if (value.is_number()) return value.get<double>() == 0.0;
  if (value.is_boolean()) return !value.get<bool>();
  return value.empty();  // null, [], {}
}

/// Null and false ask for nothing, whatever the field means.
bool is_off(const Json& value) { return value.is_null() || value == Json(false); }

bool asks_for_nothing(const FieldSpec& spec, const Json& value) {
  if (is_neutral(value)) return true;
  const Json harmless = Json::parse(spec.harmless);
  return std::find(harmless.begin(), harmless.end(), value) != harmless.end();
}

/// Of a type of JSON Schema.
bool is_of_type(const Json& value, std::string_view type) {
  if (type == "boolean") return value.is_boolean();
  if (type == "string") return value.is_string();
  if (type == "array") return value.is_array();
  if (type == "object") return value.is_object();
  if (type == "integer") return integer_in(value, INT64_MIN, INT64_MAX).has_value();
  return type != "number" || value.is_number();
}

std::string in_words(std::string_view type) {
  if (type == "boolean") return "true or false";
  const bool vowel = type == "array" || type == "object" || type == "integer";
  return (vowel ? "an " : "a ") + std::string(type);
}

}  // namespace

void Reading::fail(const std::string& path, const std::string& message, const std::string& code) {
  if (error) return;
  error.emplace();
  error->message = path.empty() ? message : path + ": " + message;
  error->param = path;
  error->code = code;
}

std::string found(const Json& value) {
  if (value.is_null()) return "nothing";
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  return (value.is_string() ? "the string " : "") +
         for_message(value.dump(-1, ' ', true, Json::error_handler_t::replace));
}

std::string at_index(const std::string& path, size_t index) { return path + "[" + std::to_string(index) + "]"; }

std::optional<int64_t> integer_in(const Json& value, int64_t low, int64_t high) {
  int64_t number = 0;
  if (value.is_number_unsigned()) {
    if (value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
    number = value.get<int64_t>();
  } else if (value.is_number_integer()) {
    number = value.get<int64_t>();
  } else if (value.is_number_float()) {
    const auto real = value.get<double>();
    if (!(std::abs(real) < 9e15) || real != std::floor(real)) return std::nullopt;  // exact up to here
    number = static_cast<int64_t>(real);
  } else {
    return std::nullopt;
  }
  return number >= low && number <= high ? std::optional(number) : std::nullopt;
}

Fields::Fields(const Json& object, std::string path, Reading& reading)
    : object_(object.is_object() ? object : empty_object()), path_(std::move(path)), reading_(reading) {
  if (!object.is_object()) {
    reading_.fail(
        path_, (path_.empty() ? "the body: expected an object, found " : "expected an object, found ") + found(object));
  }
}

std::string Fields::path(std::string_view name) const {
  return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

const Json* Fields::find(std::string_view name) {
  used_.emplace_back(name);
  const auto it = object_.find(std::string(name));
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

bool Fields::has(std::string_view name) { return find(name) != nullptr; }
const Json* Fields::any(std::string_view name) { return find(name); }
void Fields::ignore(std::string_view name) { used_.emplace_back(name); }
void Fields::fail(std::string_view name, const std::string& message) { reading_.fail(path(name), message); }

void Fields::expect(std::string_view name, const std::string& expected) {
  const Json* value = find(name);
  fail(name, "expected " + expected + ", found " + (value == nullptr ? "nothing" : found(*value)));
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t low, int64_t high) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  const auto number = integer_in(*value, low, high);
  if (!number) expect(name, "an integer from " + std::to_string(low) + " to " + std::to_string(high));
  return number;
}

std::optional<double> Fields::number(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    expect(name, "a number");
    return std::nullopt;
  }
  return value->get<double>();
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_boolean()) {
    expect(name, "true or false");
    return std::nullopt;
  }
  return value->get<bool>();
}

std::optional<std::string> Fields::string(std::string_view name, size_t max_bytes) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) {
    expect(name, "a string");
    return std::nullopt;
  }
  const auto& text = value->get_ref<const std::string&>();
  if (text.size() > max_bytes) {
    fail(name, "has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(max_bytes) + " are allowed");
    return std::nullopt;
  }
  return text;
}

std::optional<std::string> Fields::choice(std::string_view name, std::initializer_list<std::string_view> allowed) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (value->is_string() &&
      std::find(allowed.begin(), allowed.end(), value->get_ref<const std::string&>()) != allowed.end()) {
    return value->get<std::string>();
  }
  expect(name, (allowed.size() == 1 ? "" : "one of ") + joined(allowed));
  return std::nullopt;
}

const Json* Fields::object(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr || value->is_object()) return value;
  expect(name, "an object");
  return nullptr;
}

const Json* Fields::array(std::string_view name, size_t max_items) {
  const Json* value = find(name);
  if (value == nullptr) return nullptr;
  if (!value->is_array()) {
    expect(name, "an array");
    return nullptr;
  }
  if (value->size() > max_items) {
    fail(name,
         "has " + std::to_string(value->size()) + " elements; at most " + std::to_string(max_items) + " are allowed");
    return nullptr;
  }
  return value;
}

std::vector<std::string> Fields::strings(std::string_view name, size_t max_items, size_t max_bytes) {
  std::vector<std::string> result;
  const Json* items = array(name, max_items);
  for (size_t i = 0; items != nullptr && i < items->size(); ++i) {
    const Json& item = (*items)[i];
    const std::string where = at_index(path(name), i);
    if (!item.is_string()) {
      reading_.fail(where, "expected a string, found " + found(item));
    } else if (item.get_ref<const std::string&>().empty() || item.get_ref<const std::string&>().size() > max_bytes) {
      reading_.fail(where, "expected 1 to " + std::to_string(max_bytes) + " bytes, found " +
                               std::to_string(item.get_ref<const std::string&>().size()));
    } else {
      result.push_back(item.get<std::string>());
    }
  }
  return result;
}

// Nothing is made of a tolerated field, so nothing else would look at it.
void Fields::check_type(const FieldSpec& spec) {
  const std::string type = Json::parse(spec.schema).value("type", "");
  const Json* value = find(spec.name);
  if (value != nullptr && !type.empty() && !is_of_type(*value, type)) expect(spec.name, in_words(type));
}

// That a field does nothing goes to the log, not to the client.
void Fields::report_ignored(std::string_view name, const Json& value) const {
  const auto& report = reading_.limits.on_ignored;
  if (report && !value.is_null()) report(path(for_message(name)));
}

void Fields::check(Endpoint endpoint) {
  constexpr size_t kMaxMembers = 1024;  // each is looked up in the table
  if (object_.size() > kMaxMembers) {
    return reading_.fail(path_, "the object has " + std::to_string(object_.size()) + " members; at most " +
                                    std::to_string(kMaxMembers) + " are allowed");
  }
  for (const auto& [name, value] : object_.items()) {
    const FieldSpec* spec = find_field(endpoint, name);
    if (spec == nullptr) {
      if (is_off(value)) continue;  // finish() reports it
      reading_.fail(path(for_message(name)), std::string("is not a field of ") + info_of(endpoint).path +
                                                 "; docs/api.md and /openapi.json list what is");
      return;
    }
    if (spec->use == FieldUse::kRefused && !asks_for_nothing(*spec, value)) {
      reading_.fail(path(name), spec->note);
      return;
    }
    if (spec->use == FieldUse::kTolerated) check_type(*spec);
    if (spec->use == FieldUse::kActs) continue;
    ignore(name);
    report_ignored(name, value);
  }
  for (const FieldSpec& spec : all_fields()) {
    if (spec.required && (spec.endpoints & bit_of(endpoint)) != 0 && !has(spec.name)) expect(spec.name, "a value");
  }
}

void Fields::finish() {
  if (!reading_.ok()) return;
  for (const auto& [name, value] : object_.items()) {
    if (std::find(used_.begin(), used_.end(), name) != used_.end()) continue;
    if (is_off(value)) {
      report_ignored(name, value);
      continue;
    }
    reading_.fail(path(for_message(name)), "is not a field that is known here");
    return;
  }
}

std::vector<int32_t> token_ids(const Json& array, const std::string& path, Reading& reading) {
  std::vector<int32_t> ids;
  if (array.size() > static_cast<size_t>(reading.limits.prompt_tokens)) {
    reading.fail(path, "has " + std::to_string(array.size()) + " token ids; at most " +
                           std::to_string(reading.limits.prompt_tokens) + " are allowed");
    return ids;
  }
  ids.reserve(array.size());
  for (size_t i = 0; i < array.size(); ++i) {
    const auto id = integer_in(array[i], 0, reading.limits.vocab - 1);
    if (!id) {
      reading.fail(at_index(path, i), "expected a token id from 0 to " + std::to_string(reading.limits.vocab - 1) +
                                          ", found " + found(array[i]));
      return ids;
    }
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

}  // namespace ashlar::server
