// SPDX-License-Identifier: Apache-2.0
#include "app/serve/request_log.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "app/serve/record_writer.h"
#include "base/error.h"
#include "io/json.h"

namespace ashlar {
namespace {

constexpr int kApplicationId = 0x41736872;  // "Ashr": SQLite's mark of the program that a file belongs to

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS requests ("
    " time TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')), id TEXT, api TEXT, model TEXT, peer TEXT,"
    " status INTEGER, stream INTEGER, answers INTEGER, prompt_tokens INTEGER, cached_tokens INTEGER,"
    " completion_tokens INTEGER, drafted INTEGER, accepted INTEGER, verify_steps INTEGER,"
    " queue_s REAL, first_token_s REAL, total_s REAL, finish TEXT, error TEXT, prompts TEXT, answers_text TEXT,"
    " user TEXT)";

// The statement that writes a row. Files from before users were kept have no column for them.
int prepare_insert(sqlite3* database, bool with_user, sqlite3_stmt** out) {
  const std::string statement =
      "INSERT INTO requests (id, api, model, peer, status, stream, answers, prompt_tokens, cached_tokens,"
      " completion_tokens, drafted, accepted, verify_steps, queue_s, first_token_s, total_s, finish, error, prompts,"
      " answers_text" +
      std::string(with_user ? ", user" : "") + ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?" +
      (with_user ? ",?)" : ")");
  return sqlite3_prepare_v2(database, statement.c_str(), -1, out, nullptr);
}

[[noreturn]] void fail(const std::string& file, const std::string& why) {
  throw Error("request-log", file + ": " + why + "; expected a file that can be written, or none yet");
}

// The only number of a query's result; -1 if there is none.
int64_t number_of(sqlite3* database, const char* query) {
  sqlite3_stmt* statement = nullptr;
  int64_t out = -1;
  if (sqlite3_prepare_v2(database, query, -1, &statement, nullptr) == SQLITE_OK &&
      sqlite3_step(statement) == SQLITE_ROW) {
    out = sqlite3_column_int64(statement, 0);
  }
  sqlite3_finalize(statement);
  return out;
}

bool has_user(sqlite3* database) {
  return number_of(database, "SELECT count(*) FROM pragma_table_info('requests') WHERE name = 'user'") > 0;
}

void refuse_foreign(sqlite3* database, const std::string& file) {
  const int64_t owner = number_of(database, "PRAGMA application_id");
  const bool foreign = owner > 0
                           ? owner != kApplicationId
                           : number_of(database, "SELECT count(*) FROM sqlite_master WHERE name <> 'requests'") > 0;
  if (!foreign) return;
  throw Error("request-log", file + ": is a database of another program; expected one of ashlar's, or none yet");
}

// SQLite's name for a file that is only looked at: without locks, and without the files that it else makes next to it.
std::string uri_to_look_at(const std::string& file) {
  std::string uri = "file:";
  for (const char c : std::filesystem::absolute(file).string()) {
    constexpr char kDigits[] = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    if (c == '%' || c == '?' || c == '#') {
      uri += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    } else {
      uri += c;
    }
  }
  return uri + "?mode=ro&immutable=1";
}

std::string list(const std::vector<std::string>& texts) {
  return Json(texts).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

void check_request_log_file(const std::string& file) {
  namespace fs = std::filesystem;
  std::error_code failed;
  const fs::file_status status = fs::status(file, failed);
  if (!fs::exists(status)) return;
  if (!fs::is_regular_file(status)) fail(file, "is no regular file");
  if (fs::file_size(file, failed) == 0) return;
  sqlite3* opened = nullptr;
  const int code =
      sqlite3_open_v2(uri_to_look_at(file).c_str(), &opened, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, nullptr);
  const std::unique_ptr<sqlite3, int (*)(sqlite3*)> database(opened, sqlite3_close);
  const auto check = [&](int result) {
    if (result != SQLITE_OK) fail(file, opened == nullptr ? "out of memory" : sqlite3_errmsg(opened));
  };
  check(code);
  check(sqlite3_exec(opened, "SELECT count(*) FROM sqlite_master", nullptr, nullptr, nullptr));
  refuse_foreign(opened, file);
  if (number_of(opened, "SELECT count(*) FROM sqlite_master WHERE name = 'requests'") < 1) return;
  sqlite3_stmt* insert = nullptr;
  const int fits = prepare_insert(opened, has_user(opened), &insert);
  sqlite3_finalize(insert);
  check(fits);
}

struct RequestLog::Impl {
  Impl(const std::string& file, bool with_texts, std::function<void(const std::string&)> report) : texts(with_texts) {
    // SQLite would make it readable for everybody; the files next to it take over these permissions.
    if (const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600); fd >= 0) ::close(fd);
    const auto check = [&](int code) {
      if (code == SQLITE_OK) return;
      const std::string why = database == nullptr ? "out of memory" : sqlite3_errmsg(database);
      close();
      fail(file, why);
    };
    check(sqlite3_open(file.c_str(), &database));
    sqlite3_busy_timeout(database, 5000);
    try {
      refuse_foreign(database, file);
    } catch (const Error&) {
      close();
      throw;
    }
    check(sqlite3_exec(database, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;", nullptr, nullptr, nullptr));
    check(sqlite3_exec(database, kSchema, nullptr, nullptr, nullptr));
    if (!has_user(database)) {
      check(prepare_insert(database, false, &insert));  // a table that does not fit stays as it is
      sqlite3_finalize(std::exchange(insert, nullptr));
      check(sqlite3_exec(database, "ALTER TABLE requests ADD COLUMN user TEXT", nullptr, nullptr, nullptr));
    }
    const std::string claim = "PRAGMA application_id=" + std::to_string(kApplicationId);
    check(sqlite3_exec(database, claim.c_str(), nullptr, nullptr, nullptr));
    check(prepare_insert(database, true, &insert));
    writer.emplace(
        "the request log lacks", [this](const std::deque<server::RequestRecord>& rows) { return write_all(rows); },
        std::move(report));
  }

  ~Impl() {
    writer.reset();
    close();
  }

  void close() {
    sqlite3_finalize(insert);
    sqlite3_close(database);
    insert = nullptr;
    database = nullptr;
  }

  // All or nothing.
  LostRecords write_all(const std::deque<server::RequestRecord>& rows) {
    bool good = sqlite3_exec(database, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr) == SQLITE_OK;
    for (const server::RequestRecord& row : rows) good = good && write(row);
    good = good && sqlite3_exec(database, "COMMIT", nullptr, nullptr, nullptr) == SQLITE_OK;
    if (good) return {};
    const std::string why = sqlite3_errmsg(database);
    sqlite3_exec(database, "ROLLBACK", nullptr, nullptr, nullptr);  // an error may have done so already
    return {static_cast<int64_t>(rows.size()), why};
  }

  bool write(const server::RequestRecord& r) {
    int at = 0;
    const auto text = [&](const std::string& value) {
      sqlite3_bind_text(insert, ++at, value.data(), static_cast<int>(value.size()), SQLITE_TRANSIENT);
    };
    const auto number = [&](int64_t value) { sqlite3_bind_int64(insert, ++at, value); };
    const auto real = [&](double value) { sqlite3_bind_double(insert, ++at, value); };
    for (const std::string* value : {&r.id, &r.api, &r.model, &r.peer}) text(*value);
    for (const int64_t value :
         {int64_t{r.status}, int64_t{r.stream}, int64_t{r.answers}, int64_t{r.usage.prompt_tokens},
          int64_t{r.usage.cached_tokens}, int64_t{r.usage.completion_tokens}, int64_t{r.drafted}, int64_t{r.accepted},
          int64_t{r.verify_steps}}) {
      number(value);
    }
    for (const double value : {r.queue_s, r.first_token_s, r.total_s}) real(value);
    text(r.finish);
    text(r.error);
    if (texts) {
      text(list(r.prompts));
      text(list(r.texts));
    } else {
      sqlite3_bind_null(insert, ++at);
      sqlite3_bind_null(insert, ++at);
    }
    text(r.user);
    const bool done = sqlite3_step(insert) == SQLITE_DONE;
    sqlite3_reset(insert);
    return done;
  }

  const bool texts;
  sqlite3* database = nullptr;  // the writer's, once there is one
  sqlite3_stmt* insert = nullptr;
  std::optional<RecordWriter<server::RequestRecord>> writer;
};

RequestLog::RequestLog(const std::string& file, bool texts, std::function<void(const std::string&)> on_loss)
    : impl_(std::make_unique<Impl>(file, texts, std::move(on_loss))) {}
RequestLog::~RequestLog() = default;

void RequestLog::add(const server::RequestRecord& record) {
  size_t bytes = sizeof(record);
  for (const auto* texts : {&record.prompts, &record.texts}) {
    for (const std::string& text : *texts) bytes += text.size();
  }
  server::RequestRecord row = record;
  row.tokens.reset();  // which no column takes, and which would not be counted
  impl_->writer->add(std::move(row), bytes);
}

}  // namespace ashlar
