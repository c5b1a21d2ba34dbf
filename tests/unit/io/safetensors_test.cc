// SPDX-License-Identifier: Apache-2.0
#include "io/weights/safetensors.h"

#include <sys/stat.h>

#include <ctime>
#include <random>

#include "unit/io/outside_files.h"

namespace ashlar::testing {
namespace {

class Safetensors : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) const { return folder_.write("x.safetensors", bytes); }

  /// The file must be refused with a message that names it and the parts.
  void refuse(const std::string& bytes, std::vector<std::string> parts) const {
    const auto path = write(bytes);
    parts.push_back(path.string());
    expect_error([&] { SafetensorsFile file(path); }, parts);
  }

  /// A file whose one tensor `t` has this JSON entry, over `size` bytes of data.
  void refuse_entry(const std::string& entry, size_t size, std::vector<std::string> parts) const {
    SCOPED_TRACE(entry);
    parts.push_back("tensor t");
    refuse(container("{\"t\":" + entry + "}", std::string(size, 'x')), parts);
  }

  TempFolder folder_;
};

std::string good_file() {
  return safetensors({floats_of("a.weight", {2, 3}, {1, 2, 3, 4, 5, 6}), zeros("b", "BF16", 2, {4}),
                      zeros("c", "I64", 8, {}), zeros("empty", "F32", 4, {0, 7})},
                     R"("__metadata__":{"format":"pt"})");
}

TEST_F(Safetensors, ReadsAGoodFile) {
  const auto path = write(good_file());
  const SafetensorsFile file(path);
  ASSERT_EQ(file.tensors().size(), 4u);
  const StoredTensor& a = file.tensors().at("a.weight");
  EXPECT_EQ(a.name, "a.weight");
  EXPECT_EQ(a.dtype, "F32");
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(a.file, path.string());
  EXPECT_EQ(a.describe(), "F32 [2, 3]");
  ASSERT_EQ(a.bytes, 24u);
  float last = 0;
  std::memcpy(&last, a.data + 20, sizeof(last));
  EXPECT_EQ(last, 6.0F);
  EXPECT_EQ(file.tensors().at("b").data, a.data + 24);
  EXPECT_EQ(file.tensors().at("c").shape, std::vector<int64_t>{});
  EXPECT_EQ(file.tensors().at("c").bytes, 8u);
  EXPECT_EQ(file.tensors().at("empty").bytes, 0u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST_F(Safetensors, ReadsWhatTheFormatAllows) {
  EXPECT_TRUE(SafetensorsFile(write(container("{}", ""))).tensors().empty());
  EXPECT_TRUE(SafetensorsFile(write(container("{}      ", ""))).tensors().empty());  // headers are padded with blanks
  // In any order in the header, and without alignment.
  const auto path = write(container(
      R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[1,5]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})",
      "12345"));
  EXPECT_EQ(SafetensorsFile(path).tensors().at("b").bytes, 4u);
  for (const auto& [dtype, size] : std::vector<std::pair<std::string, size_t>>{{"BOOL", 1},
                                                                               {"U8", 1},
                                                                               {"I8", 1},
                                                                               {"F8_E4M3", 1},
                                                                               {"F8_E5M2", 1},
                                                                               {"U16", 2},
                                                                               {"I16", 2},
                                                                               {"F16", 2},
                                                                               {"BF16", 2},
                                                                               {"U32", 4},
                                                                               {"I32", 4},
                                                                               {"F32", 4},
                                                                               {"U64", 8},
                                                                               {"I64", 8},
                                                                               {"F64", 8}}) {
    EXPECT_EQ(SafetensorsFile(write(safetensors({zeros("t", dtype, size, {3})}))).tensors().at("t").bytes, 3 * size);
  }
}

TEST_F(Safetensors, MovesWithoutLosingItsData) {
  SafetensorsFile first(write(good_file()));
  const SafetensorsFile second(std::move(first));
  float value = 0;
  std::memcpy(&value, second.tensors().at("a.weight").data, sizeof(value));
  EXPECT_EQ(value, 1.0F);
}

TEST_F(Safetensors, RefusesEveryTruncation) {
  const std::string whole = good_file();
  for (size_t length = 0; length < whole.size(); ++length) {
    SCOPED_TRACE(length);
    refuse(whole.substr(0, length), {"x.safetensors"});
  }
  refuse("", {"has 0 bytes", "at least 8"});
  refuse(whole.substr(0, 20), {"truncated"});
  refuse(whole.substr(0, whole.size() - 1), {"truncated"});
}

TEST_F(Safetensors, RefusesBytesAfterTheLastTensor) { refuse(good_file() + "x", {"1 bytes after the last tensor"}); }

TEST_F(Safetensors, RefusesHeaderLengthsThatCannotBe) {
  const std::string rest(100, ' ');
  for (const uint64_t length : {~uint64_t{0}, ~uint64_t{0} - 7, ~uint64_t{0} - 8, uint64_t{1} << 63,
                                (uint64_t{1} << 63) - 1, uint64_t{1} << 32, uint64_t{100'000'001}}) {
    refuse(little_endian(length) + rest, {std::to_string(length), "at most 100000000"});
  }
  for (const uint64_t length : {uint64_t{101}, uint64_t{100'000'000}}) {
    refuse(little_endian(length) + rest, {std::to_string(length), "only 100"});
  }
  refuse(little_endian(0) + rest, {"header"});
}

TEST_F(Safetensors, RefusesHeadersThatAreNoObject) {
  refuse(container("", "data"), {"header"});
  refuse(container("[]", ""), {"header"});
  refuse(container(" {}", ""), {"header"});
  refuse(container("null", ""), {"header"});
  refuse(container("{", ""), {"header", "not valid JSON at byte"});
  refuse(container("{}{}", ""), {"not valid JSON at byte 3"});
  refuse(container("{} x", ""), {"not valid JSON"});
  refuse(container(std::string("{}\0{}", 5), ""), {"a zero byte"});
  refuse(container("{\"\xff\xfe\":1}", ""), {"not valid JSON"});
  refuse(container("{\"a\xc3\":1}", ""), {"not valid JSON"});
  refuse(container("{\"t\":1e999}", ""), {"not valid JSON"});
}

TEST_F(Safetensors, RefusesDeepJson) {
  for (const size_t depth : {65, 1000, 1000000}) {
    refuse(container("{\"t\":" + std::string(depth, '['), ""), {"nested deeper than 64"});
    std::string objects;
    for (size_t i = 0; i < depth; ++i) objects += "{\"a\":";
    refuse(container(objects, ""), {"nested deeper than 64"});
  }
}

TEST_F(Safetensors, RefusesTheSameNameTwice) {
  const std::string entry = R"({"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  refuse(container("{\"same\":" + entry + ",\"same\":" + entry + "}", "x"), {"repeats", "same"});
  refuse(container(R"({"t":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x"), {"repeats", "dtype"});
}

TEST_F(Safetensors, RefusesEntriesThatAreIncompleteOrOfOtherTypes) {
  refuse_entry("1", 0, {"object"});
  refuse_entry("[]", 0, {"object"});
  refuse_entry("null", 0, {"object"});
  refuse_entry("{}", 0, {"dtype", "nothing"});
  refuse_entry(R"({"dtype":"F32","data_offsets":[0,4]})", 4, {"shape", "nothing"});
  refuse_entry(R"({"dtype":"F32","shape":[1]})", 4, {"data_offsets", "nothing"});
  refuse_entry(R"({"dtype":7,"shape":[1],"data_offsets":[0,4]})", 4, {"dtype", "a string", "7"});
  refuse_entry(R"({"dtype":"F33","shape":[1],"data_offsets":[0,4]})", 4, {"dtype", "F33"});
  refuse_entry(R"({"dtype":"f32","shape":[1],"data_offsets":[0,4]})", 4, {"dtype", "f32"});
  refuse_entry(R"({"dtype":"F32","shape":"1","data_offsets":[0,4]})", 4, {"shape"});
  refuse_entry(R"({"dtype":"F32","shape":[1.0],"data_offsets":[0,4]})", 4, {"shape", "non-negative integers"});
  refuse_entry(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4, {"shape", "non-negative integers"});
  refuse_entry(R"({"dtype":"F32","shape":[true],"data_offsets":[0,4]})", 4, {"shape", "non-negative integers"});
  refuse_entry(R"({"dtype":"F32","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,4]})", 4, {"shape", "8 dimensions"});
  refuse_entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})", 4, {"data_offsets"});
  refuse_entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4,4]})", 4, {"data_offsets"});
  refuse_entry(R"({"dtype":"F32","shape":[1],"data_offsets":[-4,0]})", 4, {"data_offsets"});
  refuse_entry(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4.0]})", 4, {"data_offsets"});
  refuse_entry(R"({"dtype":"F32","shape":[1],"data_offsets":{"0":4}})", 4, {"data_offsets"});
}

TEST_F(Safetensors, RefusesShapesWhoseSizeOverflows) {
  refuse_entry(R"({"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]})", 4, {"64 bits"});
  refuse_entry(R"({"dtype":"F32","shape":[4611686018427387904],"data_offsets":[0,0]})", 0, {"64 bits"});
  refuse_entry(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})", 0, {"64 bits"});
  refuse_entry(R"({"dtype":"I64","shape":[2305843009213693953],"data_offsets":[0,8]})", 8, {"64 bits"});
  refuse_entry(R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,1]})", 1, {"64 bits"});
  refuse_entry(R"({"dtype":"U8","shape":[18446744073709551616],"data_offsets":[0,1]})", 1, {"non-negative integers"});
  refuse_entry(R"({"dtype":"U8","shape":[9223372036854775807],"data_offsets":[0,1]})", 1,
               {"9223372036854775807 bytes"});
}

TEST_F(Safetensors, RefusesOffsetsThatDoNotFit) {
  refuse_entry(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", 4, {"data_offsets", "begin <= end"});
  refuse_entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 4, {"data_offsets", "end <= 4"});
  refuse_entry(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4, {"8 bytes for F32 [2]"});
  refuse_entry(R"({"dtype":"F32","shape":[],"data_offsets":[0,8]})", 8, {"4 bytes for F32 []"});
  refuse_entry(R"({"dtype":"F32","shape":[1],"data_offsets":[18446744073709551612,18446744073709551615]})", 4,
               {"end <= 4"});
  refuse_entry(R"({"dtype":"F32","shape":[1],"data_offsets":[9223372036854775804,9223372036854775808]})", 4,
               {"end <= 4"});
}

TEST_F(Safetensors, RefusesOverlapsAndHoles) {
  const auto two = [&](const std::string& first, const std::string& second) {
    const std::string head = R"({"dtype":"U8","shape":[4],"data_offsets":)";
    return container("{\"one\":" + head + first + "},\"two\":" + head + second + "}}", std::string(9, 'x'));
  };
  refuse(two("[0,4]", "[3,7]"), {"two", "overlaps"});
  refuse(two("[0,4]", "[0,4]"), {"overlaps"});
  refuse(two("[0,4]", "[5,9]"), {"two", "bytes of no tensor"});
  refuse(two("[1,5]", "[5,9]"), {"one", "bytes of no tensor"});
  refuse(two("[0,4]", "[4,8]"), {"1 bytes after the last tensor"});
}

TEST_F(Safetensors, RefusesMetadataThatIsNoMapOfStrings) {
  refuse(container(R"({"__metadata__":[]})", ""), {"__metadata__"});
  refuse(container(R"({"__metadata__":{"a":1}})", ""), {"__metadata__", "a"});
  refuse(container(R"({"__metadata__":{"a":{"b":"c"}}})", ""), {"__metadata__", "a"});
}

TEST_F(Safetensors, RefusesWhatIsNoFile) {
  expect_error([&] { SafetensorsFile file(folder_.path()); }, {folder_.path().string(), "regular file"});
  const auto missing = folder_.path() / "none.safetensors";
  expect_error([&] { SafetensorsFile file(missing); }, {missing.string(), "cannot open"});
  const auto pipe = folder_.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  expect_error([&] { SafetensorsFile file(pipe); }, {pipe.string(), "regular file"});  // and does not wait for a writer
  expect_error([&] { SafetensorsFile file("/dev/null"); }, {"/dev/null", "regular file"});
}

TEST_F(Safetensors, MessagesStayShortAndPrintable) {
  const std::string name(100000, 'n');
  refuse(container("{\"" + name + "\":1}", ""), {"nnn..."});
  refuse(container(R"({"a\u001b[31mb\n":1})", ""), {"a?[31mb?"});
  std::string numbers = "1";
  for (int i = 0; i < 50000; ++i) numbers += ",1";
  refuse(container("{\"t\":{\"dtype\":\"F32\",\"shape\":[" + numbers + "],\"data_offsets\":[0,4]}}", "1234"),
         {"1,1..."});
}

TEST_F(Safetensors, ManyTensorsTakeLinearTime) {
  std::vector<TensorSpec> tensors;
  for (int i = 0; i < 100000; ++i) tensors.push_back(zeros("layers." + std::to_string(i), "U8", 1, {1}));
  const auto path = write(safetensors(tensors));
  const std::clock_t begin = std::clock();
  EXPECT_EQ(SafetensorsFile(path).tensors().size(), tensors.size());
  // Of processor time: work that is quadratic in the names takes more than half a minute here, ours a second.
  EXPECT_LT(std::clock() - begin, 20 * CLOCKS_PER_SEC);
}

// Whatever becomes of a file, reading it ends in a file whose tensors lie inside the mapping or in Error.
void load_or_refuse(const std::filesystem::path& path, int64_t* loaded) {
  try {
    const SafetensorsFile file(path);
    unsigned sum = 0;
    for (const auto& [name, tensor] : file.tensors()) {
      for (size_t i = 0; i < tensor.bytes; ++i) sum += static_cast<unsigned>(tensor.data[i]);
    }
    volatile unsigned keep = sum;
    (void)keep;
    ++*loaded;
  } catch (const Error&) {
  }
}

TEST_F(Safetensors, SurvivesEveryFlippedBit) {
  const std::string good = good_file();
  int64_t loaded = 0;
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_NO_THROW(load_or_refuse(write(bad), &loaded)) << "bit " << bit;
  }
  // Flips in the data section and in names are harmless.
  EXPECT_GT(loaded, 40 * 8);
  EXPECT_LT(loaded, static_cast<int64_t>(good.size()) * 8 / 2);
}

TEST_F(Safetensors, SurvivesRandomDamage) {
  const std::string good = good_file();
  std::mt19937 random(7);
  int64_t loaded = 0;
  const std::string digits = "0123456789[]{},:\"-.eE";
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
      const size_t at = random() % bad.size();
      switch (random() % 4) {
        case 0:
          bad[at] = static_cast<char>(random());
          break;
        case 1:
          bad[at] = digits[random() % digits.size()];
          break;
        case 2:
          bad.erase(at, 1 + random() % 3);
          break;
        default:
          bad.insert(at, 1, digits[random() % digits.size()]);
          break;
      }
    }
    if (round % 2 == 0 && bad.size() > 8) {  // keep the length right, so that the damage reaches the parser
      const std::string length = little_endian(std::min<size_t>(bad.size() - 8, good.size() - 8 - 40));
      bad.replace(0, 8, length);
    }
    ASSERT_NO_THROW(load_or_refuse(write(bad), &loaded)) << "round " << round;
  }
  EXPECT_GT(loaded, 0);
}

}  // namespace
}  // namespace ashlar::testing
