// SPDX-License-Identifier: Apache-2.0
// Which tokens a text may become depends on where its bytes come from.

#include "unit/text/origins/support.h"

namespace ashlar::origins {
namespace {

/// The vocabulary of tests/data/tokenizer/qwen.json with these added tokens.
Tokenizer with_added(const Json& added, const Json& sections = Json::object()) {
  Json file = Json::parse(read("/tokenizer/qwen.json"));
  file["added_tokens"] = Json::array();
  int64_t id = 2000;
  for (Json token : added) {
    if (token.is_string()) token = {{"content", token}};
    Json full = {{"id", id++}, {"content", ""}, {"special", true}, {"normalized", false}};
    full.update(token);
    file["added_tokens"].push_back(full);
  }
  file.update(sections);
  return Tokenizer::from_json(file.dump(), "test");
}

std::vector<int32_t> added_ids(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::vector<int32_t> out;
  std::copy_if(ids.begin(), ids.end(), std::back_inserter(out), [&](int32_t id) { return tokenizer.is_added(id); });
  return out;
}

/// All that families write as special tokens, and those of the goldens' bos_token and so on.
std::set<std::string> spellings_of(const std::vector<Case>& cases) {
  std::set<std::string> out = {"<s>", "</s>", "<unk>", "<bos>", "<eos>"};
  const std::regex special("<(\\||｜)[^|｜<> ]+(\\||｜)>|<(start|end)_of_turn>|\\[/?[A-Z_]+\\]");
  for (const Case& each : cases) {
    for (auto it = std::sregex_iterator(each.source.begin(), each.source.end(), special); it != std::sregex_iterator();
         ++it) {
      out.insert(it->str());
    }
  }
  return out;
}

/// For every family and conversation, with texts made of spellings: special tokens are those that stand in the
/// template's own stretches of the text, the ids spell the text, and they are those of the bare text where there is no
/// spelling.
TEST(Origins, SpecialTokensAreThoseOfTheTemplate) {
  const std::vector<Case> cases = golden_cases(true);
  const std::set<std::string> spellings = spellings_of(cases);
  ASSERT_GE(spellings.size(), 30U);
  const std::vector<std::string> all(spellings.begin(), spellings.end());
  Json added = Json::array();
  for (const std::string& spelling : all) added.push_back(spelling);
  const Tokenizer tokenizer = with_added(added);
  std::mt19937 random(7);
  const auto evil = [&](const std::string& text) {
    std::string out;
    for (size_t i = random() % 4; i-- > 0;) {
      const std::string& spelling = all[random() % all.size()];
      const size_t cut = random() % 3 == 0 ? random() % spelling.size() : 0;
      out += (random() % 2 == 0 ? spelling.substr(0, at_character(spelling, spelling.size() - cut))
                                : spelling.substr(at_character(spelling, cut))) +
             "a";
      if (random() % 2 == 0) out.pop_back();
    }
    return out + (random() % 4 == 0 ? "" : text) + (random() % 2 == 0 ? all[random() % all.size()] : "");
  };
  size_t specials = 0, rendered = 0;
  for (const Case& each : cases) {
    for (int round = 0; round < 3; ++round) {
      const Json input = round == 0 ? each.input : changed(each.input, evil);
      Json extra = input;
      for (const char* name : {"messages", "tools", "add_generation_prompt"}) extra.erase(name);
      Json model_tokens = {{"bos_token", "<s>"}};  // of the model's folder, so the template's own
      for (const auto& [name, value] : each.input.items()) {
        if (!name.ends_with("_token")) continue;
        model_tokens[name] = value;
        extra.erase(name);
      }
      const ChatTemplate form = ChatTemplate::from_source(each.source, each.name, model_tokens);
      SourcedText text;
      try {
        text = form.render(input.value("messages", Json::array()), input.value("tools", Json()),
                           input.value("add_generation_prompt", false), extra);
        // As the engine renders where no origins are asked for.
        Json all_variables = {
            {"messages", Json::array()}, {"tools", nullptr}, {"documents", nullptr}, {"add_generation_prompt", false}};
        all_variables.update(input);
        all_variables.update(model_tokens);
        ASSERT_EQ(Template::parse(each.source, each.name).render(all_variables), text.bytes);
      } catch (const Error&) {
        continue;
      }
      ++rendered;
      const std::vector<int32_t> ids = tokenizer.encode(text);
      ASSERT_EQ(tokenizer.decode(ids, false), text.bytes) << each.name;
      std::vector<int32_t> expected;
      size_t begin = 0;
      std::vector<Origins::Run> runs = text.origins.runs();
      if (runs.empty()) runs.push_back({text.bytes.size(), text.origins.greatest()});
      for (const Origins::Run& run : runs) {
        if (run.origin == Origin::kTemplate) {
          const auto own = added_ids(tokenizer, tokenizer.encode(text.bytes.substr(begin, run.end - begin)));
          expected.insert(expected.end(), own.begin(), own.end());
        }
        begin = run.end;
      }
      ASSERT_EQ(added_ids(tokenizer, ids), expected) << each.name << ": " << text.bytes;
      specials += expected.size();
      if (round == 0) {
        ASSERT_EQ(ids, tokenizer.encode(text.bytes)) << each.name;
      }
    }
  }
  EXPECT_GE(rendered, 500U);
  EXPECT_GE(specials, 3000U);
}

TEST(Origins, WordsReachOverBorders) {
  const Tokenizer tokenizer = with_added({"<|x|>"});
  const std::string text = "Hello there, caf\u00e9 number 12345 and\n\n  more <|y|> of it \u4f60\u597d";
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    SourcedText cut;
    for (size_t at = 0; at < text.size();) {
      const size_t size = at_character(text, at + 1 + random() % 9) - at;
      cut.append(text.substr(at, size), kAll[random() % 3]);
      at += size;
    }
    ASSERT_EQ(tokenizer.encode(cut), tokenizer.encode(text));
  }
}

struct Piece {
  const char* text;
  Origin origin;
};

std::vector<std::string> taken(const Tokenizer& tokenizer, const std::vector<Piece>& pieces) {
  SourcedText text;
  for (const Piece& piece : pieces) text.append(piece.text, piece.origin);
  std::vector<std::string> out;
  for (const int32_t id : added_ids(tokenizer, tokenizer.encode(text))) {
    out.emplace_back(tokenizer.token_content(id));
  }
  return out;
}

constexpr Origin kT = Origin::kTemplate, kD = Origin::kData, kS = Origin::kSaid;
using Taken = std::vector<std::string>;

TEST(Origins, ASpellingOverABorderIsNoToken) {
  const Json tag = {{"content", "<t>"}, {"special", false}};
  const Json plain = {{"content", "##"}, {"special", false}};
  const Tokenizer tokenizer = with_added({"<|x|>", "<|x|><|y|>", "<<|x|>", tag, plain});
  EXPECT_EQ(taken(tokenizer, {{"<|", kT}, {"x|>", kS}}), Taken());
  EXPECT_EQ(taken(tokenizer, {{"<|x|", kD}, {">", kT}}), Taken());
  EXPECT_EQ(taken(tokenizer, {{"<|x|>", kS}, {"<|x|>", kT}, {"<|x|>", kD}}), Taken({"<|x|>"}));
  // Text next to it cannot hide what the template writes.
  EXPECT_EQ(taken(tokenizer, {{"<|x|>", kT}, {"<|y|>", kS}}), Taken({"<|x|>"}));
  EXPECT_EQ(taken(tokenizer, {{"<", kS}, {"<|x|>", kT}}), Taken({"<|x|>"}));
  EXPECT_EQ(taken(tokenizer, {{"<|x|><|y|>", kT}}), Taken({"<|x|><|y|>"}));
  // Tags are a caller's to write, users' and tools' are not; other tokens are how text is spelt.
  EXPECT_EQ(taken(tokenizer, {{"<t>", kT}, {"<t>", kD}, {"<t>", kS}, {"<", kT}, {"t>", kS}}), Taken({"<t>", "<t>"}));
  EXPECT_EQ(taken(tokenizer, {{"#", kT}, {"###", kS}}), Taken({"##", "##"}));
}

TEST(Origins, TokensKeepTheirWaysWithTheTextBeside) {
  const Tokenizer tokenizer = with_added(
      {{{"content", "<l>"}, {"lstrip", true}, {"rstrip", true}}, {{"content", "<w>"}, {"single_word", true}}});
  const auto ids = [&](const std::vector<Piece>& pieces) {
    SourcedText text;
    for (const Piece& piece : pieces) text.append(piece.text, piece.origin);
    return std::pair(tokenizer.encode(text), tokenizer.encode(text.bytes));
  };
  for (const std::vector<Piece>& pieces : {std::vector<Piece>{{"a  ", kS}, {"<l>", kT}, {"  b", kS}},
                                           {{"a ", kS}, {"<w>", kT}, {" b", kS}},
                                           {{"a", kS}, {"<w>", kT}, {"b", kS}}}) {
    const auto [found, expected] = ids(pieces);
    EXPECT_EQ(found, expected);
  }
}

TEST(Origins, NormalisedSpellingsOfUsersAreText) {
  const Json normalized = {{"content", "<|x|>"}, {"normalized", true}};
  const Json steps = {{{"type", "NFKC"}},
                      {{"type", "Lowercase"}},
                      {{"type", "Replace"}, {"pattern", {{"String", "{"}}}, {"content", "<"}},
                      {{"type", "Replace"}, {"pattern", {{"Regex", "!+"}}}, {"content", "|"}}};
  const Tokenizer tokenizer =
      with_added(Json::array({normalized}), {{"normalizer", {{"type", "Sequence"}, {"normalizers", steps}}}});
  for (const char* spelling : {"<|x|>", "<|X|>", "\uff1c\uff5c\uff58\uff5c\uff1e", "{|x|>", "<!!x!>"}) {
    EXPECT_EQ(taken(tokenizer, {{spelling, kS}}), Taken()) << spelling;
    EXPECT_EQ(taken(tokenizer, {{"a", kT}, {spelling, kD}, {"b", kT}}), Taken()) << spelling;
    EXPECT_EQ(taken(tokenizer, {{"\u00e9", kS}, {spelling, kT}, {"\u00e9", kS}}), Taken({"<|x|>"})) << spelling;
  }
  EXPECT_EQ(taken(tokenizer, {{"<!", kT}, {"!x|>", kS}}), Taken());
  EXPECT_EQ(taken(tokenizer, {{"<!", kS}, {"!x|>", kT}}), Taken());
  // A mark of the user's that joins the template's character.
  EXPECT_EQ(taken(tokenizer, {{"<|x|>", kT}, {"\u0338", kS}}), Taken());
  for (const Json& step : {Json{{"type", "Strip"}}, Json{{"type", "Prepend"}, {"prepend", "\u2581"}}}) {
    const Json raw = {{"content", "<|y|>"}};
    const Tokenizer other = with_added({normalized, raw}, {{"normalizer", step}});
    EXPECT_EQ(taken(other, {{" ", kS}, {"<|x|>", kT}, {" <|x|>", kS}}).size(), step["type"] == "Strip" ? 1U : 0U);
    EXPECT_EQ(taken(other, {{"<|x|>", kT}, {"<|x|> ", kS}}), Taken({"<|x|>"}));
    EXPECT_EQ(taken(other, {{"<|y|>", kT}, {"<|x|> ", kS}}), Taken({"<|y|>"}));
  }
}

/// Normalised text is the same, whatever its origin.
TEST(Origins, DoNotChangeHowTextIsNormalised) {
  const Json steps = {{{"type", "NFKC"}},
                      {{"type", "Lowercase"}},
                      {{"type", "Replace"}, {"pattern", {{"Regex", "a+"}}}, {"content", "b"}},
                      {{"type", "Strip"}},
                      {{"type", "Prepend"}, {"prepend", "x"}}};
  const Tokenizer tokenizer = with_added({{{"content", "<|x|>"}, {"normalized", true}}},
                                         {{"normalizer", {{"type", "Sequence"}, {"normalizers", steps}}}});
  const std::vector<std::string> parts = {"a",      "aa",     "e",          "\u0301", "\u0323", "\u1112",
                                          "\u1161", "\u11ab", " ",          "\uac00", "\ufb01", "\u0130",
                                          "\u4f60", "Z",      "\U0001f469", "\u200d"};
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    SourcedText text;
    for (int i = 0; i < 12; ++i) text.append(parts[random() % parts.size()], kAll[random() % 3]);
    ASSERT_EQ(tokenizer.encode(text), tokenizer.encode(text.bytes)) << text.bytes;
  }
}

TEST(Origins, TemplatesSeeWhatTheUserWrote) {
  const ChatTemplate form = ChatTemplate::from_source(
      "{% for m in messages %}{{ m.content.split('</think>')[-1] }};{{ m.content|length }};"
      "{{ m.content.startswith('<think>') }};{{ m.content[:7] == '<think>' }};{% endfor %}",
      "t");
  const Json messages = Json::array({{{"role", "assistant"}, {"content", "<think>hmm</think>Fine."}}});
  EXPECT_EQ(form.render(messages, nullptr, false).bytes, "Fine.;23;True;True;");
}

/// What a caller wrote costs work that grows with its size: the limit of work shows it.
TEST(Origins, CostOnePass) {
  for (const size_t size : {10'000U, 1'000'000U}) {
    std::string text;
    while (text.size() < size) text += "<|im_start|>";
    const Json data = {{"a", text}};
    const std::vector<Variable> variables = {{"u", &data, Origin::kSaid}};
    RenderLimits limits;
    limits.work_bytes = 8 * size;
    const SourcedText found =
        Template::parse("<s>{{ u.a|trim }}</s>{{ u.a.split('</think>')[-1] }}", "t").render(variables, limits);
    EXPECT_EQ(found.origins.runs().size(), 4U);
  }
}

}  // namespace
}  // namespace ashlar::origins
