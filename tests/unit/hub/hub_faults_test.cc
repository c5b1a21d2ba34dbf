// SPDX-License-Identifier: Apache-2.0
// A hub that drops, lies, refuses and attacks.

#include "unit/hub/pull_fixture.h"

namespace ashlar::hub {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST_F(HubPull, SurvivesDroppedConnections) {
  hub_.mischief = [&](const std::string& file, int nth, const ServedRequest& request, ServedConnection& client) {
    if (file != "model.safetensors" || nth >= 3) return false;
    const std::string& whole = hub_.files[file].content;
    const size_t from = nth == 0 ? 0 : std::stoul(request.headers.at("range").substr(6));
    EXPECT_EQ(from, 70'000u * nth);
    client.send((nth == 0 ? "HTTP/1.1 200 OK\r\n"
                          : "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + std::to_string(from) +
                                "-299999/300000\r\n") +
                ("Content-Length: " + std::to_string(whole.size() - from) + "\r\n\r\n") + whole.substr(from, 70'000));
    client.drop();
    return true;
  };
  pull({"org/model", "main"}, options_);
  expect_all_there();
  EXPECT_EQ(hub_.gets("model.safetensors"), 4);
}

TEST_F(HubPull, TellsOfEachWait) {
  hub_.mischief = [&](const std::string& file, int nth, const ServedRequest&, ServedConnection& client) {
    if (file != "config.json" || nth >= 2) return false;
    return client.answer("503 Service Unavailable", "", "");
  };
  std::mutex mutex;
  std::vector<std::string> reported;
  options_.retry.on_wait = [&](double seconds, const std::string& why) {
    const std::lock_guard lock(mutex);
    EXPECT_GT(seconds, 0);
    reported.push_back(why);
  };
  pull({"org/model", "main"}, options_);
  ASSERT_EQ(reported.size(), 2U);
  EXPECT_THAT(reported[0], AllOf(HasSubstr("config.json"), HasSubstr("503")));
}

TEST_F(HubPull, GivesUpOnAConnectionThatAlwaysDropsAndKeepsWhatCame) {
  std::atomic<bool> dropping{true};
  hub_.mischief = [&](const std::string& file, int nth, const ServedRequest&, ServedConnection& client) {
    if (!dropping || file != "model.safetensors") return false;
    if (nth == 0) {
      client.send("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + hub_.files[file].content.substr(0, 1000));
    }
    client.drop();
    return true;
  };
  EXPECT_THAT(error_of_pull(), AllOf(HasSubstr("model.safetensors"), HasSubstr("is kept, pull again to go on")));
  EXPECT_EQ(hub_.gets("model.safetensors"), 4);
  EXPECT_EQ(fs::file_size(blob_of("model.safetensors").string() + ".incomplete"), 1000u);
  EXPECT_FALSE(fs::exists(repo() / "refs" / "main")) << "a half pull must not look whole";
  dropping = false;
  EXPECT_EQ(pull({"org/model", "main"}, options_).snapshot, snapshot());
  expect_all_there();
}

TEST_F(HubPull, AServerThatIgnoresRangesSendsAllAgain) {
  hub_.mischief = [&](const std::string& file, int nth, const ServedRequest&, ServedConnection& client) {
    if (file != "model.safetensors") return false;
    const std::string& whole = hub_.files[file].content;
    if (nth > 0) return client.answer("200 OK", "", whole);
    client.send("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + whole.substr(0, 123'456));
    client.drop();
    return true;
  };
  pull({"org/model", "main"}, options_);
  expect_all_there();
}

TEST_F(HubPull, AnotherRangeThanAskedForIsNotTaken) {
  write(blob_of("model.safetensors").string() + ".incomplete", hub_.files["model.safetensors"].content.substr(0, 5000));
  hub_.mischief = [&](const std::string& file, int nth, const ServedRequest&, ServedConnection& client) {
    if (file != "model.safetensors" || nth > 0) return false;
    return client.answer("206 Partial Content", "Content-Range: bytes 4000-299999/300000\r\n",
                         hub_.files[file].content.substr(4000));
  };
  pull({"org/model", "main"}, options_);
  expect_all_there();
}

TEST_F(HubPull, AnUnsatisfiableRangeBeginsAnew) {
  write(blob_of("model.safetensors").string() + ".incomplete", hub_.files["model.safetensors"].content.substr(0, 5000));
  hub_.mischief = [&](const std::string& file, int nth, const ServedRequest&, ServedConnection& client) {
    return file == "model.safetensors" && nth == 0 && client.answer("416 Range Not Satisfiable", "", "");
  };
  pull({"org/model", "main"}, options_);
  expect_all_there();
}

TEST_F(HubPull, WhatASendingAnewWouldThrowAwayIsNotCalledKept) {
  hub_.mischief = [&](const std::string& file, int, const ServedRequest&, ServedConnection& client) {
    if (file != "model.safetensors") return false;
    client.send("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + hub_.files[file].content.substr(0, 123'456));
    client.drop();
    return true;
  };
  EXPECT_THAT(error_of_pull(), AllOf(HasSubstr("sends files only as a whole"), Not(HasSubstr("is kept"))));
}

TEST_F(HubPull, LengthsThatAreLiesAreErrors) {
  std::mutex mutex;
  std::vector<std::string> reported;
  options_.retry.on_wait = [&](double, const std::string& why) {
    const std::lock_guard lock(mutex);
    reported.push_back(why);
  };
  hub_.announced["model.safetensors"] = 400'000;  // the server ends each answer properly, but too early
  EXPECT_THAT(error_of_pull(), HasSubstr("model.safetensors"));
  ASSERT_FALSE(reported.empty());
  for (const std::string& why : reported) EXPECT_THAT(why, HasSubstr("ended it after 300000 of 400000 bytes"));
  reported.clear();
  hub_.mischief = [](const std::string&, int, const ServedRequest& request, ServedConnection& client) {
    const auto range = request.headers.find("range");
    return range != request.headers.end() && range->second == "bytes=300000-" &&
           client.answer("416 Range Not Satisfiable", "", "");
  };
  EXPECT_THAT(error_of_pull(), HasSubstr("announced 400000 bytes and has none from byte 300000 on"));
  EXPECT_THAT(reported, Contains(HasSubstr("announced 400000 bytes")));
  hub_.mischief = {};
  hub_.announced["model.safetensors"] = 200'000;
  EXPECT_THAT(error_of_pull(), AllOf(HasSubstr("sends more than the 200000 bytes"),
                                     HasSubstr("nothing of this file is kept"), Not(HasSubstr("go on"))));
  hub_.announced["model.safetensors"] = int64_t{1} << 52;
  EXPECT_THAT(error_of_pull(), HasSubstr("are free"));
  EXPECT_FALSE(fs::exists(snapshot() / "model.safetensors"));
}

// 2048 times 2^53 is 2^64.
TEST_F(HubPull, SizesWhoseSumWrapsAreRefused) {
  for (int i = 0; i < 2048; ++i) {
    const std::string name = "model-" + std::to_string(i) + ".safetensors";
    hub_.files[name] = {"x", true};
    hub_.announced[name] = int64_t{1} << 53;
  }
  EXPECT_THAT(error_of_pull(), AllOf(HasSubstr("org/model"), HasSubstr("more than 9 billion GB")));
}

// Two bytes a second would go on for years. What came is kept, and the next pull goes on from there.
TEST_F(HubPull, AConnectionThatBringsNextToNothingIsGivenUp) {
  options_.settings.min_rate = 1000;
  options_.settings.patience_s = 1;
  options_.retry.attempts = 1;
  hub_.mischief = [&](const std::string& file, int, const ServedRequest&, ServedConnection& client) {
    if (file != "model.safetensors") return false;
    const std::string& content = hub_.files[file].content;
    bool open = client.send("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + content.substr(0, 100'000));
    for (size_t at = 100'000; open && at < 100'100; ++at) {
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
      open = client.send(content.substr(at, 1));
    }
    client.drop();
    return true;
  };
  EXPECT_THAT(error_of_pull(), AllOf(HasSubstr("model.safetensors"), HasSubstr("too slow"), HasSubstr("1000 bytes/sec"),
                                     HasSubstr("what was fetched is kept, pull again to go on")));
  hub_.mischief = {};
  EXPECT_EQ(error_of_pull(), "no error");
  expect_all_there();
}

// curl sends it as the URL says; it is shown nowhere.
TEST_F(HubPull, APasswordInTheEndpointIsNotInMessages) {
  options_.settings.endpoint = "http://me:secret@" + hub_.url().substr(7);
  EXPECT_EQ(error_of_pull(), "no error");
  EXPECT_TRUE(hub_.seen().front().headers.contains("authorization"));
  EXPECT_THAT(error_of_pull("org/other"), AllOf(HasSubstr(hub_.url()), Not(HasSubstr("secret"))));
}

TEST_F(HubPull, AWrongContentIsNeverPutInPlace) {
  for (const char* file : {"model.safetensors", "tokenizer.json"}) {
    fs::remove_all(repo());
    hub_.mischief = [&](const std::string& asked, int, const ServedRequest&, ServedConnection& client) {
      if (asked != file) return false;
      std::string wrong = hub_.files[file].content;
      wrong[7] ^= 1;
      return client.answer("200 OK", "", wrong);
    };
    EXPECT_THAT(error_of_pull(), AllOf(HasSubstr(file), HasSubstr("ETag")));
    EXPECT_FALSE(fs::exists(blob_of(file)));
    EXPECT_FALSE(fs::exists(snapshot() / file));
  }
}

TEST_F(HubPull, AMirrorWithoutDigestsIsCheckedByLength) {
  for (const char* tag : {"../../../../evil", "d41d8cd98f00b204e9800998ecf8427e-5", ""}) {
    fs::remove_all(repo());
    hub_.etags["config.json"] = tag;
    hub_.mischief = nullptr;
    const PullResult result = pull({"org/model", "main"}, options_);
    EXPECT_EQ(result.unchecked, 1) << tag;
    expect_all_there();
    EXPECT_EQ(fs::read_symlink(snapshot() / "config.json").parent_path(), fs::path("../../blobs")) << tag;
    EXPECT_EQ(pull({"org/model", "main"}, options_).fetched, 0) << "what is there by its length is not fetched again";
    // Less or more than was announced is not taken.
    for (const int more : {-1, 1}) {
      fs::remove_all(repo());
      hub_.mischief = [&](const std::string& asked, int, const ServedRequest&, ServedConnection& client) {
        if (asked != "config.json") return false;
        const std::string& whole = hub_.files[asked].content;
        return client.answer("200 OK", "", more < 0 ? whole.substr(1) : whole + "x");
      };
      EXPECT_THAT(error_of_pull(), HasSubstr("config.json")) << tag;
      EXPECT_FALSE(fs::exists(snapshot() / "config.json"));
    }
  }
}

TEST_F(HubPull, AnUnknownHostFailsAtOnce) {
  options_.settings.endpoint = "http://no-such-host.invalid";  // which no name server knows (RFC 6761)
  int waits = 0;
  options_.retry.on_wait = [&](double, const std::string&) { ++waits; };
  EXPECT_THAT(error_of_pull(), AllOf(HasSubstr("no-such-host.invalid"), HasSubstr("check HF_ENDPOINT")));
  EXPECT_EQ(waits, 0);
  // A name that was known and is not any more is asked for again: the line is down for a moment.
  options_.settings.endpoint = hub_.url();
  hub_.redirect_lfs = "http://no-such-host.invalid/files";
  EXPECT_THAT(error_of_pull(), HasSubstr("no-such-host.invalid"));
  EXPECT_EQ(waits, options_.retry.attempts - 1);
}

TEST_F(HubPull, ARefusedConnectionFailsAtOnce) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);  // has a port and does not listen
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  ASSERT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), length), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string nobody = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  int waits = 0;
  options_.retry.on_wait = [&](double, const std::string&) { ++waits; };
  options_.settings.endpoint = nobody;
  EXPECT_THAT(error_of_pull(),
              AllOf(HasSubstr("Failed to connect"), HasSubstr("check HF_ENDPOINT, which is " + nobody)));
  EXPECT_EQ(waits, 0);
  // Where a hub sends us may be starting anew.
  options_.settings.endpoint = hub_.url();
  hub_.redirect_lfs = nobody + "/files";
  EXPECT_THAT(error_of_pull(), HasSubstr("Failed to connect"));
  EXPECT_EQ(waits, options_.retry.attempts - 1);
  close(fd);
}

TEST_F(HubPull, TraversalNamesStoreNothing) {
  for (const char* name : {"../../escape.safetensors", "/etc/escape.safetensors", "a/../../escape.safetensors"}) {
    hub_.listing =
        std::string("{\"sha\":\"") + FakeHub::kCommit + "\",\"siblings\":[{\"rfilename\":\"" + name + "\"}]}";
    EXPECT_THAT(error_of_pull(), HasSubstr("no plain relative path"));
  }
  EXPECT_TRUE(fs::is_empty(cache_.path()));
}

TEST_F(HubPull, LinksInTheCacheLeadNowhere) {
  const fs::path outside = cache_ / "outside";
  fs::create_directories(outside);
  fs::create_directories(snapshot());
  fs::create_directory_symlink(outside, snapshot() / "sub");
  hub_.files["sub/file.txt"] = {"escaped", false};
  options_.all_files = true;
  EXPECT_THAT(error_of_pull(), HasSubstr("is no folder"));
  EXPECT_TRUE(fs::is_empty(outside));
}

TEST_F(HubPull, TheTokenStaysWithTheEndpoint) {
  options_.settings.token = "secret";
  std::mutex mutex;
  std::vector<ServedRequest> seen;
  SocketServer other([&](const ServedRequest& request, ServedConnection& client) {
    const std::lock_guard lock(mutex);
    seen.push_back(request);
    FakeHub::send_file(hub_.files["model.safetensors"], request, client);
  });
  hub_.redirect_lfs = other.url();
  pull({"org/model", "main"}, options_);
  expect_all_there();
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_FALSE(seen[0].headers.contains("authorization"));
  for (const ServedRequest& request : hub_.seen()) EXPECT_EQ(request.headers.at("authorization"), "Bearer secret");
}

TEST_F(HubPull, RedirectsAreBounded) {
  hub_.redirect_lfs = hub_.url() + "/org/model/resolve/" + FakeHub::kCommit;  // to itself
  EXPECT_THAT(error_of_pull(), HasSubstr("redirects more than"));
  hub_.redirect_lfs = "file:///etc";
  EXPECT_THAT(error_of_pull(), HasSubstr("expected an http or https URL"));
}

TEST_F(HubPull, RefusalsSayWhatToDo) {
  std::string status = "401 Unauthorized";
  hub_.api_mischief = [&](const std::string&, int, const ServedRequest&, ServedConnection& client) {
    return client.answer(status, "X-Error-Message: Access is restricted\r\n", "{}");
  };
  EXPECT_THAT(error_of_pull(), AllOf(HasSubstr("HF_TOKEN"), HasSubstr("Access is restricted"), HasSubstr("gated")));
  status = "404 Not Found";
  EXPECT_THAT(error_of_pull(), HasSubstr("spelling"));
  EXPECT_EQ(hub_.seen().size(), 2u) << "what will not pass is not asked again";
  options_.settings.token = "secret";
  status = "403 Forbidden";
  EXPECT_THAT(error_of_pull(), AllOf(HasSubstr("accept the model's terms"), Not(HasSubstr("secret"))));
}

TEST_F(HubPull, WaitsWhenAskedTo) {
  options_.retry = {4, 0.001, 2};
  hub_.api_mischief = [&](const std::string&, int nth, const ServedRequest&, ServedConnection& client) {
    return nth == 0 && client.answer("429 Too Many Requests", "Retry-After: 1\r\n", "");
  };
  hub_.mischief = [&](const std::string& file, int nth, const ServedRequest&, ServedConnection& client) {
    return file == "config.json" && nth < 3 && client.answer("503 Service Unavailable", "", "later");
  };
  const auto start = std::chrono::steady_clock::now();
  pull({"org/model", "main"}, options_);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  expect_all_there();
}

TEST_F(HubPull, StopsWhenToldTo) {
  std::atomic<bool> stop{false};
  options_.stopped = [&] { return stop.load(); };
  hub_.mischief = [&](const std::string& file, int, const ServedRequest&, ServedConnection& client) {
    if (file != "model.safetensors") return false;
    client.send("HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + hub_.files[file].content.substr(0, 1000));
    stop = true;
    std::this_thread::sleep_for(std::chrono::seconds(2));
    client.drop();
    return true;
  };
  EXPECT_THAT(error_of_pull(), HasSubstr("was stopped"));
}

TEST_F(HubPull, NobodyListening) {
  {
    FakeHub gone;
    options_.settings.endpoint = gone.url();
  }
  EXPECT_THAT(error_of_pull(), HasSubstr("org/model@main"));
}

TEST_F(HubPull, AFolderThatIsNotOursIsAnErrorInWords) {
  write(cache_ / "file", "");
  options_.settings.cache = cache_ / "file" / "cache";  // also for root, whom permissions do not stop
  EXPECT_THAT(error_of_pull(), AllOf(HasSubstr("cannot be made"), HasSubstr("Not a directory")));
}

TEST_F(HubPull, WithoutWeightsThereIsNothingToLoad) {
  hub_.files.erase("model.safetensors");
  EXPECT_THAT(error_of_pull(), HasSubstr("no .safetensors weights"));
}

}  // namespace
}  // namespace ashlar::hub
