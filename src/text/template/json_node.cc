// SPDX-License-Identifier: Apache-2.0
#include "text/template/json_node.h"

#include "base/error.h"
#include "io/json.h"

namespace ashlar::text {

void JsonNode::fail(std::string_view message) const { throw Error("tokenizer", where_ + ": " + std::string(message)); }

bool JsonNode::has(const char* key) const { return find(key).has_value(); }

JsonNode JsonNode::at(const char* key) const {
  if (auto node = find(key)) return *node;
  fail("the field '" + for_message(key) + "' is missing");
}

std::optional<JsonNode> JsonNode::find(const char* key) const {
  if (!value_->is_object()) fail(std::string("an object was expected, found ") + value_->type_name());
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return JsonNode(*found, where_ + "." + for_message(key), file_bytes_);
}

void JsonNode::check_size(size_t most) const {
  if (value_->size() <= most) return;
  fail("found " + std::to_string(value_->size()) + " entries, expected at most " + std::to_string(most));
}

std::vector<JsonNode> JsonNode::items(size_t most) const {
  if (!value_->is_array()) fail(std::string("an array was expected, found ") + value_->type_name());
  check_size(most);
  std::vector<JsonNode> nodes;
  nodes.reserve(value_->size());
  for (const Json& item : *value_) {
    nodes.push_back(JsonNode(item, where_ + "[" + std::to_string(nodes.size()) + "]", file_bytes_));
  }
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
  const Json& value = node.raw();
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= static_cast<uint64_t>(limit)) {
    node.fail("a whole number from 0 to " + std::to_string(limit - 1) + " was expected, found " +
              for_message(value.dump()));
  }
  return value.get<int64_t>();
}

}  // namespace ashlar::text
