#include "app/eval_prompts.h"

#include "base/error.h"
#include "measure/build_info.h"

namespace ashlar {

std::vector<PromptIds> encode_prompts(const Session& session, const std::vector<EvalPrompt>& prompts, size_t limit,
                                      bool raw) {
  std::vector<PromptIds> encoded;
  for (const EvalPrompt& prompt : prompts) {
    if (limit > 0 && encoded.size() == limit) break;
    PromptIds& one = encoded.emplace_back();
    one.name = prompt.name;
    one.category = prompt.category;
    if (!prompt.ids.empty()) {
      one.ids = prompt.ids;
    } else if (raw || !session.has_chat_template()) {
      const Json& content = prompt.messages.back()["content"];
      if (!content.is_string()) throw Error("prompts", prompt.name + ": content is no string; --raw needs one");
      one.ids = session.encode_raw(content.get<std::string>());
    } else {
      one.ids = session.encode_chat(prompt.messages);
    }
    const auto room = session.model().max_positions() - static_cast<int64_t>(one.ids.size());
    if (room < 2) {
      throw Error("prompts", prompt.name + ": has " + std::to_string(one.ids.size()) + " tokens; the context holds " +
                                 std::to_string(session.model().max_positions()) + ", two of them for the answer");
    }
  }
  return encoded;
}

Json describe_subject(Session& session) {
  Json json = {{"build", describe_build()}, {"model", session.choice().model.string()}};
  if (session.has_drafter()) json["drafter"] = session.choice().drafter->string();
  json["device"] = session.ops().name();
  json["isa"] = session.ops().isa();
  json["threads"] = session.ops().threads();
  return json;
}

}  // namespace ashlar
