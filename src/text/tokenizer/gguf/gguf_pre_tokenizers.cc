// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer/gguf/gguf_pre_tokenizers.h"

#include <algorithm>
#include <iterator>

namespace ashlar::text {
namespace {

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
constexpr const char* kQwen35 = R"({"type": "Sequence", "pretokenizers": [
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
// Mistral Nemo and its successors.
constexpr const char* kTekken = R"({"type": "Sequence", "pretokenizers": [
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
constexpr const char* kGpt4o = R"({"type": "Sequence", "pretokenizers": [
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
constexpr const char* kDeepseekCoder = R"({"type": "Sequence", "pretokenizers": [
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "[\\r\\n]"}},
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "\\s?\\p{L}+"}},
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "\\s?\\p{P}+"}},
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "[一-龥ࠀ-一가-퟿]+"}},
  {"type": "Digits", "individual_digits": true},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
// The letters are an older list of those with a case.
constexpr const char* kDeepseekLlm = R"({"type": "Sequence", "pretokenizers": [
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "[\\r\\n]"}},
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"}},
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "\\s?[!-/:-~！-／：-～‘-‟　-。]+"}},
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "\\s+$"}},
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "[一-龥ࠀ-一가-퟿]+"}},
  {"type": "Digits", "individual_digits": false},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
constexpr const char* kSeedCoder = R"({"type": "Sequence", "pretokenizers": [
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";
constexpr const char* kFalcon = R"({"type": "Sequence", "pretokenizers": [
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "[\\p{P}\\$\\+<=>\\^~\\|`]+"}},
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex":
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"}},
  {"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "[0-9][0-9][0-9]"}},
  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})";

constexpr GgufPreTokenizer kPreTokenizers[] = {
    {.name = "gpt-2", .steps = kByteLevel},
    {.name = "olmo", .steps = kByteLevel},
    {.name = "mpt", .steps = kByteLevel},
    {.name = "mellum", .steps = kByteLevel},
    {.name = "a.x-4.0", .steps = kByteLevel},
    {.name = "smollm", .steps = kDigitsThenByteLevel},
    {.name = "starcoder", .steps = kDigitsThenByteLevel},
    {.name = "refact", .steps = kDigitsThenByteLevel},
    {.name = "command-r", .steps = kDigitsThenByteLevel},
    {.name = "minerva-7b", .steps = kDigitsThenByteLevel},
    {.name = "llama-bpe", .steps = kLlama3, .ignore_merges = true, .adds_bos = true},
    {.name = "llama3", .steps = kLlama3, .ignore_merges = true, .adds_bos = true},
    {.name = "llama-v3", .steps = kLlama3, .ignore_merges = true, .adds_bos = true},
    {.name = "falcon3", .steps = kLlama3, .ignore_merges = true, .adds_bos = true},
    {.name = "lfm2", .steps = kLlama3, .ignore_merges = true, .adds_bos = true},
    {.name = "smaug-bpe", .steps = kLlama3},
    {.name = "dbrx", .steps = kLlama3},
    {.name = "glm4", .steps = kLlama3, .ignore_merges = true},
    {.name = "qwen2", .steps = kQwen2, .nfc = true},
    {.name = "deepseek-r1-qwen", .steps = kQwen2, .nfc = true},
    {.name = "qwen35", .steps = kQwen35, .nfc = true},
    {.name = "tekken", .steps = kTekken, .ignore_merges = true, .adds_bos = true},
    {.name = "gpt-4o", .steps = kGpt4o},
    {.name = "deepseek-coder", .steps = kDeepseekCoder},
    {.name = "deepseek-llm", .steps = kDeepseekLlm},
    {.name = "seed-coder", .steps = kSeedCoder},
    {.name = "falcon", .steps = kFalcon},
};

}  // namespace

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name) {
  const auto* found = std::find_if(std::begin(kPreTokenizers), std::end(kPreTokenizers),
                                   [name](const GgufPreTokenizer& known) { return known.name == name; });
  return found == std::end(kPreTokenizers) ? nullptr : found;
}

std::string gguf_pre_tokenizer_names() {
  std::string names;
  for (const GgufPreTokenizer& known : kPreTokenizers) names += (names.empty() ? "" : ", ") + std::string(known.name);
  return names;
}

}  // namespace ashlar::text
