// SPDX-License-Identifier: Apache-2.0
#include "hub/download.h"

#include <charconv>
#include <exception>
#include <system_error>

#include "base/error.h"
#include "hub/file_lock.h"
#include "hub/partial_file.h"
#include "io/json.h"

namespace ashlar::hub {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kProgressBytes = 64 << 10;  // less than this is no progress: a server could feed us byte by byte

int64_t size_of(const fs::path& path) {
  std::error_code failed;
  const auto status = fs::symlink_status(path, failed);
  if (!fs::is_regular_file(status)) return -1;
  const auto size = fs::file_size(path, failed);
  return failed ? -1 : static_cast<int64_t>(size);
}

// The first byte of "bytes 100-199/200"; -1 if it is anything else.
int64_t range_begin(const std::string& header) {
  constexpr std::string_view kUnit = "bytes ";
  if (!header.starts_with(kUnit)) return -1;
  int64_t begin = -1;
  const char* end = header.data() + header.size();
  const auto [at, failed] = std::from_chars(header.data() + kUnit.size(), end, begin);
  return failed == std::errc() && at != end && *at == '-' ? begin : -1;
}

// One file's download under its lock.
class Download {
 public:
  Download(Transfer& transfer, const RepoCache& cache, const RemoteFile& file, const DownloadContext& context)
      : transfer_(transfer), file_(file), context_(context), partial_(cache.blob(file.etag), file.etag, file.size) {}

  int64_t run() {
    Retries retries(context_.retry, context_.stopped);
    for (int wrong = 0;;) {
      report();
      if (partial_.have() == file_.size) {
        if (partial_.finish()) return fetched_;
        // What an earlier attempt left may be at fault: once more, from the first byte.
        if (++wrong == 2) {
          throw Error("hub", name() + ": the content is not the one that its ETag " + file_.etag.hex +
                                 " names, twice; the server or a proxy on the way changes it");
        }
        continue;
      }
      const Exchange exchange = fetch();
      if (partial_.have() >= furthest_ + kProgressBytes) {
        furthest_ = partial_.have();
        retries.progress();
      }
      if (partial_.have() == file_.size) continue;
      const int64_t retry_after = exchange.reply.number("retry-after", 0);
      if (!retries.again(retry_after, name() + ": " + why_again(exchange))) give_up(exchange);
    }
  }

 private:
  std::string name() const { return for_message(file_.path); }

  void report() const {
    if (context_.progress) context_.progress(partial_.have());
  }

  // Takes the answer's bytes; false ends the exchange: the answer is not what was asked for.
  bool take(const Reply& reply, std::string_view bytes, int64_t from, bool& first) {
    if (first) {
      first = false;
      if (reply.status == 206 && range_begin(reply.header("content-range")) != from) {
        problem_ = "the server sent another range than was asked for";
        partial_.restart();
        return false;
      }
      if (reply.status != 206 && partial_.have() > 0) {  // it ignores ranges: all of it comes
        ignores_ranges_ = true;
        partial_.restart();
      }
    }
    if (static_cast<int64_t>(bytes.size()) > file_.size - partial_.have()) {
      problem_ = "the server sends more than the " + std::to_string(file_.size) + " bytes that it announced";
      partial_.restart();
      return false;
    }
    partial_.append(bytes);
    fetched_ += static_cast<int64_t>(bytes.size());
    report();
    return true;
  }

  Exchange fetch() {
    TransferRequest request;
    request.url = file_.url;
    request.from = partial_.have();
    bool first = true;
    std::exception_ptr thrown;  // may not pass through the C library
    request.sink = [&](const Reply& reply, std::string_view bytes) {
      try {
        return take(reply, bytes, request.from, first);
      } catch (...) {
        thrown = std::current_exception();
        return false;
      }
    };
    problem_.clear();
    Exchange exchange = transfer_.run(request);
    if (thrown) std::rethrow_exception(thrown);
    if (!problem_.empty()) exchange.problem = problem_;
    if (exchange.problem.empty() && exchange.reply.status / 100 == 2 && partial_.have() < file_.size) {
      exchange.problem = "the server ended it after " + std::to_string(partial_.have()) + " of " +
                         std::to_string(file_.size) + " bytes";
    }
    if (exchange.stopped && context_.stopped && context_.stopped()) throw Stopped();
    if (exchange.problem.empty() && exchange.reply.status == 416 && request.from > 0) {
      exchange.problem = "the server announced " + std::to_string(file_.size) + " bytes and has none from byte " +
                         std::to_string(request.from) + " on";
      partial_.restart();
    }
    const bool refused = exchange.problem.empty()
                             ? exchange.reply.status / 100 != 2 && !is_passing(exchange.reply.status)
                             : exchange.fatal;
    if (refused) give_up(exchange);
    return exchange;
  }

  [[noreturn]] void give_up(const Exchange& exchange) const {
    throw_refused(exchange, name(), *context_.settings,
                  partial_.have() == 0 ? "nothing of this file is kept, the next pull begins it anew"
                  : ignores_ranges_    ? "the server sends files only as a whole, so the next pull begins it anew"
                                       : "what was fetched is kept, pull again to go on");
  }

  Transfer& transfer_;
  const RemoteFile& file_;
  const DownloadContext& context_;
  PartialFile partial_;
  std::string problem_;
  bool ignores_ranges_ = false;  // of the server: what is kept is of no use
  int64_t fetched_ = 0;
  int64_t furthest_ = 0;  // bytes that were ever there: the same ones again are no progress
};

}  // namespace

int64_t bytes_there(const RepoCache& cache, const RemoteFile& file) {
  const fs::path blob = cache.blob(file.etag);
  if (size_of(blob) == file.size) return file.size;
  const int64_t partial = size_of(blob.string() + ".incomplete");
  return partial > 0 && partial <= file.size ? partial : 0;
}

int64_t download(Transfer& transfer, const RepoCache& cache, const RemoteFile& file, const DownloadContext& context) {
  const FileLock lock(cache.lock(file.etag), context.stopped);
  if (!lock.held()) throw Stopped();
  int64_t fetched = 0;
  // Another process may have brought it while we waited.
  if (size_of(cache.blob(file.etag)) != file.size) fetched = Download(transfer, cache, file, context).run();
  if (context.progress) context.progress(file.size);
  return fetched;
}

}  // namespace ashlar::hub
