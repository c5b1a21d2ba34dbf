// SPDX-License-Identifier: Apache-2.0
// A client that puts a stream together gets the body of the same answer.

#include <gtest/gtest.h>

#include <map>

#include "text/tokenizer/utf8.h"
#include "unit/server/format_samples.h"

namespace ashlar::server::test {
namespace {

struct Event {
  std::string name;
  Json data;
};

/// Events of a stream; checks its framing. [DONE] is an event of null.
std::vector<Event> events_of(const std::string& stream) {
  std::vector<Event> events;
  EXPECT_TRUE(text::is_valid_utf8(stream));
  for (size_t at = 0; at < stream.size();) {
    const size_t end = stream.find("\n\n", at);
    if (end == std::string::npos) {
      ADD_FAILURE() << "unterminated event";
      break;
    }
    std::string block = stream.substr(at, end - at), name;
    if (block.rfind("event: ", 0) == 0) {
      name = block.substr(7, block.find('\n') - 7);
      block = block.substr(block.find('\n') + 1);
    }
    EXPECT_EQ(block.rfind("data: ", 0), 0u) << block;
    EXPECT_EQ(block.find('\n'), std::string::npos);
    const std::string data = block.substr(6);
    events.push_back({name, data == "[DONE]" ? Json() : Json::parse(data)});
    at = end + 2;
  }
  return events;
}

void extend(Json& target, const Json& more) {
  for (const auto& item : more) target.push_back(item);
}

/// Chat: choices by index, deltas appended, calls by index.
Json assemble_chat(const std::vector<Event>& events, bool include_usage) {
  Json body;
  std::map<int, Json> choices;
  EXPECT_TRUE(events.back().data.is_null());
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    const Json& chunk = events[i].data;
    EXPECT_EQ(chunk["object"], "chat.completion.chunk");
    if (chunk.contains("metrics")) body["metrics"] = chunk["metrics"];
    if (chunk["choices"].empty()) {
      EXPECT_TRUE(include_usage);
      EXPECT_EQ(i + 2, events.size());
      body["usage"] = chunk["usage"];
      continue;
    }
    const Json& piece = chunk["choices"][0];
    Json& choice = choices[piece["index"].get<int>()];
    if (choice.is_null()) {
      EXPECT_EQ(piece["delta"]["role"], "assistant");
      choice = {{"message", {{"content", ""}, {"reasoning", ""}, {"calls", Json::array()}}}, {"tokens", Json::array()}};
    }
    EXPECT_FALSE(choice.contains("finish_reason"));  // the last chunk of a choice
    const Json& delta = piece["delta"];
    Json& message = choice["message"];
    message["content"].get_ref<std::string&>() += delta.value("content", "");
    message["reasoning"].get_ref<std::string&>() += delta.value("reasoning_content", "");
    for (const Json& call : delta.value("tool_calls", Json::array())) {
      const auto at = call.at("index").get<size_t>();
      if (at == message["calls"].size())
        message["calls"].push_back({{"id", call.at("id")}, {"name", call["function"]["name"]}, {"arguments", ""}});
      message["calls"].at(at)["arguments"].get_ref<std::string&>() += call["function"]["arguments"].get<std::string>();
    }
    if (!piece["logprobs"].is_null()) extend(choice["tokens"], piece["logprobs"]["content"]);
    if (!piece["finish_reason"].is_null()) choice["finish_reason"] = piece["finish_reason"];
  }
  body["choices"] = Json::array();
  for (const auto& [index, choice] : choices) body["choices"].push_back(choice);
  return body;
}

Json plain_chat(const Json& body, bool include_usage) {
  Json out = {{"metrics", body["metrics"]}};
  if (include_usage) out["usage"] = body["usage"];
  out["choices"] = Json::array();
  for (const Json& choice : body["choices"]) {
    const Json& from = choice["message"];
    Json message = {{"content", from["content"].is_null() ? Json("") : from["content"]},
                    {"reasoning", from.value("reasoning_content", "")},
                    {"calls", Json::array()}};
    for (const Json& call : from.value("tool_calls", Json::array())) {
      message["calls"].push_back(
          {{"id", call["id"]}, {"name", call["function"]["name"]}, {"arguments", call["function"]["arguments"]}});
    }
    Json tokens = choice["logprobs"].is_null() ? Json::array() : choice["logprobs"]["content"];
    out["choices"].push_back({{"message", message}, {"tokens", tokens}, {"finish_reason", choice["finish_reason"]}});
  }
  return out;
}

/// Text completions: choices by index; nothing else differs.
Json assemble_completions(const std::vector<Event>& events) {
  Json body;
  std::map<int, Json> choices;
  for (const Event& event : events) {
    if (event.data.is_null()) continue;
    for (const char* key : {"id", "object", "created", "model"}) body[key] = event.data[key];
    if (event.data.contains("metrics")) body["metrics"] = event.data["metrics"];
    if (event.data.contains("usage") && !event.data["usage"].is_null()) body["usage"] = event.data["usage"];
    for (const Json& piece : event.data["choices"]) {
      Json& choice = choices[piece["index"].get<int>()];
      if (choice.is_null()) choice = {{"text", ""}, {"logprobs", Json::object()}};
      choice["text"].get_ref<std::string&>() += piece["text"].get<std::string>();
      if (piece["logprobs"].is_object()) {
        for (const auto& [name, list] : piece["logprobs"].items()) extend(choice["logprobs"][name], list);
      }
      choice["finish_reason"] = piece["finish_reason"];
    }
  }
  for (const auto& [index, choice] : choices) body["choices"].push_back(choice);
  return body;
}

/// Responses: items built from deltas only.
Json assemble_responses(const std::vector<Event>& events) {
  Json output = Json::array();
  const bool whole = events.back().name == "response.completed";
  for (size_t i = 0; i < events.size(); ++i) {
    const Json& data = events[i].data;
    EXPECT_EQ(data["sequence_number"], i);
    EXPECT_EQ(data["type"], events[i].name);
    const std::string type = data["type"];
    if (type == "response.output_item.added") {
      EXPECT_EQ(data["output_index"], output.size());
      output.push_back(data["item"]);
      continue;
    }
    if (!data.contains("output_index")) continue;
    Json& item = output.at(data["output_index"].get<size_t>());
    if (data.contains("item_id")) {
      EXPECT_EQ(data["item_id"], item["id"]);
    }
    if (type == "response.content_part.added") item["content"].push_back(data["part"]);
    if (type == "response.output_text.delta" || type == "response.reasoning_text.delta") {
      item["content"][0]["text"].get_ref<std::string&>() += data["delta"].get<std::string>();
      if (data.contains("logprobs")) extend(item["content"][0]["logprobs"], data["logprobs"]);
    }
    if (type == "response.function_call_arguments.delta")
      item["arguments"].get_ref<std::string&>() += data["delta"].get<std::string>();
    if (type == "response.output_item.done") {
      const bool last = data["output_index"] == events.back().data["response"]["output"].size() - 1;
      item["status"] = last && !whole ? "incomplete" : "completed";
      EXPECT_EQ(item, data["item"]);
    }
  }
  return output;
}

/// Messages: blocks built from deltas only.
Json assemble_messages(const std::vector<Event>& events) {
  Json message;
  std::map<size_t, std::string> arguments;
  for (const Event& event : events) {
    const Json& data = event.data;
    EXPECT_EQ(data["type"], event.name);
    if (event.name == "message_start") message = data["message"];
    if (event.name == "content_block_start") {
      EXPECT_EQ(data["index"], message["content"].size());
      message["content"].push_back(data["content_block"]);
    }
    if (event.name == "content_block_delta") {
      const auto index = data["index"].get<size_t>();
      for (const char* key : {"text", "thinking"}) {
        if (data["delta"].contains(key))
          message["content"].at(index)[key].get_ref<std::string&>() += data["delta"][key].get<std::string>();
      }
      if (data["delta"].contains("partial_json")) arguments[index] += data["delta"]["partial_json"].get<std::string>();
    }
    if (event.name == "message_delta") {
      message.update(data["delta"]);
      message["usage"].update(data["usage"]);
      message["metrics"] = data["metrics"];
    }
  }
  for (const auto& [index, text] : arguments) message["content"].at(index)["input"] = Json::parse(text);
  EXPECT_EQ(events.back().name, "message_stop");
  return message;
}

/// Generate: the last object of each index.
Json assemble_generate(const std::vector<Event>& events, bool list) {
  std::map<int, Json> last;
  for (const Event& event : events) {
    if (event.data.is_null()) continue;
    Json object = event.data;
    const int index = list ? object["index"].get<int>() : 0;
    if (last.count(index) != 0) {
      EXPECT_EQ(object["text"].get<std::string>().rfind(last[index]["text"].get<std::string>(), 0), 0u);
    }
    object.erase("index");
    last[index] = object;
  }
  Json body = Json::array();
  for (const auto& [index, object] : last) body.push_back(object);
  return list ? body : body.at(0);
}

template <class Check>
void for_samples(Api api, Check check) {
  std::mt19937 random(static_cast<unsigned>(api) + 1);
  for (int round = 0; round < 300; ++round) {
    const Sample sample = make_sample(api, random);
    ASSERT_TRUE(text::is_valid_utf8(sample.body));
    check(sample, Json::parse(sample.body), events_of(sample.stream));
    if (::testing::Test::HasFailure()) FAIL() << sample.stream << sample.body;
  }
}

TEST(FormatStream, Chat) {
  for_samples(Api::kChat, [](const Sample& sample, const Json& body, const std::vector<Event>& events) {
    const bool usage = sample.context.generation.include_usage;
    EXPECT_EQ(Json::diff(assemble_chat(events, usage), plain_chat(body, usage)).dump(), "[]");
    for (size_t i = 0; i < sample.answers.size(); ++i) {
      const Json& message = body["choices"][i]["message"];
      EXPECT_EQ(message["content"].is_null() ? "" : message["content"].get<std::string>(), sample.answers[i].content);
      EXPECT_EQ(message.value("reasoning_content", ""), sample.answers[i].reasoning);
    }
  });
}

TEST(FormatStream, Completions) {
  for_samples(Api::kCompletions, [](const Sample& sample, Json body, const std::vector<Event>& events) {
    for (Json& choice : body["choices"]) {
      choice.erase("index");
      if (choice["logprobs"].is_null() || choice["logprobs"]["tokens"].empty()) choice["logprobs"] = Json::object();
    }
    Json made = assemble_completions(events);
    if (!sample.context.generation.include_usage) body.erase("usage");
    for (Json& choice : made["choices"]) {
      if (choice["logprobs"].contains("tokens") && choice["logprobs"]["tokens"].is_null())
        choice["logprobs"] = Json::object();
    }
    EXPECT_EQ(Json::diff(made, body).dump(), "[]");
  });
}

TEST(FormatStream, Responses) {
  for_samples(Api::kResponses, [](const Sample& sample, const Json& body, const std::vector<Event>& events) {
    EXPECT_EQ(assemble_responses(events), body["output"]);
    EXPECT_EQ(Json::diff(events.back().data["response"], body).dump(), "[]");
    EXPECT_EQ(events.front().name, "response.created");
    const FinishedAnswer& answer = sample.answers[0];
    ASSERT_EQ(body["output"].size(), answer.parts.size());
    for (size_t i = 0; i < answer.parts.size(); ++i) {
      const AnswerDelta& part = answer.parts[i];
      const Json& item = body["output"][i];
      if (part.tool_calls.empty()) {
        EXPECT_EQ(item["content"][0]["text"], part.reasoning + part.content);
      } else {
        EXPECT_EQ(item["name"], part.tool_calls[0].name);
        EXPECT_EQ(item["arguments"], part.tool_calls[0].arguments);
      }
    }
    EXPECT_EQ(body["status"], answer.end.reason == AnswerEnd::Reason::kLength ? "incomplete" : "completed");
  });
}

TEST(FormatStream, Messages) {
  for_samples(Api::kMessages, [](const Sample& sample, const Json& body, const std::vector<Event>& events) {
    EXPECT_EQ(Json::diff(assemble_messages(events), body).dump(), "[]");
    EXPECT_EQ(body["usage"]["input_tokens"], 7);
    EXPECT_EQ(body["usage"]["cache_read_input_tokens"], 4);
    const std::vector<AnswerDelta>& parts = sample.answers[0].parts;
    ASSERT_EQ(body["content"].size(), parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      const Json& block = body["content"][i];
      if (!parts[i].tool_calls.empty()) {
        EXPECT_EQ(block["id"], parts[i].tool_calls[0].id);
      }
      if (!parts[i].content.empty()) {
        EXPECT_EQ(block["text"], parts[i].content);
      }
    }
  });
}

TEST(FormatStream, Generate) {
  for_samples(Api::kGenerate, [](const Sample& sample, const Json& body, const std::vector<Event>& events) {
    const bool list = sample.context.generation.batched || sample.answers.size() > 1;
    EXPECT_EQ(Json::diff(assemble_generate(events, list), body).dump(), "[]");
    EXPECT_EQ((list ? body[0] : body)["text"], sample.answers[0].content);
  });
}

}  // namespace
}  // namespace ashlar::server::test
