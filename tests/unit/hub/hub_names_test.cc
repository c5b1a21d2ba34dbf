// SPDX-License-Identifier: Apache-2.0
#include "hub/names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "hub/digest.h"
#include "hub/file_list.h"

namespace ashlar::hub {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(HubNames, ReadsRepositories) {
  const auto plain = parse_repo_ref("Qwen/Qwen3-0.6B");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->repo, "Qwen/Qwen3-0.6B");
  EXPECT_EQ(plain->revision, "main");
  const auto named = parse_repo_ref("org/model@refs/pr/1");
  ASSERT_TRUE(named);
  EXPECT_EQ(named->repo, "org/model");
  EXPECT_EQ(named->revision, "refs/pr/1");
}

TEST(HubNames, FindsTheRepositoryInAnAddress) {
  for (const char* text : {"https://huggingface.co/org/model", "http://www.huggingface.co/org/model/tree/main?x=1",
                           "huggingface.co/org/model#files", "https://huggingface.co/org/model/blob/main/x.Q4_K_M.gguf",
                           "hf.co/org/model:Q4_K_M", "hf://org/model@refs/pr/1"}) {
    EXPECT_EQ(repo_of_address(text), "org/model") << text;
  }
  for (const char* text : {"", "org/model", "https://elsewhere.example/org/model", "https://huggingface.co/org",
                           "https://huggingface.co/../model", "hf://", "hf.co/org/--",
                           "https://huggingface.co/datasets/org/data", "https://huggingface.co/spaces/org/demo"}) {
    EXPECT_EQ(repo_of_address(text), "") << text;
  }
}

TEST(HubNames, RefusesWhatIsNone) {
  for (const char* text : {"",
                           "model",
                           "/model",
                           "org/",
                           "org/a/b",
                           "../model",
                           "org/..",
                           "org/.hidden",
                           "org/a--b",
                           "org/mo del",
                           "./models",
                           "org/model@",
                           "org/model@../../etc",
                           "org/model@a//b",
                           "org/model@/a",
                           "org/model@a b",
                           "org/model@a?b",
                           "-org/model",
                           "org/model.",
                           "or\xC3\xA4g/model",
                           "org/model@x\n"}) {
    EXPECT_FALSE(parse_repo_ref(text)) << text;
  }
  EXPECT_FALSE(parse_repo_ref("org/" + std::string(97, 'a')));
  EXPECT_TRUE(parse_repo_ref("org/" + std::string(96, 'a')));
}

TEST(HubNames, FilesAreRelativeAndPlain) {
  for (const char* path : {"config.json", "a/b/c.json", "with space.txt", "..a", "a..b", "...", "\xC3\xA4.txt"}) {
    EXPECT_TRUE(is_safe_path(path)) << path;
  }
  for (const std::string& path :
       {std::string(""), std::string("/etc/passwd"), std::string("../x"), std::string("a/../b"), std::string("a/.."),
        std::string("."), std::string("a/./b"), std::string("a//b"), std::string("a/"), std::string("a\\b"),
        std::string("a\nb"), std::string("a\0b", 3), std::string(256, 'a'), std::string("\x7F")}) {
    EXPECT_FALSE(is_safe_path(path)) << path;
  }
  std::string deep = "a";
  for (int i = 0; i < 15; ++i) deep += "/a";
  EXPECT_TRUE(is_safe_path(deep));
  EXPECT_FALSE(is_safe_path(deep + "/a"));
}

TEST(HubNames, EtagsAreHashesOrNothing) {
  const std::string sha1(40, 'a'), sha256(64, 'b');
  EXPECT_EQ(parse_etag("\"" + sha1 + "\"")->kind, EtagKind::kGitBlob);
  EXPECT_EQ(parse_etag("W/\"" + sha1 + "\"")->hex, sha1);
  EXPECT_EQ(parse_etag(sha256)->kind, EtagKind::kSha256);
  EXPECT_EQ(parse_etag(std::string(64, 'B'))->hex, sha256);
  for (const std::string& tag : {std::string(), std::string("\"\""), std::string("../../x"), std::string(39, 'a'),
                                 std::string(40, 'g'), std::string(32, 'a') + "-5", std::string("\"") + sha1}) {
    EXPECT_FALSE(parse_etag(tag)) << tag;
  }
}

TEST(HubNames, EscapesForUrls) {
  EXPECT_EQ(url_path("a b/c#d?e%"), "a%20b/c%23d%3Fe%25");
  EXPECT_EQ(url_segment("refs/pr/1"), "refs%2Fpr%2F1");
  EXPECT_EQ(url_path("\xC3\xA4"), "%C3%A4");
}

// The values are those of `git hash-object` and of FIPS 180's example.
TEST(HubDigest, IsGitsAndSha256) {
  Digest empty(EtagKind::kGitBlob, 0);
  EXPECT_EQ(empty.finish(), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  Digest hello(EtagKind::kGitBlob, 12);
  hello.update("hello ");
  hello.update("world\n");
  EXPECT_EQ(hello.finish(), "3b18e512dba79e4c8300dd08aeb37f8e728b8dad");
  Digest abc(EtagKind::kSha256, 3);
  abc.update("abc");
  EXPECT_EQ(abc.finish(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

std::string list_error(const std::string& body) {
  try {
    parse_repo_info(body, "org/model@main");
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

constexpr const char* kSha = "\"sha\":\"0123456789abcdef0123456789abcdef01234567\"";

TEST(HubFileList, ReadsNamesAndCommit) {
  const RepoInfo info = parse_repo_info(
      "{" + std::string(kSha) +
          R"(,"siblings":[{"rfilename":"a.json","size":3},{"rfilename":"b/c"},{"rfilename":"a.json"}]})",
      "x");
  EXPECT_EQ(info.commit, "0123456789abcdef0123456789abcdef01234567");
  EXPECT_THAT(info.files, ElementsAre("a.json", "b/c"));
}

TEST(HubFileList, RefusesHostileLists) {
  const std::string begin = "{" + std::string(kSha) + ",\"siblings\":";
  EXPECT_THAT(list_error(begin + R"([{"rfilename":"../../.bashrc"}]})"), HasSubstr("no plain relative path"));
  EXPECT_THAT(list_error(begin + R"([{"rfilename":"/etc/passwd"}]})"), HasSubstr("no plain relative path"));
  EXPECT_THAT(list_error(begin + R"([{"rfilename":"a/b"},{"rfilename":"a"}]})"), HasSubstr("below a file"));
  EXPECT_THAT(list_error(begin + "[{\"rfilename\":7}]}"), HasSubstr("rfilename"));
  EXPECT_THAT(list_error(begin + "[7]}"), HasSubstr("object"));
  EXPECT_THAT(list_error(begin + "{}}"), HasSubstr("siblings"));
  EXPECT_THAT(list_error("{" + std::string(kSha) + "}"), HasSubstr("siblings"));
  EXPECT_THAT(list_error(R"({"sha":"../../x","siblings":[]})"), HasSubstr("sha"));
  EXPECT_THAT(list_error("<html>"), HasSubstr("org/model@main"));
}

TEST(HubFileList, TakesWhatAnEngineNeeds) {
  EXPECT_THAT(engine_files({".gitattributes", "README.md", "additional_chat_templates/tool_use.jinja",
                            "additional_chat_templates/x.py", "config.json", "consolidated.safetensors", "model.gguf",
                            "model.safetensors.index.json", "model-00001-of-00002.safetensors",
                            "onnx/model.safetensors", "pytorch_model.bin", "tokenizer.json"}),
              ElementsAre("README.md", "additional_chat_templates/tool_use.jinja", "config.json",
                          "model.safetensors.index.json", "model-00001-of-00002.safetensors", "tokenizer.json"));
  EXPECT_THAT(engine_files({"consolidated.safetensors"}), ElementsAre("consolidated.safetensors"));
}

}  // namespace
}  // namespace ashlar::hub
