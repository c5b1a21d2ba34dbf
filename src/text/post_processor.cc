#include "text/post_processor.h"

#include "io/json.h"
#include "text/bpe.h"

namespace ashlar::text {
namespace {

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
    for (const JsonNode& item : node.at("processors").items()) add(item);
  } else if (type == "TemplateProcessing") {
    frames_.push_back(read_template(node));
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    frames_.push_back({{id_of_pair(node.at("cls"))}, {id_of_pair(node.at("sep"))}});
  } else if (type != "ByteLevel") {
    node.fail("the post-processor type '" + for_message(type) +
              "' is not supported (known: Sequence, TemplateProcessing, RobertaProcessing, BertProcessing, ByteLevel)");
  }
}

PostProcessor::Frame PostProcessor::read_template(const JsonNode& node) const {
  Frame frame;
  bool text_seen = false;
  for (const JsonNode& part : node.at("single").items()) {
    if (const auto sequence = part.find("Sequence")) {
      if (text_seen || sequence->text("id") != "A") sequence->fail("the template must hold the sequence A once");
      text_seen = true;
      continue;
    }
    const std::string& name = part.at("SpecialToken").text("id");
    const JsonNode token = node.at("special_tokens").at(name.c_str());
    for (const JsonNode& id : token.at("ids").items()) {
      if (!id.raw().is_number_unsigned() || id.raw().get<uint64_t>() >= static_cast<uint64_t>(kMaxVocabulary)) {
        id.fail("an id was expected, found " + for_message(id.raw().dump()));
      }
      (text_seen ? frame.after : frame.before).push_back(id.raw().get<int32_t>());
    }
  }
  if (!text_seen) node.fail("the template does not hold the sequence A");
  return frame;
}

void PostProcessor::apply(std::vector<int32_t>& ids) const {
  for (const Frame& frame : frames_) {
    ids.insert(ids.begin(), frame.before.begin(), frame.before.end());
    ids.insert(ids.end(), frame.after.begin(), frame.after.end());
  }
}

std::vector<int32_t> PostProcessor::ids() const {
  std::vector<int32_t> all;
  for (const Frame& frame : frames_) {
    all.insert(all.end(), frame.before.begin(), frame.before.end());
    all.insert(all.end(), frame.after.begin(), frame.after.end());
  }
  return all;
}

}  // namespace ashlar::text
