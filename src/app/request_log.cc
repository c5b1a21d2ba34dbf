#include "app/request_log.h"

#include <sqlite3.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "io/json.h"

namespace ashlar {
namespace {

constexpr size_t kMaxQueued = 10'000;

constexpr const char* kSchema =
    "CREATE TABLE IF NOT EXISTS requests ("
    " time TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ','now')), id TEXT, api TEXT, model TEXT, peer TEXT,"
    " status INTEGER, stream INTEGER, answers INTEGER, prompt_tokens INTEGER, cached_tokens INTEGER,"
    " completion_tokens INTEGER, drafted INTEGER, accepted INTEGER, verify_steps INTEGER,"
    " queue_s REAL, first_token_s REAL, total_s REAL, finish TEXT, error TEXT, prompts TEXT, answers_text TEXT)";
constexpr const char* kInsert =
    "INSERT INTO requests (id, api, model, peer, status, stream, answers, prompt_tokens, cached_tokens,"
    " completion_tokens, drafted, accepted, verify_steps, queue_s, first_token_s, total_s, finish, error, prompts,"
    " answers_text) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)";

std::string list(const std::vector<std::string>& texts) {
  return Json(texts).dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

struct RequestLog::Impl {
  Impl(const std::string& file, bool with_texts) : texts(with_texts) {
    const auto check = [&](int code) {
      if (code == SQLITE_OK) return;
      const std::string why = database == nullptr ? "out of memory" : sqlite3_errmsg(database);
      close();
      throw Error("request-log", file + ": " + why + "; expected a file that can be written, or none yet");
    };
    check(sqlite3_open(file.c_str(), &database));
    sqlite3_busy_timeout(database, 5000);
    check(sqlite3_exec(database, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;", nullptr, nullptr, nullptr));
    check(sqlite3_exec(database, kSchema, nullptr, nullptr, nullptr));
    check(sqlite3_prepare_v2(database, kInsert, -1, &insert, nullptr));
    thread = std::thread([this] { run(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      stop = true;
    }
    ready.notify_all();
    if (thread.joinable()) thread.join();
    close();
  }

  void close() {
    sqlite3_finalize(insert);
    sqlite3_close(database);
    insert = nullptr;
    database = nullptr;
  }

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      ready.wait(lock, [this] { return stop || !queue.empty(); });
      if (queue.empty()) return;
      std::deque<server::RequestRecord> rows;
      rows.swap(queue);
      lock.unlock();
      sqlite3_exec(database, "BEGIN", nullptr, nullptr, nullptr);
      for (const server::RequestRecord& row : rows) write(row);
      sqlite3_exec(database, "COMMIT", nullptr, nullptr, nullptr);
      lock.lock();
    }
  }

  void write(const server::RequestRecord& r) {
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
    sqlite3_step(insert);
    sqlite3_reset(insert);
  }

  const bool texts;
  sqlite3* database = nullptr;
  sqlite3_stmt* insert = nullptr;
  std::mutex mutex;
  std::condition_variable ready;
  std::deque<server::RequestRecord> queue;
  bool stop = false;
  std::thread thread;
};

RequestLog::RequestLog(const std::string& file, bool texts) : impl_(std::make_unique<Impl>(file, texts)) {}
RequestLog::~RequestLog() = default;

void RequestLog::add(const server::RequestRecord& record) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->queue.size() >= kMaxQueued) return;
    impl_->queue.push_back(record);
  }
  impl_->ready.notify_one();
}

}  // namespace ashlar
