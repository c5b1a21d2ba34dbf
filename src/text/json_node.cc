#include "text/json_node.h"

#include "base/error.h"
#include "io/json.h"

namespace ashlar::text {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 64;
constexpr size_t kMaxReason = 300;  // bytes of the library's message
constexpr const char* kTag = "tokenizer";

}  // namespace

json parse_tokenizer_json(std::string_view text, std::string_view name) {
  const auto bounded = [name](int depth, json::parse_event_t, json&) {
    if (depth > kMaxDepth) {
      throw Error(kTag, std::string(name) + ": nested deeper than " + std::to_string(kMaxDepth) + " levels");
    }
    return true;
  };
  try {
    return json::parse(text, bounded);
  } catch (const json::exception& error) {
    // The library's message quotes the offending bytes; they may be anything, its id and position are enough.
    std::string message = error.what();
    if (const size_t quote = message.find("; last read"); quote != std::string::npos) message.resize(quote);
    throw Error(kTag, std::string(name) + ": not valid JSON: " + for_message(message, kMaxReason));
  }
}

void JsonNode::fail(std::string_view message) const { throw Error(kTag, where_ + ": " + std::string(message)); }

bool JsonNode::has(const char* key) const { return find(key).has_value(); }

JsonNode JsonNode::at(const char* key) const {
  if (auto node = find(key)) return *node;
  fail("the field '" + for_message(key) + "' is missing");
}

std::optional<JsonNode> JsonNode::find(const char* key) const {
  if (!value_->is_object()) fail(std::string("an object was expected, found ") + value_->type_name());
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonNode(*found, where_ + "." + for_message(key));
}

std::vector<JsonNode> JsonNode::items() const {
  if (!value_->is_array()) fail(std::string("an array was expected, found ") + value_->type_name());
  std::vector<JsonNode> nodes;
  nodes.reserve(value_->size());
  for (const json& item : *value_) nodes.emplace_back(item, where_ + "[" + std::to_string(nodes.size()) + "]");
  return nodes;
}

const std::string& JsonNode::text() const {
  if (!value_->is_string()) fail(std::string("a string was expected, found ") + value_->type_name());
  return value_->get_ref<const std::string&>();
}

std::string JsonNode::text_or(const char* key, std::string_view fallback) const {
  const auto node = find(key);
  return node ? node->text() : std::string(fallback);
}

bool JsonNode::flag_or(const char* key, bool fallback) const {
  const auto node = find(key);
  if (!node) return fallback;
  if (!node->raw().is_boolean())
    node->fail(std::string("true or false was expected, found ") + node->raw().type_name());
  return node->raw().get<bool>();
}

int64_t JsonNode::index(const char* key, int64_t limit) const {
  const JsonNode node = at(key);
  const json& value = node.raw();
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= static_cast<uint64_t>(limit)) {
    node.fail("a whole number from 0 to " + std::to_string(limit - 1) + " was expected, found " +
              for_message(value.dump()));
  }
  return value.get<int64_t>();
}

}  // namespace ashlar::text
