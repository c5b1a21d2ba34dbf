// SPDX-License-Identifier: Apache-2.0
// A server that goes over to other drafters while it is asked. What trains them is played by a script.

#include "app/serve/idle_learning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "app/serve/server_program.h"
#include "base/error.h"
#include "io/durable_folder.h"
#include "io/mapped_file.h"
#include "temp_folder.h"
#include "unit/server/http/http_test_client.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const fs::path kModels = fs::path(ASHLAR_SOURCE_DIR) / "models";

class IdleLearningTest : public testing::Test {
 protected:
  ServeOptions options(const std::string& script) {
    ServeOptions options;
    options.session.model = (kModels / "pebble-11m").string();
    options.session.max_context = 256;
    options.session.device_options.threads = 1;
    options.session.dflash.width = 8;  // drafts in every step, however busy the machine is
    options.session.ngram = NgramUse::kNever;
    options.session.quiet = true;
    options.http.port = 0;
    options.log.level = "error";
    options.learn = traffic_;
    options.learn_idle = true;
    options.learn_policy.new_answers = 4;
    options.learn_policy.new_share = 0;
    options.learn_policy.begins_after = options.learn_policy.goes_on_after = std::chrono::milliseconds(20);
    options.learn_policy.pause = std::chrono::nanoseconds(0);
    const fs::path file = folder_.write("calibrates", script);
    options.learn_program = {"/bin/sh", file.string()};
    return options;
  }
  std::string ask(const std::string& path, const std::string& body = "") {
    server::TestClient client(program_->port());
    EXPECT_TRUE(client.send((body.empty() ? "GET " : "POST ") + path +
                            " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " + std::to_string(body.size()) +
                            "\r\n\r\n" + body));
    const server::ClientResponse response = client.read(false, 60'000);
    EXPECT_EQ(response.status, 200) << response.body;
    return response.body;
  }
  // The tokens of four answers, of which two are sampled.
  std::string answers() {
    std::string out;
    for (const char* temperature : {"0", "0.9"}) {
      const std::string body =
          ask("/v1/completions", std::string(R"({"prompt":"Count: 1, 2, 3,","max_tokens":12,"n":2,)") +
                                     R"("seed":7,"return_token_ids":true,"temperature":)" + temperature + "}");
      const Json answer = Json::parse(body);
      for (const Json& choice : answer["choices"]) out += choice["token_ids"].dump() + "\n";
    }
    return out;
  }
  double metric(const std::string& name) {
    const std::string page = ask("/metrics");
    const size_t at = page.find("\n" + name + "{");
    return at == std::string::npos ? -1 : std::stod(page.substr(page.find("} ", at) + 2));
  }
  // Asks on and on, with pauses in which a drafter can be replaced.
  template <typename Condition>
  bool ask_until(const Condition& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(150);
    const std::string expected = answers();
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      usleep(500'000);
      EXPECT_EQ(answers(), expected);
    }
    EXPECT_EQ(answers(), expected);
    return true;
  }

  const TempFolder folder_;
  const fs::path traffic_ = folder_ / "traffic", learnt_ = traffic_ / "drafter";
  std::optional<ServerProgram> program_;
};

// The first that wins is a drafter, the next ones are damaged in ways that show when they are loaded, and when they
// draft. Answers stay the same throughout, and each damaged one makes room for the one before.
TEST_F(IdleLearningTest, UsesABetterDrafterAndComesBackFromADamagedOne) {
  const std::string drafter = (kModels / "pebble-11m-dflash").string();
  const std::string script = "cd " + folder_.path().string() + R"(
    n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) >count
    echo "$@" >arguments
    rm -rf new; cp -r )" + drafter +
                             R"( new; chmod -R u+w new
    [ $n = 1 ] && truncate -s 1000 new/model.safetensors
    [ $n = 2 ] && dd if=/dev/zero of=new/model.safetensors bs=1000 seek=100 count=3700 conv=notrunc 2>/dev/null
    if [ -e traffic/drafter ]; then rm -rf traffic/drafter.previous; mv traffic/drafter traffic/drafter.previous
      touch traffic/drafter.previous/.ashlar-replaced; fi
    mv new traffic/drafter
    [ $n -gt 2 ] && exit 1
    echo '{"won":true,"gain":0.25}')";
  program_.emplace(options(script));
  ASSERT_TRUE(ask_until([&] { return metric("ashlar:drafters_replaced_total") == 1; }));
  EXPECT_EQ(metric("ashlar:drafter_gain_tokens_per_step"), 0.25);
  EXPECT_THAT(ask("/stats"), HasSubstr("pebble-11m with drafter, "));
  EXPECT_GT(metric("vllm:spec_decode_num_accepted_tokens_total"), 0);
  std::ifstream arguments(folder_ / "arguments");
  std::string line;
  std::getline(arguments, line);
  EXPECT_EQ(line, "calibrate " + (kModels / "pebble-11m").string() + " --learn " + traffic_.string() + " --drafter " +
                      drafter + " --device cpu --threads 1 --json");

  ASSERT_TRUE(ask_until([&] { return metric("ashlar:drafter_trainings_total") >= 4; }));
  EXPECT_EQ(metric("ashlar:drafters_replaced_total"), 1);
  EXPECT_TRUE(fs::exists(DurableFolder::rejected(learnt_)));
  const double accepted = metric("vllm:spec_decode_num_accepted_tokens_total");
  const auto drafts = [&] { return metric("vllm:spec_decode_num_accepted_tokens_total") > accepted; };
  EXPECT_TRUE(ask_until(drafts));  // there is one again
}

// One that won and was never tried, cut off or all zeros: the server starts with the one before it, or with the one
// that it was asked for.
TEST_F(IdleLearningTest, StartsWithoutADamagedDrafter) {
  const fs::path previous = DurableFolder::previous(learnt_);
  for (const auto& [replaced, blind] : {std::pair{false, false}, {true, false}, {false, true}, {true, true}}) {
    fs::create_directories(traffic_);
    for (const fs::path& folder : {learnt_, previous}) {
      if (folder == previous && !replaced) continue;
      fs::copy(kModels / "pebble-11m-dflash", folder);
      fs::permissions(folder / "model.safetensors", fs::perms::owner_write, fs::perm_options::add);
    }
    if (blind) {
      std::fstream weights(learnt_ / "model.safetensors", std::ios::binary | std::ios::in | std::ios::out);
      weights.seekp(100'000) << std::string(3'700'000, '\0');
    } else {
      fs::resize_file(learnt_ / "model.safetensors", 1000);
    }
    if (replaced) std::ofstream(previous / DurableFolder::kMark);
    const std::string damaged = read_text_file(learnt_ / "model.safetensors", 1 << 24);
    program_.emplace(options("exit 1"));
    answers();
    EXPECT_GT(metric("vllm:spec_decode_num_accepted_tokens_total"), 0);
    EXPECT_TRUE(read_text_file(DurableFolder::rejected(learnt_) / "model.safetensors", 1 << 24) == damaged);
    EXPECT_EQ(fs::exists(learnt_), replaced);
    program_.reset();
    fs::remove_all(traffic_);
  }
  // Where the one before it is damaged, too, what was set aside stays, and so does that.
  fs::create_directories(traffic_);
  for (const auto& [folder, size] : {std::pair{learnt_, 1000}, {previous, 2000}}) {
    fs::copy(kModels / "pebble-11m-dflash", folder);
    fs::permissions(folder / "model.safetensors", fs::perms::owner_write, fs::perm_options::add);
    fs::resize_file(folder / "model.safetensors", static_cast<uintmax_t>(size));
  }
  std::ofstream(previous / DurableFolder::kMark);
  program_.emplace(options("exit 1"));
  answers();
  EXPECT_GT(metric("vllm:spec_decode_num_accepted_tokens_total"), 0);  // of the one it was asked for
  EXPECT_EQ(fs::file_size(DurableFolder::rejected(learnt_) / "model.safetensors"), 1000u);
  EXPECT_EQ(fs::file_size(learnt_ / "model.safetensors"), 2000u);
  program_.reset();
  fs::remove_all(traffic_);
  fs::create_directories(traffic_);
  fs::copy(kModels / "pebble-11m-dflash", learnt_);
  ServeOptions wrong = options("");
  wrong.session.model = (folder_ / "none").string();
  EXPECT_ANY_THROW(ServerProgram program(wrong));
  EXPECT_TRUE(fs::exists(learnt_));  // which is not at fault
}

// Without a drafter, or with one in a form that is not trained, the server says so and does not start.
TEST_F(IdleLearningTest, RefusesWhatIsNotTrained) {
  const auto error = [](const ServeOptions& options) -> std::string {
    try {
      ServerProgram program(options);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  ServeOptions wrong = options("");
  wrong.session.drafter = "none";
  EXPECT_THAT(error(wrong), HasSubstr("--drafter none asks for none"));
  wrong = options("");
  wrong.session.model = (kModels / "pebble-11m-sdar").string();
  EXPECT_THAT(error(wrong), HasSubstr("is served without a drafter"));
  fs::create_directories(learnt_);
  std::ofstream(learnt_ / "notes.txt") << "mine";
  EXPECT_THAT(error(options("")), HasSubstr("holds files that are no drafter"));
}

// A training that runs, or is stopped for a request, ends with the server.
TEST_F(IdleLearningTest, EndsATrainingWithTheServer) {
  for (const bool stopped : {false, true}) {
    fs::remove(folder_ / "id");
    program_.emplace(options("echo $$ >" + (folder_ / "id").string() + "; sleep 1000"));
    answers();
    pid_t id = 0;
    for (int i = 0; i < 1000 && !(std::ifstream(folder_ / "id") >> id); ++i) usleep(10'000);
    ASSERT_GT(id, 0);
    if (stopped) {
      answers();
      answers();
    }
    EXPECT_TRUE(program_->drain([] { return false; }));
    program_.reset();
    EXPECT_FALSE(fs::exists("/proc/" + std::to_string(id)));
  }
}

TEST_F(IdleLearningTest, StopsTheTrainingWhileRequestsRun) {
  // One process: a shell that waits for a program which it has just begun, and which is stopped, is not stopped itself.
  program_.emplace(options("echo $$ >" + (folder_ / "id").string() + "; exec sleep 1000"));
  answers();
  pid_t id = 0;
  for (int i = 0; i < 1000 && !(std::ifstream(folder_ / "id") >> id); ++i) usleep(10'000);
  ASSERT_GT(id, 0);
  const auto comes_to = [&](bool stopped) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < deadline) {
      std::ifstream file("/proc/" + std::to_string(id) + "/stat");
      const std::string text(std::istreambuf_iterator<char>(file), {});
      if (text.empty()) return false;
      if ((text[text.rfind(')') + 2] == 'T') == stopped) return true;
      usleep(1000);
    }
    return false;
  };
  EXPECT_TRUE(comes_to(false));
  std::atomic<bool> over{false};
  std::thread asks([&] {
    while (!over) answers();
  });
  EXPECT_TRUE(comes_to(true));
  over = true;
  asks.join();
  EXPECT_TRUE(comes_to(false));
}

TEST(RoomToLearn, IsMissedInADevicesOwnMemoryAlone) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  MemorySituation calibration;
  calibration.plan.layout.add_paged("target", kPageTokens * 1024);
  calibration.needs.weights = 3 * kGiB;
  calibration.wishes.positions = 4096;
  calibration.available.bytes = 3 * kGiB + (1 << 20);  // the weights alone would fit
  EXPECT_EQ(warning_about_room(calibration), "");
  calibration.available.owner = "the GPU";
  EXPECT_THAT(warning_about_room(calibration), HasSubstr(", and 3.00 GiB of the GPU's memory are free"));
  calibration.available.bytes = 4 * kGiB;
  EXPECT_EQ(warning_about_room(calibration), "");
}

}  // namespace
}  // namespace ashlar
