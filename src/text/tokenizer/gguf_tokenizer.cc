#include "text/tokenizer/gguf_tokenizer.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/keyed_hash.h"
#include "text/tokenizer/bpe.h"
#include "text/tokenizer/utf8.h"

namespace ashlar::text {
namespace {

constexpr const char* kTokens = "tokenizer.ggml.tokens";
constexpr size_t kMaxMerges = 4 * static_cast<size_t>(kMaxVocabulary);
constexpr size_t kMaxGgufTextBytes = 128U << 20;  // of all tokens and merges, as of a tokenizer.json

/// How a token is meant (tokenizer.ggml.token_type).
enum TokenType : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// What a name of tokenizer.ggml.pre stands for.
struct GgufPreTokenizer {
  std::string_view name;
  const char* steps;  ///< pre_tokenizer of a tokenizer.json
  bool nfc = false;
  bool ignore_merges = false;
  bool adds_bos = false;  ///< where the file does not say
};

constexpr const char* kByteLevel = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": true})";
constexpr const char* kDigitsThenByteLevel = R"({"type": "Sequence", "pretokenizers": [
  {"type": "Digits", "individual_digits": true},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}]})";
constexpr const char* kLlama3 = R"({"type": "Sequence", "pretokenizers": [
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
constexpr const char* kQwen2 = R"({"type": "Sequence", "pretokenizers": [
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";

constexpr GgufPreTokenizer kPreTokenizers[] = {
    {.name = "gpt-2", .steps = kByteLevel},
    {.name = "smollm", .steps = kDigitsThenByteLevel},
    {.name = "llama-bpe", .steps = kLlama3, .ignore_merges = true, .adds_bos = true},
    {.name = "llama3", .steps = kLlama3, .ignore_merges = true, .adds_bos = true},
    {.name = "llama-v3", .steps = kLlama3, .ignore_merges = true, .adds_bos = true},
    {.name = "qwen2", .steps = kQwen2, .nfc = true},
    {.name = "deepseek-r1-qwen", .steps = kQwen2, .nfc = true},
};

/// Reads the keys of one file.
class GgufTokens {
 public:
  explicit GgufTokens(const GgufFile& file)
      : file_(file), fields_(file.metadata(), file.path().string(), "tokenizer"), tokens_(strings(kTokens)) {
    if (tokens_.empty() || tokens_.size() > static_cast<size_t>(kMaxVocabulary)) {
      fail(std::string("\"") + kTokens + "\": expected from 1 to " + std::to_string(kMaxVocabulary) + " texts, found " +
           std::to_string(tokens_.size()));
    }
  }

  const JsonFields& fields() const { return fields_; }
  const std::vector<std::string_view>& all() const { return tokens_; }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error("tokenizer", file_.path().string() + ": " + what);
  }

  std::vector<std::string_view> strings(const char* key) const {
    std::vector<std::string_view> texts;
    try {
      texts = file_.strings(key);
    } catch (const Error& error) {
      throw Error("tokenizer", error.message());
    }
    size_t bytes = 0;
    for (const std::string_view text : texts) {
      bytes += text.size();
      if (!is_valid_utf8(text)) fail(std::string("\"") + key + "\": '" + for_message(text) + "' is not valid UTF-8");
    }
    if (bytes > kMaxGgufTextBytes) {
      fail(std::string("\"") + key + "\": expected at most " + std::to_string(kMaxGgufTextBytes) +
           " bytes of text, found " + std::to_string(bytes));
    }
    return texts;
  }

  std::vector<int64_t> types() const {
    constexpr const char* kKey = "tokenizer.ggml.token_type";
    if (!file_.has_array(kKey)) return std::vector<int64_t>(tokens_.size(), kNormal);
    std::vector<int64_t> types = file_.integers(kKey);
    if (types.size() != tokens_.size()) {
      fail(std::string("\"") + kKey + "\": expected one for each of " + std::to_string(tokens_.size()) +
           " tokens, found " + std::to_string(types.size()));
    }
    return types;
  }

  /// The token that a key names, if there is the key.
  std::optional<int32_t> id(const std::string& role) const {
    const std::string key = "tokenizer.ggml." + role + "_token_id";
    if (!fields_.has(key)) return std::nullopt;
    return static_cast<int32_t>(fields_.integer(key, 0, static_cast<int64_t>(tokens_.size()) - 1));
  }
  std::string text(int32_t id) const { return std::string(tokens_[static_cast<size_t>(id)]); }

 private:
  const GgufFile& file_;
  JsonFields fields_;
  std::vector<std::string_view> tokens_;
};

void check_model(const GgufTokens& tokens) {
  const std::string model = tokens.fields().string("tokenizer.ggml.model");
  if (model != "gpt2") {
    tokens.fields().fail("tokenizer.ggml.model",
                         "gpt2, which is byte-level BPE (of other models take the Hugging Face folder)");
  }
  const char* prefix = "tokenizer.ggml.add_space_prefix";
  if (tokens.fields().boolean(prefix, false)) tokens.fields().fail(prefix, "false for byte-level BPE");
}

const GgufPreTokenizer& pre_tokenizer_of(const GgufTokens& tokens) {
  std::string names;
  for (const GgufPreTokenizer& known : kPreTokenizers) names += (names.empty() ? "" : ", ") + std::string(known.name);
  const std::string expected = "one of " + names;
  const char* key = "tokenizer.ggml.pre";
  if (!tokens.fields().has(key)) tokens.fields().fail(key, expected + " (an old file: convert the model again)");
  const std::string name = tokens.fields().string(key);
  const auto* found = std::find_if(std::begin(kPreTokenizers), std::end(kPreTokenizers),
                                   [&name](const GgufPreTokenizer& known) { return known.name == name; });
  if (found == std::end(kPreTokenizers)) tokens.fields().fail(key, expected);
  return *found;
}

// Vocabulary and added tokens. Unused tokens are rows of the embedding that no text has.
void add_vocabulary(const GgufTokens& tokens, Json& model, Json& added) {
  const std::vector<int64_t> types = tokens.types();
  auto& vocabulary = (model["vocab"] = Json::object()).get_ref<Json::object_t&>();
  TextSet seen;
  for (size_t id = 0; id < types.size(); ++id) {
    std::string content(tokens.all()[id]);
    if (types[id] == kUnused) continue;
    if (types[id] < kNormal || types[id] > kByte) {
      tokens.fail("\"tokenizer.ggml.token_type\": expected a number from 1 to 6, found " + std::to_string(types[id]) +
                  " for the token " + std::to_string(id));
    }
    if (!seen.insert(content).second) {
      tokens.fail(std::string("\"") + kTokens + "\": '" + for_message(content) + "' is there twice");
    }
    if (types[id] == kControl || types[id] == kUserDefined) {
      added.push_back({{"id", id}, {"content", content}, {"special", types[id] == kControl}, {"normalized", false}});
    }
    vocabulary.emplace_back(std::move(content), id);
  }
}

// Tokens put around a text.
Json post_processor(const GgufTokens& tokens, const GgufPreTokenizer& pre) {
  Json names = Json::object();
  Json single = Json::array();
  const auto add = [&](const char* flag, const char* role, bool fallback) {
    if (!tokens.fields().boolean(flag, fallback)) return;
    const auto id = tokens.id(role);
    if (!id) {
      tokens.fields().fail(std::string("tokenizer.ggml.") + role + "_token_id",
                           std::string("a token, which ") + flag + " asks for");
    }
    names[tokens.text(*id)] = {{"ids", Json::array({static_cast<uint32_t>(*id)})}};
    single.push_back({{"SpecialToken", {{"id", tokens.text(*id)}}}});
  };
  add("tokenizer.ggml.add_bos_token", "bos", pre.adds_bos);
  single.push_back({{"Sequence", {{"id", "A"}}}});
  add("tokenizer.ggml.add_eos_token", "eos", false);
  return {{"type", "TemplateProcessing"}, {"single", single}, {"special_tokens", names}};
}

}  // namespace

Json gguf_tokenizer_json(const GgufFile& file) {
  const GgufTokens tokens(file);
  check_model(tokens);
  const GgufPreTokenizer& pre = pre_tokenizer_of(tokens);
  Json model{{"type", "BPE"}, {"ignore_merges", pre.ignore_merges}};
  Json added = Json::array();
  add_vocabulary(tokens, model, added);
  const std::vector<std::string_view> merges = tokens.strings("tokenizer.ggml.merges");
  if (merges.size() > kMaxMerges) {
    tokens.fail("\"tokenizer.ggml.merges\": expected at most " + std::to_string(kMaxMerges) + ", found " +
                std::to_string(merges.size()));
  }
  model["merges"] = merges;
  Json root{{"added_tokens", std::move(added)},
            {"pre_tokenizer", parse_json(pre.steps, "built in")},
            {"post_processor", post_processor(tokens, pre)},
            {"decoder", {{"type", "ByteLevel"}}},
            {"model", std::move(model)}};
  if (pre.nfc) root["normalizer"] = {{"type", "NFC"}};
  return root;
}

TokenizerConfig gguf_tokenizer_config(const GgufFile& file) {
  const GgufTokens tokens(file);
  TokenizerConfig out;
  constexpr std::pair<const char*, const char*> kRoles[] = {
      {"bos", "bos_token"},     {"eos", "eos_token"}, {"unknown", "unk_token"}, {"seperator", "sep_token"},
      {"padding", "pad_token"}, {"cls", "cls_token"}, {"mask", "mask_token"}};
  for (const auto& [role, name] : kRoles) {
    if (const auto id = tokens.id(role)) out.special_tokens[name] = tokens.text(*id);
  }
  constexpr const char* kTemplate = "tokenizer.chat_template";
  Json templates = Json::array();
  const auto add = [&](const std::string& name, const std::string& key) {
    const std::string source = tokens.fields().string(key);
    if (!is_valid_utf8(source)) tokens.fail("\"" + key + "\": is not valid UTF-8");
    templates.push_back({{"name", name}, {"template", source}});
  };
  if (tokens.fields().has(kTemplate)) add("default", kTemplate);
  if (file.has_array("tokenizer.chat_templates")) {
    for (const std::string_view name : tokens.strings("tokenizer.chat_templates")) {
      add(std::string(name), std::string(kTemplate) + "." + std::string(name));
    }
  }
  if (!templates.empty()) out.chat_template = std::move(templates);
  return out;
}

}  // namespace ashlar::text
