// SPDX-License-Identifier: Apache-2.0
#include "app/serve/request_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <sys/stat.h>

#include <fstream>
#include <map>

#include "base/error.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using Row = std::vector<std::string>;

class RequestLogTest : public testing::Test {
 protected:
  // Rows of a query, by SQLite itself; NULL reads "<null>".
  std::vector<Row> query(const std::string& sql) {
    sqlite3* database = nullptr;
    sqlite3_open(file_.c_str(), &database);
    std::vector<Row> rows;
    const auto take = [](void* out, int n, char** values, char**) {
      Row row;
      for (int i = 0; i < n; ++i) row.emplace_back(values[i] == nullptr ? "<null>" : values[i]);
      static_cast<std::vector<Row>*>(out)->push_back(row);
      return 0;
    };
    char* why = nullptr;
    sqlite3_exec(database, sql.c_str(), take, &rows, &why);
    EXPECT_EQ(why, nullptr) << why;
    sqlite3_free(why);
    sqlite3_close(database);
    return rows;
  }
  static server::RequestRecord record(const std::string& id) {
    server::RequestRecord r;
    r.id = id;
    r.api = "chat";
    r.model = "pebble";
    r.peer = "127.0.0.1";
    r.finish = "stop";
    r.user = "somebody";
    r.stream = true;
    r.answers = 2;
    r.usage.prompt_tokens = 11;
    r.usage.cached_tokens = 3;
    r.usage.completion_tokens = 7;
    r.drafted = 9;
    r.accepted = 5;
    r.verify_steps = 4;
    r.queue_s = 0.25;
    r.first_token_s = 0.5;
    r.total_s = 1.75;
    r.prompts = {"a \"question\""};
    r.texts = {"one", "two\xFF"};
    return r;
  }
  // Why a server would not log there, which its check, that changes nothing, has to predict.
  std::string error() {
    std::string predicted;
    const auto before = files();
    try {
      check_request_log_file(file_);
    } catch (const Error& error) {
      predicted = error.what();
    }
    EXPECT_EQ(files(), before);
    try {
      const RequestLog log(file_, false);
    } catch (const Error& error) {
      EXPECT_NE(predicted, "") << error.what();
      return error.what();
    }
    EXPECT_EQ(predicted, "");
    return "no error";
  }
  // Every file of the folder with its content.
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      std::ifstream file(entry.path(), std::ios::binary);
      out[entry.path()] = {std::istreambuf_iterator<char>(file), {}};
    }
    return out;
  }

  const TempFolder folder_;
  std::string file_ = (folder_ / "log.db").string();
};

TEST_F(RequestLogTest, KeepsWhatItWasTold) {
  {
    RequestLog log(file_, false);
    for (int i = 0; i < 100; ++i) log.add(record("id-" + std::to_string(i)));
  }
  EXPECT_EQ(query("SELECT count(DISTINCT id) FROM requests"), std::vector<Row>{{"100"}});
  EXPECT_EQ(
      query("SELECT api, model, peer, status, stream, answers, prompt_tokens, cached_tokens, completion_tokens,"
            " drafted, accepted, verify_steps, queue_s, first_token_s, total_s, finish, error, prompts,"
            " answers_text, user FROM requests WHERE id = 'id-42'"),
      (std::vector<Row>{{"chat", "pebble", "127.0.0.1", "200", "1",    "2",    "11", "3",      "7",      "9",
                         "5",    "4",      "0.25",      "0.5", "1.75", "stop", "",   "<null>", "<null>", "somebody"}}));
  EXPECT_EQ(query("SELECT count(*) FROM requests WHERE abs(julianday('now') - julianday(time)) < 0.01"),
            std::vector<Row>{{"100"}});
}

TEST_F(RequestLogTest, KeepsTextsOnlyIfAsked) {
  {
    RequestLog log(file_, true);
    log.add(record("x"));
  }
  EXPECT_EQ(query("SELECT prompts, answers_text FROM requests"),
            (std::vector<Row>{{R"(["a \"question\""])", "[\"one\",\"two\xEF\xBF\xBD\"]"}}));
}

TEST_F(RequestLogTest, GoesOnInAFileOfItsOwn) {
  for (const char* id : {"first", "second"}) {
    RequestLog log(file_, false);
    log.add(record(id));
  }
  EXPECT_EQ(query("SELECT id FROM requests ORDER BY rowid"), (std::vector<Row>{{"first"}, {"second"}}));
}

TEST_F(RequestLogTest, GoesOnInAFileFromBeforeUsersWereKept) {
  query(
      "CREATE TABLE requests (time TEXT NOT NULL DEFAULT 'then', id TEXT, api TEXT, model TEXT, peer TEXT,"
      " status INTEGER, stream INTEGER, answers INTEGER, prompt_tokens INTEGER, cached_tokens INTEGER,"
      " completion_tokens INTEGER, drafted INTEGER, accepted INTEGER, verify_steps INTEGER,"
      " queue_s REAL, first_token_s REAL, total_s REAL, finish TEXT, error TEXT, prompts TEXT, answers_text TEXT);"
      "INSERT INTO requests (id) VALUES ('old')");
  EXPECT_EQ(error(), "no error");
  {
    RequestLog log(file_, false);
    log.add(record("new"));
  }
  EXPECT_EQ(query("SELECT id, user FROM requests ORDER BY rowid"),
            (std::vector<Row>{{"old", "<null>"}, {"new", "somebody"}}));
}

TEST_F(RequestLogTest, IsForItsOwnerOnly) {
  const mode_t before = ::umask(0022);
  { const RequestLog log(file_, false); }
  ::umask(before);
  EXPECT_EQ(fs::status(file_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

TEST_F(RequestLogTest, RefusesWhatIsNoLogOfItsOwn) {
  std::ofstream(file_) << std::string(4096, 'x');
  EXPECT_THAT(error(), HasSubstr("not a database"));
  EXPECT_THAT(error(), HasSubstr(file_));
  fs::remove(file_);
  query("CREATE TABLE other (x)");
  EXPECT_THAT(error(), HasSubstr("another program"));
  EXPECT_EQ(query("SELECT name FROM sqlite_master"), std::vector<Row>{{"other"}});  // left as it was
  fs::remove(file_);
  query("CREATE TABLE requests (x)");
  EXPECT_THAT(error(), HasSubstr(file_));
  EXPECT_EQ(query("SELECT name FROM pragma_table_info('requests')"), std::vector<Row>{{"x"}});  // as it was
  fs::remove(file_);
  query("CREATE TABLE requests (x); PRAGMA application_id=77");
  EXPECT_THAT(error(), HasSubstr("another program"));
  file_ = folder_.path().string();
  EXPECT_THAT(error(), HasSubstr("unable to open"));
  file_ = (folder_ / "missing" / "log.db").string();  // whether a folder is there is the doctor's to look at
  EXPECT_THROW(RequestLog(file_, false), Error);
}

TEST_F(RequestLogTest, TakesWhatCanBecomeOne) {
  EXPECT_EQ(error(), "no error");
  EXPECT_EQ(error(), "no error");  // its own
  fs::remove(file_);
  std::ofstream(file_) << "";
  EXPECT_EQ(error(), "no error");
  file_ = (folder_ / "100%41?x=#1.db").string();  // no address with parameters
  EXPECT_EQ(error(), "no error");
  EXPECT_EQ(error(), "no error");
  const RequestLog open(file_, false);
  EXPECT_EQ(error(), "no error");  // a server writes to it
}

TEST_F(RequestLogTest, TellsOfRowsThatAreLost) {
  std::vector<std::string> reported;
  {
    RequestLog log(file_, false, [&reported](const std::string& message) { reported.push_back(message); });
    query("DROP TABLE requests");
    for (int i = 0; i < 3; ++i) log.add(record("x"));
  }
  // At once, and what a minute would have been waited for at the end.
  ASSERT_THAT(reported, testing::SizeIs(testing::AllOf(testing::Ge(1U), testing::Le(2U))));
  int lost = 0;
  for (const std::string& message : reported) {
    EXPECT_THAT(message, HasSubstr("no such table"));
    lost += std::stoi(message.substr(std::string("the request log lacks ").size()));
  }
  EXPECT_EQ(lost, 3);
}

}  // namespace
}  // namespace ashlar
