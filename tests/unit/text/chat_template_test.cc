// SPDX-License-Identifier: Apache-2.0
#include "text/template/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

class ChatTemplateFolder : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  ChatTemplate load() { return ChatTemplate::from_model(folder_.path()).value(); }

  std::string error() {
    try {
      ChatTemplate::from_model(folder_.path());
    } catch (const Error& caught) {
      return caught.what();
    }
    return "no error";
  }

  TempFolder folder_;
  const Json hello_ = Json::array({{{"role", "user"}, {"content", "hi"}}});
};

TEST_F(ChatTemplateFolder, NoneIsNoError) {
  EXPECT_FALSE(ChatTemplate::from_model(folder_.path()).has_value());
  write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  EXPECT_FALSE(ChatTemplate::from_model(folder_.path()).has_value());
}

TEST_F(ChatTemplateFolder, TakesTheStringOfTheConfigWithItsTokens) {
  write("tokenizer_config.json",
        R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null,
            "chat_template": "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ pad_token is defined }}"})");
  EXPECT_EQ(load().render(hello_, nullptr, false).bytes, "<s>hi</s>False");
}

TEST_F(ChatTemplateFolder, TheFileGoesBeforeTheConfig) {
  write("tokenizer_config.json", R"({"bos_token": "B", "chat_template": "config"})");
  write("chat_template.jinja", "{{ bos_token }} file\n");
  EXPECT_EQ(load().render(hello_, nullptr, false).bytes, "B file");
}

TEST_F(ChatTemplateFolder, ToolsChooseTheirOwnTemplate) {
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "default", "template": "plain {{ tools }}"},
                              {"name": "tool_use", "template": "tools {{ tools|length }}"}]})");
  EXPECT_EQ(load().render(hello_, nullptr, false).bytes, "plain None");
  EXPECT_EQ(load().render(hello_, Json::array({Json::object()}), false).bytes, "tools 1");
}

TEST_F(ChatTemplateFolder, AdditionalTemplatesAreRead) {
  write("chat_template.jinja", "plain");
  write("additional_chat_templates/tool_use.jinja", "with tools");
  EXPECT_EQ(load().render(hello_, nullptr, false).bytes, "plain");
  EXPECT_EQ(load().render(hello_, Json::array(), false).bytes, "with tools");
}

TEST_F(ChatTemplateFolder, WithoutDefaultThereIsAClearError) {
  write("tokenizer_config.json", R"({"chat_template": [{"name": "rag", "template": "x"}]})");
  try {
    load().render(hello_, nullptr, false);
    FAIL();
  } catch (const Error& caught) {
    EXPECT_THAT(caught.what(), HasSubstr("none is named default: rag"));
  }
}

TEST_F(ChatTemplateFolder, NamesOfTemplatesAreQuotedShortlyAndPlainly) {
  const std::string wild = std::string(50'000, '\x1b') + "[2J";
  const Json one = {{"name", wild}, {"template", "x"}};
  write("tokenizer_config.json", Json{{"chat_template", {one}}}.dump());
  std::vector<std::string> errors;
  try {
    load().render(hello_, nullptr, false);
  } catch (const Error& caught) {
    errors.emplace_back(caught.what());
  }
  write("tokenizer_config.json", Json{{"chat_template", {{{"name", wild}, {"template", "{{"}}}}}.dump());
  errors.push_back(error());
  ASSERT_EQ(errors.size(), 2U);
  for (const std::string& each : errors) {
    EXPECT_LT(each.size(), 800U) << each.substr(0, 200);
    EXPECT_EQ(each.find('\x1b'), std::string::npos) << each.substr(0, 200);
  }
}

TEST_F(ChatTemplateFolder, WrongFilesAreNamed) {
  write("tokenizer_config.json", "{");
  EXPECT_THAT(error(), HasSubstr("tokenizer_config.json: not valid JSON at byte 1 of 1: it ends too early"));
  write("tokenizer_config.json", "[]");
  EXPECT_THAT(error(), HasSubstr("tokenizer_config.json: expected a JSON object, found array"));
  write("tokenizer_config.json", R"({"chat_template": 5})");
  EXPECT_THAT(error(), HasSubstr("must be a string or a list, found number"));
  write("tokenizer_config.json", R"({"chat_template": [{"name": "default"}]})");
  EXPECT_THAT(error(), HasSubstr("strings name and template"));
  write("tokenizer_config.json", R"({"chat_template": "{% if %}"})");
  EXPECT_THAT(error(), HasSubstr("tokenizer_config.json#default:1:"));
  write("tokenizer_config.json", std::string(5000, '['));
  EXPECT_THAT(error(), HasSubstr("64 levels"));
}

TEST_F(ChatTemplateFolder, WhoSendsConversationsDoesNotLearnWhereTheFolderLies) {
  write("chat_template.jinja", "\n{{ raise_exception('no') }}");
  try {
    load().render(hello_, nullptr, false);
    FAIL();
  } catch (const Error& caught) {
    EXPECT_STREQ(caught.what(), "[template] chat_template.jinja:2: the template refuses this conversation: no");
  }
}

TEST_F(ChatTemplateFolder, CallsAreThoseOfTheTemplateWithTools) {
  for (const auto& entry : fs::directory_iterator(fs::path(ASHLAR_TEST_DATA) / "templates/families")) {
    fs::copy_file(entry, folder_ / "chat_template.jinja", fs::copy_options::overwrite_existing);
    EXPECT_EQ(load().call_form() == CallForm::kBare, entry.path().stem() == "llama3_tools") << entry;
  }
  write("chat_template.jinja", R"("parameters": {{ call.arguments }})");
  EXPECT_EQ(load().call_form(), CallForm::kBare);
  write("additional_chat_templates/rag.jinja", "{{ messages }}");
  EXPECT_EQ(load().call_form(), CallForm::kBare);  // no template for tools
  write("additional_chat_templates/tool_use.jinja", R"("parameters": {{ tool.parameters }})");
  EXPECT_EQ(load().call_form(), CallForm::kHermes);
}

TEST(ChatTemplate, VariablesAndTheirPrecedence) {
  const ChatTemplate t = ChatTemplate::from_source(
      "{{ bos_token }}{{ add_generation_prompt }}{{ documents }}{{ enable_thinking is defined }}{{ tools }}", "t",
      {{"bos_token", "<s>"}});
  const Json none = Json::array();
  EXPECT_EQ(t.render(none, nullptr, true).bytes, "<s>TrueNoneFalseNone");
  EXPECT_EQ(t.render(none, nullptr, false, {{"enable_thinking", false}, {"bos_token", "B"}}).bytes,
            "BFalseNoneTrueNone");
}

/// Clients send arguments as JSON text, and templates take them as text or as an object.
TEST(ChatTemplate, ArgumentsAreTextWhereTextIsWanted) {
  const Json function = {{"name", "ls"},
                         {"arguments", {{"dir", "/tmp"}, {"all", true}, {"deep", {{"x", {1, nullptr}}}}}}};
  const Json messages = Json::array({{{"role", "assistant"}, {"tool_calls", {{{"function", function}}}}}});
  const std::string text = R"({"dir": "/tmp", "all": true, "deep": {"x": [1, null]}})";
  for (const auto& [expression, expected] : std::vector<std::pair<std::string, std::string>>{
           {"'> ' + a", "> " + text},
           {"a + '!'", text + "!"},
           {"'' ~ a", text},
           {"a", text},
           {"a | string", text},
           {"a | trim", text},
           {"'<%s>' % a", "<" + text + ">"},
           {"'<{}>'.format(a)", "<" + text + ">"},
           {"[a, 'b'] | join('-')", text + "-b"},
           {"a.replace('/tmp', '/')", R"({"dir": "/", "all": true, "deep": {"x": [1, null]}})"},
           {"a | replace('/tmp', '/')", R"({"dir": "/", "all": true, "deep": {"x": [1, null]}})"},
           {"a.startswith('{')", "True"},
           {"a | indent(2)", text},
           {"a | tojson", text},
           {"a.dir ~ a['all'] ~ a.get('none')", "/tmpTrueNone"},
           {"a is mapping and a is not string", "True"},
           {"a.items() | map('first') | join(',')", "dir,all,deep"},
           {"a | length", "3"},
           {"a.deep", "{'x': [1, None]}"},
       }) {
    const ChatTemplate form = ChatTemplate::from_source(
        "{% set a = messages[0].tool_calls[0].function.arguments %}{{ " + expression + " }}", "t");
    EXPECT_EQ(form.render(messages, nullptr, false).bytes, expected) << expression;
  }
  EXPECT_THROW(ChatTemplate::from_source("{{ 'x' + messages[0] }}", "t").render(messages, nullptr, false), Error);
}

}  // namespace
}  // namespace ashlar
