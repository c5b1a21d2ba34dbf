// What a caller wrote never becomes a special token, whatever a template makes of it, and nothing else depends on who
// wrote what.

#include "text/template/origins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <regex>
#include <set>

#include "base/error.h"
#include "text/template/chat_template.h"
#include "text/template/template.h"
#include "text/tokenizer/tokenizer.h"

namespace ashlar {
namespace {

constexpr Origin kAll[] = {Origin::kTemplate, Origin::kData, Origin::kSaid};

std::string read(const std::string& path) {
  std::ifstream in(std::string(ASHLAR_TEST_DATA) + path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// The first place from `at` on where a character begins or the text ends.
size_t at_character(const std::string& text, size_t at) {
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) ++at;
  return std::min(at, text.size());
}

/// One letter a byte: t, d, s.
std::string letters(const SourcedText& text) {
  std::string out;
  for (size_t i = 0; i < text.bytes.size(); ++i) {
    out += "tds"[static_cast<size_t>(text.origins.greatest(i, i + 1))];
  }
  return out;
}

TEST(Origins, AreThoseOfEachByte) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    SourcedText text;
    std::string expected;
    for (int i = 0; i < 6; ++i) {
      SourcedText piece;
      std::string piece_letters;
      for (size_t runs = random() % 4; runs-- > 0;) {
        const size_t size = random() % 4;
        const size_t origin = random() % 3;
        piece.append(std::string(size, 'x'), kAll[origin]);
        piece_letters += std::string(size, "tds"[origin]);
      }
      const size_t from = random() % (piece.bytes.size() + 1);
      const size_t size = random() % (piece.bytes.size() - from + 1);
      if (round % 2 == 0) {
        text.append(piece);
        expected += piece_letters;
      } else {
        text.append_part(piece, std::string_view(piece.bytes).substr(from, size));
        expected += piece_letters.substr(from, size);
      }
    }
    ASSERT_EQ(letters(text), expected);
    ASSERT_EQ(text.origins.mixed(), std::set<char>(expected.begin(), expected.end()).size() > 1) << expected;
    for (size_t i = 1; i < text.origins.runs().size(); ++i) {
      ASSERT_NE(text.origins.runs()[i].origin, text.origins.runs()[i - 1].origin);
    }
    if (text.origins.mixed()) {
      ASSERT_EQ(text.origins.runs().back().end, expected.size());
    }
  }
}

SourcedText render(const std::string& source, const Json& data) {
  const std::vector<Variable> variables = {{"u", &data, Origin::kSaid}};
  return Template::parse(source, "t").render(variables);
}

/// Small letters are the template's, capitals the user's. A result as a whole says whose each byte is.
TEST(Origins, FollowTheBytesThroughEveryOperation) {
  const Json data = {{"a", "ABC DEF"}, {"list", {"X", "Y"}}, {"KEY", "V"}, {"n", 65}, {"f", "%sQ"}, {"b", "{}Q"}};
  const std::pair<const char*, const char*> cases[] = {
      {"x{{ u.a }}y", "tssssssst"},
      {"{{ 'x' + u.a[1:3] + 'y' }}", "tsst"},
      {"{{ ('xy' ~ u.a ~ 'z')[1:4] }}", "tss"},
      {"{{ ('xy' ~ u.a)[::-1] }}", "ssssssstt"},
      {"{{ ('xy' ~ u.a)[2] }}{{ ('xy' ~ u.a)[0] }}", "st"},
      {"{{ ('x ' ~ u.a).split(' ')|join('-') }}",
       "ttsss"
       "tsss"},
      {"{{ ('x' ~ u.a).partition('C') | join }}", "tsssssss"},
      {"{{ ('  x' ~ u.a ~ '  ').strip() }}", "tsssssss"},
      {"{{ u.a.replace('C', 'c') }}", "sstssss"},
      {"{{ u.a|replace(' ', '') }}", "ssssss"},
      {"{{ 'xUy'.replace('U', u.a[:1]) }}", "tst"},
      {"{{ u.list|join(', ') }}", "stts"},
      {"{{ ', '.join(u.list) }}", "stts"},
      {"{{ 'x%sy' % u.list[0] }}", "tst"},
      {"{{ 'x%4sy' % u.list[0] }}",
       "tttts"
       "t"},
      {"{{ u.f % 'x' }}", "ts"},
      {"{{ 'x{}y{:>3}'.format(u.list[0], u.list[1]) }}",
       "tst"
       "tts"},
      {"{{ u.b.format('x') }}", "ts"},
      {"{{ '%c' % 65 }}{{ '%c' % u.n }}", "ss"},
      {"{{ 'x%(KEY)s' % u }}", "ts"},
      {"{{ u.a|upper }}{{ 'x'|upper }}{{ ('x' ~ u.a)|lower }}",
       "sssssss"
       "t"
       "ssssssss"},
      {"{{ u.a.title() }}{{ u.a|capitalize }}{{ u.a.swapcase() }}",
       "sssssss"
       "sssssss"
       "sssssss"},
      {"{{ ('x\n' ~ u.a)|indent(2) }}",
       "ts"
       "ttsssssss"},
      {"{{ u.a|truncate(5, true, 'x', 0) }}", "sssst"},
      {"{{ 'x'.center(3, u.list[0]) }}{{ u.list[0].rjust(2) }}",
       "sts"
       "ts"},
      {"{{ {'a': 'x'}|tojson }}{{ u.list|tojson }}",
       "tttttttttt"
       "ssssssssss"},
      {"{{ [1, 'x'] }}{{ {'a': u.list[0]} }}",
       "tttttttt"
       "ssssssssss"},
      {"{% for c in u.a[:2] %}{{ c }}-{% endfor %}", "stst"},
      {"{% for k in u %}{% if k == 'KEY' %}{{ k }}{% endif %}{% endfor %}", "sss"},
      {"{% for k, v in u.items() %}{% if k == 'KEY' %}{{ k ~ 'x' ~ v }}{% endif %}{% endfor %}", "sssts"},
      {"{% set ns = namespace(t='x') %}{% set ns.t = ns.t ~ u.list[0] %}{{ ns.t }}", "ts"},
      {"{% macro m(p) %}x{{ p }}{% endmacro %}{{ m(u.list[0]) }}", "ts"},
      {"{% set b %}x{{ u.list[0] }}{% endset %}{{ b }}", "ts"},
      {"{% filter upper %}x{{ u.list[0] }}{% endfilter %}", "ss"},
      {"{% macro m() %}{{ kwargs|list|last }}{% endmacro %}{{ m(**u) }}", "s"},
      {"{{ dict(**u)|list|first }}", "s"},
      {"{{ (u.list[0] ~ '<')|e }}{{ u.list[0]|urlencode }}",
       "sssss"
       "s"},
      {"{{ u.list[0] * 3 }}{{ ('x' ~ u.list[0]) * 2 }}",
       "sss"
       "tsts"},
      {"{{ u.n }}{{ u.n ~ u.list[0] }}",
       "tt"
       "tts"},
      {"{{ u.list[0]|default('x') }}{{ u.none|default('x') }}", "st"},
      {"{{ joiner(u.list[0])() }}{% set j = joiner(u.list[0]) %}{{ j() }}{{ j() }}", "s"},
      {"{{ u.a.splitlines()|first }}{{ (u.a ~ '\nx').splitlines()|last }}",
       "sssssss"
       "t"},
      {"{{ 'abc'.removeprefix('a') }}{{ u.a.removesuffix('DEF') }}{{ '5'.zfill(3) }}",
       "tt"
       "ssss"
       "ttt"},
      {"{{ strftime_now('x') }}{{ strftime_now(u.list[0]) }}", "ts"},
      {"{{ u.list|map('upper')|join }}{{ u.list|sort|join }}{{ u.list|unique|join }}",
       "ss"
       "ss"
       "ss"},
      {"{{ u.a|trim }}{{ u.a|string }}{{ (u.a|safe)[:1] }}",
       "sssssss"
       "sssssss"
       "s"},
      {"{{ u.list|reverse|join('x') }}{{ u.list|batch(1)|map('first')|join }}",
       "sts"
       "ss"},
  };
  for (const auto& [source, expected] : cases) {
    const SourcedText found = render(source, data);
    EXPECT_EQ(letters(found), expected) << source << " gave " << found.bytes;
  }
}

/// A copy of `value` whose strings `change` has been at, those of roles excepted.
Json changed(const Json& value, const std::function<std::string(const std::string&)>& change) {
  if (value.is_string()) return change(value.get<std::string>());
  Json out = value;
  for (auto it = out.begin(); it != out.end() && value.is_structured(); ++it) {
    if (value.is_array() || it.key() != "role") *it = changed(*it, change);
  }
  return out;
}

struct Case {
  std::string name, source;
  Json input;
};

std::vector<Case> golden_cases(bool families_only) {
  const Json goldens = Json::parse(read("/templates/goldens.json"));
  std::vector<Case> out;
  for (const Json& golden : goldens["cases"]) {
    const bool file = golden.contains("file");
    if (golden["output"].is_null() || (families_only && !file)) continue;
    const std::string name = golden[file ? "file" : "feature"].get<std::string>();
    const std::string source =
        file ? read("/templates/families/" + name) : goldens["features"][name].get<std::string>();
    out.push_back({name, source, goldens["inputs"][golden["input"].get<std::string>()]});
  }
  return out;
}

/// Strings of a caller end in a character that no template writes: wherever it is found again, it is the caller's.
TEST(Origins, NoTemplateMakesACallersTextItsOwn) {
  constexpr std::string_view kMark = "\uE000";
  size_t marks = 0;
  for (const Case& each : golden_cases(false)) {
    const Json input = changed(each.input, [&](const std::string& text) { return text + std::string(kMark); });
    std::vector<Variable> variables;
    for (const auto& [name, value] : input.items()) variables.push_back({name, &value, Origin::kData});
    SourcedText found;
    try {
      found = Template::parse(each.source, each.name).render(variables);
    } catch (const Error&) {
      continue;  // it refuses the changed text
    }
    for (size_t at = 0; (at = found.bytes.find(kMark, at)) != std::string::npos; at += kMark.size(), ++marks) {
      for (size_t i = 0; i < kMark.size(); ++i) {
        ASSERT_EQ(found.origins.greatest(at + i, at + i + 1), Origin::kData) << each.name << ": " << found.bytes;
      }
    }
  }
  EXPECT_GE(marks, 1000U);
}

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
}  // namespace ashlar
