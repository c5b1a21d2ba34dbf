// SPDX-License-Identifier: Apache-2.0
#include "io/json.h"

#include <memory>
#include <sstream>
#include <utility>

#include "base/error.h"

namespace {

template <class T>
void destroy_and_free(T* value) noexcept {
  if (value == nullptr) return;  // its allocation failed
  std::destroy_at(value);
  std::allocator<T>().deallocate(value, 1);
}

}  // namespace

template <>
void ashlar::Json::json_value::destroy(ashlar::Json::value_t type) {
  using Type = ashlar::Json::value_t;
  if (type == Type::object) destroy_and_free(object);
  if (type == Type::array) destroy_and_free(array);
  if (type == Type::string) destroy_and_free(string);
  if (type == Type::binary) destroy_and_free(binary);
}

namespace ashlar {
namespace {

bool is_above_int64(const Json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX);
}

}  // namespace

std::string for_message(std::string_view text, size_t most) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    // Never cut inside a UTF-8 sequence.
    if (result.size() >= most && (byte & 0xC0) != 0x80) return result + "...";
    // U+0080 to U+009F are control characters as well: U+009B begins a terminal's escape sequences as ESC [ does.
    const bool high = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) - 0x80U < 0x20U;
    if (high) ++i;
    result += high || byte < 0x20 || byte == 0x7F ? '?' : text[i];
    if (result.size() > most + 8) return result + "...";
  }
  return result;
}

JsonFields::JsonFields(const Json& object, std::string file, std::string tag)
    : object_(object), file_(std::move(file)), tag_(std::move(tag)) {
  if (!object.is_object()) throw Error(tag_, file_ + ": expected a JSON object, found " + object.type_name());
}

bool JsonFields::has(const std::string& key) const {
  const auto it = object_.find(key);
  return it != object_.end() && !it->is_null();
}

void JsonFields::fail(const std::string& key, const std::string& expected) const {
  const std::string found =
      has(key) ? for_message(object_.at(key).dump(-1, ' ', true, Json::error_handler_t::replace)) : "nothing";
  throw Error(tag_, file_ + ": \"" + key + "\": expected " + expected + ", found " + found);
}

const Json& JsonFields::at(const std::string& key, const char* expected) const {
  if (!has(key)) fail(key, expected);
  return object_.at(key);
}

int64_t JsonFields::integer(const std::string& key, int64_t low, int64_t high) const {
  const std::string expected = "an integer from " + std::to_string(low) + " to " + std::to_string(high);
  const Json& value = at(key, expected.c_str());
  if (!value.is_number_integer() || is_above_int64(value)) fail(key, expected);
  const auto number = value.get<int64_t>();
  if (number < low || number > high) fail(key, expected);
  return number;
}

int64_t JsonFields::integer(const std::string& key, int64_t low, int64_t high, int64_t fallback) const {
  return has(key) ? integer(key, low, high) : fallback;
}

double JsonFields::number(const std::string& key, double low, double high) const {
  std::ostringstream expected;
  expected << "a number from " << low << " to " << high;
  const Json& value = at(key, expected.str().c_str());
  if (!value.is_number()) fail(key, expected.str());
  const auto number = value.get<double>();
  if (!(number >= low && number <= high)) fail(key, expected.str());
  return number;
}

double JsonFields::number(const std::string& key, double low, double high, double fallback) const {
  return has(key) ? number(key, low, high) : fallback;
}

bool JsonFields::boolean(const std::string& key, bool fallback) const {
  if (!has(key)) return fallback;
  const Json& value = object_.at(key);
  if (!value.is_boolean()) fail(key, "true or false");
  return value.get<bool>();
}

std::string JsonFields::string(const std::string& key) const {
  const Json& value = at(key, "a string");
  if (!value.is_string()) fail(key, "a string");
  return value.get<std::string>();
}

std::string JsonFields::string(const std::string& key, const std::string& fallback) const {
  return has(key) ? string(key) : fallback;
}

std::vector<int32_t> JsonFields::integers(const std::string& key, int64_t low, int64_t high) const {
  const std::string expected = "a list of integers from " + std::to_string(low) + " to " + std::to_string(high);
  const Json& value = at(key, expected.c_str());
  if (!value.is_array()) fail(key, expected);
  std::vector<int32_t> result;
  for (const Json& item : value) {
    if (!item.is_number_integer() || is_above_int64(item)) fail(key, expected);
    const auto number = item.get<int64_t>();
    if (number < low || number > high) fail(key, expected);
    result.push_back(static_cast<int32_t>(number));
  }
  return result;
}

std::vector<std::string> JsonFields::strings(const std::string& key) const {
  const Json& value = at(key, "a list of strings");
  if (!value.is_array()) fail(key, "a list of strings");
  std::vector<std::string> result;
  for (const Json& item : value) {
    if (!item.is_string()) fail(key, "a list of strings");
    result.push_back(item.get<std::string>());
  }
  return result;
}

JsonFields JsonFields::object(const std::string& key) const {
  const Json& value = at(key, "an object");
  if (!value.is_object()) fail(key, "an object");
  return {value, file_, tag_};
}

const Json& JsonFields::raw(const std::string& key) const { return at(key, "a value"); }

}  // namespace ashlar
