// SPDX-License-Identifier: Apache-2.0
#include "io/weights/gguf.h"

#include <limits>
#include <random>

#include "gguf_writer.h"
#include "unit/io/outside_files.h"

namespace ashlar::testing {
namespace {

using W = GgufWriter;

// A value of each type, and tensors of three.
GgufWriter good() {
  GgufWriter file;
  file.text("general.architecture", "llama")
      .key("u8", 0, W::raw(uint8_t{200}))
      .key("i8", 1, W::raw(int8_t{-100}))
      .key("u16", 2, W::raw(uint16_t{60000}))
      .key("i16", 3, W::raw(int16_t{-30000}))
      .number("u32", 4'000'000'000U)
      .key("i32", 5, W::raw(int32_t{-2'000'000'000}))
      .number("f32", 0.1F)
      .boolean("yes", true)
      .texts("texts", {"one", "", "\xC4\xA0three"})
      .key("u64", 10, W::raw(std::numeric_limits<uint64_t>::max()))
      .key("i64", 11, W::raw(std::numeric_limits<int64_t>::min()))
      .key("f64", 12, W::raw(0.1))
      .integers("integers", {3, -1, 2})
      .key("nested", 9,
           W::raw(uint32_t{9}) + W::raw(uint64_t{2}) + W::raw(uint32_t{0}) + W::raw(uint64_t{3}) + "abc" +
               W::raw(uint32_t{8}) + W::raw(uint64_t{1}) + W::string("x"));
  file.tensor("a", {3, 2}, 0, std::string(24, 'a'));
  file.tensor("b", {64, 3}, 3, std::string(2 * 3 * 20, 'b'));
  file.tensor("c", {}, 30, "cc");
  return file;
}

class Gguf : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) const { return folder_.write("x.gguf", bytes); }
  /// The file must be refused with a message that names it and the parts.
  void refuse(const std::string& bytes, std::vector<std::string> parts) const {
    const auto path = write(bytes);
    parts.push_back(path.string());
    expect_error([&] { GgufFile file(path); }, parts);
  }
  TempFolder folder_;
};

TEST_F(Gguf, ReadsAGoodFile) {
  const auto path = write(good().bytes());
  const GgufFile file(path);
  const Json& values = file.metadata();
  EXPECT_EQ(values.at("general.architecture"), "llama");
  EXPECT_EQ(values.at("u8"), 200);
  EXPECT_EQ(values.at("i8"), -100);
  EXPECT_EQ(values.at("u16"), 60000);
  EXPECT_EQ(values.at("i16"), -30000);
  EXPECT_EQ(values.at("u32"), 4'000'000'000U);
  EXPECT_EQ(values.at("i32"), -2'000'000'000);
  EXPECT_EQ(values.at("f32").get<double>(), static_cast<double>(0.1F));
  EXPECT_EQ(values.at("yes"), true);
  EXPECT_EQ(values.at("u64"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(values.at("i64"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(values.at("f64"), 0.1);
  EXPECT_EQ(file.strings("texts"), (std::vector<std::string_view>{"one", "", "\xC4\xA0three"}));
  EXPECT_EQ(file.integers("integers"), (std::vector<int64_t>{3, -1, 2}));
  EXPECT_TRUE(file.has_array("nested"));

  ASSERT_EQ(file.tensors().size(), 3U);
  const StoredTensor& a = file.tensors().at("a");
  EXPECT_EQ(a.describe(), "F32 [2, 3]");
  EXPECT_EQ(a.bytes, 24U);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(a.data), a.bytes), std::string(24, 'a'));
  EXPECT_EQ(a.file, path.string());
  const StoredTensor& b = file.tensors().at("b");
  EXPECT_EQ(b.describe(), "Q4_1 [3, 64]");
  EXPECT_EQ(b.data, a.data + 32);
  EXPECT_EQ(b.bytes, 120U);
  EXPECT_EQ(file.tensors().at("c").describe(), "BF16 []");
}

TEST_F(Gguf, ReadsVersion2AndAnyAlignment) {
  for (const uint32_t alignment : {1U, 8U, 32U, 128U}) {
    GgufWriter file;
    file.version = 2;
    file.alignment = alignment;
    file.number("general.alignment", alignment).tensor("a", {3}, 24, "abc").tensor("b", {2}, 24, "de");
    const GgufFile read(write(file.bytes()));
    EXPECT_EQ(read.tensors().at("a").data[0], std::byte{'a'});
    EXPECT_EQ(read.tensors().at("b").data[1], std::byte{'e'});
  }
}

TEST_F(Gguf, RefusesEveryTruncation) {
  std::string whole = good().bytes();
  whole.resize(whole.size() - 30);  // what follows the last tensor
  EXPECT_EQ(GgufFile(write(whole)).tensors().size(), 3U);
  for (size_t length = 0; length < whole.size(); ++length) {
    SCOPED_TRACE(length);
    refuse(whole.substr(0, length), {"truncated"});
  }
}

// Nothing but Error, and nothing read where there is nothing, which sanitizers would see.
TEST_F(Gguf, SurvivesAnyByteBeingWrong) {
  const std::string whole = good().bytes();
  std::mt19937 random(7);
  for (size_t at = 0; at < whole.size(); ++at) {
    for (const int value : {0, 0xFF, 0x80, static_cast<int>(random() & 0xFF)}) {
      std::string bytes = whole;
      bytes[at] = static_cast<char>(value);
      try {
        const GgufFile file(write(bytes));
        for (const auto& [name, tensor] : file.tensors()) EXPECT_LE(tensor.bytes, whole.size());
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("x.gguf"), std::string::npos);
      }
    }
  }
}

TEST_F(Gguf, RefusesArraysAskedForAsSomethingElse) {
  const GgufFile file(write(good().bytes()));
  expect_error([&] { file.strings("integers"); }, {"x.gguf", "integers", "expected an array of texts"});
  expect_error([&] { file.strings("u8"); }, {"u8", "an array of texts", "a single value"});
  expect_error([&] { file.integers("texts"); }, {"texts", "an array of integers"});
  expect_error([&] { file.integers("none"); }, {"none", "found nothing"});
  GgufWriter large;
  large.key("big", 9, W::raw(uint32_t{10}) + W::raw(uint64_t{1}) + W::raw(~uint64_t{0}));
  const GgufFile other(write(large.bytes()));
  expect_error([&] { other.integers("big"); }, {"big", "63 bits", "18446744073709551615"});
}

struct Wrong {
  const char* name;
  void (*spoil)(GgufWriter& file);
  std::vector<std::string> parts;  // of the message
};

void PrintTo(const Wrong& wrong, std::ostream* out) { *out << wrong.name; }

class WrongGguf : public Gguf, public ::testing::WithParamInterface<Wrong> {};

TEST_P(WrongGguf, IsRefused) {
  GgufWriter file = good();
  GetParam().spoil(file);
  refuse(file.bytes(), GetParam().parts);
}

constexpr uint64_t kHuge = ~uint64_t{0};

const Wrong kWrong[] = {
    {"Magic", [](W& f) { f.magic = "GGML"; }, {"begins with \"GGML\"", "expected GGUF"}},
    {"VersionOne", [](W& f) { f.version = 1; }, {"version 1", "2 or 3"}},
    {"VersionFour", [](W& f) { f.version = 4; }, {"version 4", "2 or 3"}},
    {"BigEndian", [](W& f) { f.version = 3U << 24; }, {"big-endian", "gguf-convert-endian"}},
    {"TensorCount", [](W& f) { f.more_tensors = 1U << 21; }, {"tensors", "at most 1048576"}},
    {"TensorCountOverflows", [](W& f) { f.more_tensors = kHuge - 3; }, {"18446744073709551615 tensors"}},
    {"TensorCountBeyondTheFile", [](W& f) { f.more_tensors = 1000; }, {"1003 tensors", "bytes follow"}},
    {"KeyCount", [](W& f) { f.more_keys = 1U << 20; }, {"keys", "at most 10000"}},
    {"KeyCountBeyondTheFile", [](W& f) { f.more_keys = 5000; }, {"5015 keys", "bytes follow"}},
    {"KeyTwice", [](W& f) { f.number("u32", 1U); }, {"the key u32 is there twice"}},
    {"ArrayTwice", [](W& f) { f.integers("u32", {1}); }, {"the key u32 is there twice"}},
    {"KeyEmpty", [](W& f) { f.number("", 1U); }, {"key 15 is empty"}},
    {"KeyTooLong", [](W& f) { f.number(std::string(70'000, 'k'), 1U); }, {"70000 bytes", "at most 65536"}},
    {"KeyLengthHuge", [](W& f) { f.keys[0].replace(0, 8, W::raw(kHuge)); }, {"18446744073709551615 bytes as a key"}},
    {"ValueType", [](W& f) { f.key("odd", 13, "xxxxxxxx"); }, {"key odd", "type 13", "0 to 12"}},
    {"BooleanOfTwo", [](W& f) { f.key("odd", 7, "\2"); }, {"key odd", "found 2", "0 or 1"}},
    {"TextLength", [](W& f) { f.key("odd", 8, W::raw(kHuge)); }, {"key odd", "18446744073709551615", "truncated"}},
    {"ArrayLength", [](W& f) { f.key("odd", 9, W::raw(uint32_t{0}) + W::raw(kHuge)); }, {"key odd", "values"}},
    {"ArrayLengthTimesSizeOverflows",
     [](W& f) { f.key("odd", 9, W::raw(uint32_t{10}) + W::raw((kHuge >> 3) + 2)); },
     {"key odd", "values"}},
    {"ArrayOfTextsLength",
     [](W& f) { f.key("odd", 9, W::raw(uint32_t{8}) + W::raw(kHuge / 8)); },
     {"key odd", "values"}},
    {"ArrayType", [](W& f) { f.key("odd", 9, W::raw(uint32_t{99}) + W::raw(uint64_t{0})); }, {"key odd", "type 99"}},
    {"ArraysInArrays",
     [](W& f) {
       std::string value;
       for (int i = 0; i < 20; ++i) value += W::raw(uint32_t{9}) + W::raw(uint64_t{1});
       f.key("odd", 9, value + W::raw(uint32_t{0}) + W::raw(uint64_t{0}));
     },
     {"key odd", "more than 8 deep"}},
    {"AlignmentOfThree", [](W& f) { f.number("general.alignment", 3U); }, {"general.alignment is 3", "power of two"}},
    {"AlignmentOfZero", [](W& f) { f.number("general.alignment", 0U); }, {"general.alignment is 0", "power of two"}},
    {"AlignmentHuge", [](W& f) { f.number("general.alignment", 1U << 31); }, {"power of two up to 1048576"}},
    {"AlignmentAsText", [](W& f) { f.text("general.alignment", "32"); }, {"general.alignment is \"32\""}},
    {"AlignmentBeyondTheFile", [](W& f) { f.number("general.alignment", 1U << 16); }, {"before its tensors begin"}},
    {"TensorTwice", [](W& f) { f.tensor("a", {1}, 0, "aaaa"); }, {"tensor a is there twice"}},
    {"TensorWithoutAName", [](W& f) { f.tensor("", {1}, 0, "aaaa"); }, {"a tensor has no name"}},
    {"FiveDimensions",
     [](W& f) {
       f.tensor("odd", {1, 1, 1, 1, 1}, 0, "aaaa");
     },
     {"tensor odd", "5 dimensions"}},
    {"DimensionOfZero",
     [](W& f) {
       f.tensor("odd", {4, 0}, 0, "");
     },
     {"tensor odd", "dimension of 0"}},
    {"DimensionsOverflow",
     [](W& f) {
       f.tensor("odd", {uint64_t{1} << 32, uint64_t{1} << 31}, 0, "");
     },
     {"tensor odd", "63 bits"}},
    {"DimensionNegative", [](W& f) { f.tensor("odd", {kHuge}, 0, ""); }, {"tensor odd", "63 bits"}},
    {"BytesOverflow",
     [](W& f) { f.tensor("odd", {uint64_t{1} << 62}, 28, ""); },
     {"tensor odd", "F64", "larger than the file"}},
    {"TensorType", [](W& f) { f.tensor("odd", {1}, 4, "a"); }, {"tensor odd", "type 4", "unknown"}},
    {"PartOfABlock", [](W& f) { f.tensor("odd", {48}, 2, ""); }, {"tensor odd", "rows of 48", "blocks of 32", "Q4_0"}},
    {"OffsetUnaligned", [](W& f) { f.info("odd", {1}, 0, 4); }, {"tensor odd", "begins at 4", "multiple of 32"}},
    {"OffsetBeyondTheFile", [](W& f) { f.info("odd", {1}, 0, 1 << 20); }, {"tensor odd", "from 1048576", "truncated"}},
    {"OffsetOverflows", [](W& f) { f.info("odd", {64}, 24, kHuge - 31); }, {"tensor odd", "truncated"}},
    {"TensorBeyondTheFile", [](W& f) { f.info("odd", {1000}, 0, 0); }, {"tensor odd", "larger than the file"}},
    {"TensorsOverlap", [](W& f) { f.info("odd", {8}, 0, 32); }, {"begins within"}},
};

INSTANTIATE_TEST_SUITE_P(Fields, WrongGguf, ::testing::ValuesIn(kWrong),
                         [](const auto& info) { return std::string(info.param.name); });

class GgufShards : public ::testing::Test {
 protected:
  void write(int number, int of, const std::string& tensor, uint32_t stated_number, uint32_t stated_of) const {
    GgufWriter file;
    file.key("split.no", 2, W::raw(static_cast<uint16_t>(stated_number)))
        .key("split.count", 2, W::raw(static_cast<uint16_t>(stated_of)))
        .key("split.tensors.count", 5, W::raw(int32_t{2}));
    file.tensor(tensor, {1}, 0, "aaaa");
    char name[64];
    std::snprintf(name, sizeof name, "m-%05d-of-%05d.gguf", number, of);
    folder_.write(name, file.bytes());
  }
  TempFolder folder_;
};

TEST_F(GgufShards, AreFoundFromAnyOfThem) {
  write(1, 2, "a", 0, 2);
  write(2, 2, "b", 1, 2);
  for (const char* name : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) {
    const GgufModel model(folder_ / name);
    ASSERT_EQ(model.files().size(), 2U);
    EXPECT_TRUE(model.files()[0].tensors().contains("a"));
    EXPECT_TRUE(model.files()[1].tensors().contains("b"));
    EXPECT_EQ(open_gguf_metadata(folder_ / name).path(), folder_ / "m-00001-of-00002.gguf");
  }
}

TEST_F(GgufShards, ThatDoNotFitAreRefused) {
  write(1, 2, "a", 0, 2);
  const auto open = [this](const char* name) { return [this, name] { GgufModel(folder_ / name); }; };
  expect_error(open("m-00001-of-00002.gguf"), {"m-00002-of-00002.gguf", "is missing", "all 2 shards"});
  write(2, 2, "b", 0, 2);
  expect_error(open("m-00001-of-00002.gguf"), {"m-00002-of-00002.gguf", "is shard 1 of 2", "2 of 2 by its name"});
  std::filesystem::rename(folder_ / "m-00001-of-00002.gguf", folder_ / "renamed.gguf");
  expect_error(open("renamed.gguf"), {"renamed.gguf", "is shard 1 of 2", "1 of 1 by its name"});
  write(1, 3, "a", 0, 3);
  write(2, 3, "b", 1, 3);
  write(3, 3, "c", 2, 3);
  expect_error(open("m-00002-of-00003.gguf"), {"m-00001-of-00003.gguf", "states 2 tensors", "found 3"});
}

}  // namespace
}  // namespace ashlar::testing
