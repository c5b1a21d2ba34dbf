// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/steps/post_processor.h"

#include "io/json.h"
#include "text/tokenizer/bpe.h"

namespace ashlar::text {
namespace {

// Of a template and of what it names; those in use have three.
constexpr size_t kMaxParts = 256;

// ["[CLS]", 101]
int32_t id_of_pair(const JsonNode& node) {
  const auto items = node.items();
  if (items.size() != 2 || !items[1].raw().is_number_unsigned() ||
      items[1].raw().get<uint64_t>() >= static_cast<uint64_t>(kMaxVocabulary)) {
    node.fail("[content, id] was expected");
  }
  return items[1].raw().get<int32_t>();
}

}  // namespace

PostProcessor::PostProcessor(const std::optional<JsonNode>& node) {
  if (node) add(*node);
}

void PostProcessor::add(const JsonNode& node) {
  const std::string& type = node.text("type");
  if (type == "Sequence") {
    for (const JsonNode& item : node.at("processors").items(kMaxParts)) add(item);
  } else if (type == "TemplateProcessing") {
    add_template(node);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    surround({id_of_pair(node.at("cls"))}, {id_of_pair(node.at("sep"))}, node);
  } else if (type != "ByteLevel") {
    node.fail("the post-processor type '" + for_message(type) +
              "' is not supported (known: Sequence, TemplateProcessing, RobertaProcessing, BertProcessing, ByteLevel)");
  }
}

void PostProcessor::add_template(const JsonNode& node) {
  std::vector<int32_t> before, after;
  bool text_seen = false;
  for (const JsonNode& part : node.at("single").items(kMaxParts)) {
    if (const auto sequence = part.find("Sequence")) {
      if (text_seen || sequence->text("id") != "A") sequence->fail("the template must hold the sequence A once");
      text_seen = true;
      continue;
    }
    const std::string& name = part.at("SpecialToken").text("id");
    const JsonNode named = node.at("special_tokens");
    named.check_size(kMaxParts);  // each name is looked for among all
    const JsonNode token = named.at(name.c_str());
    for (const JsonNode& id : token.at("ids").items(kMaxParts)) {
      if (!id.raw().is_number_unsigned() || id.raw().get<uint64_t>() >= static_cast<uint64_t>(kMaxVocabulary)) {
        id.fail("an id was expected, found " + for_message(id.raw().dump()));
      }
      (text_seen ? after : before).push_back(id.raw().get<int32_t>());
    }
  }
  if (!text_seen) node.fail("the template does not hold the sequence A");
  surround(before, after, node);
}

void PostProcessor::surround(const std::vector<int32_t>& before, const std::vector<int32_t>& after,
                             const JsonNode& node) {
  before_.insert(before_.begin(), before.begin(), before.end());
  after_.insert(after_.end(), after.begin(), after.end());
  const size_t found = before_.size() + after_.size();
  if (found > kMaxParts) {
    node.fail("found " + std::to_string(found) + " tokens around a text, expected at most " +
              std::to_string(kMaxParts));
  }
}

void PostProcessor::apply(std::vector<int32_t>& ids) const {
  ids.insert(ids.begin(), before_.begin(), before_.end());
  ids.insert(ids.end(), after_.begin(), after_.end());
}

std::vector<int32_t> PostProcessor::ids() const {
  std::vector<int32_t> all = before_;
  all.insert(all.end(), after_.begin(), after_.end());
  return all;
}

}  // namespace ashlar::text
