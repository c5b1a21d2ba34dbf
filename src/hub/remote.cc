// SPDX-License-Identifier: Apache-2.0
#include "hub/remote.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"
#include "hub/digest.h"
#include "io/json.h"

namespace ashlar::hub {
namespace {

// The name of a content that the server gives none: of another commit or length it is another content.
Etag etag_of_place(const std::string& commit, const std::string& path, int64_t size) {
  const std::string place = commit + "/" + path + "\n" + std::to_string(size);
  Digest digest(EtagKind::kSha256, static_cast<int64_t>(place.size()));
  digest.update(place);
  return {"unchecked-" + digest.finish(), EtagKind::kNone};
}

}  // namespace

bool is_passing(long status) {
  return status == 408 || status == 429 || (status >= 500 && status != 501 && status < 600);
}

bool Retries::again(int64_t retry_after_s, const std::string& why) {
  if (++failures_ >= policy_.attempts) return false;
  double seconds = policy_.first_wait_s;
  for (int i = 1; i < failures_ && seconds < policy_.longest_wait_s; ++i) seconds *= 2;
  seconds = std::min(std::max(seconds, static_cast<double>(retry_after_s)), policy_.longest_wait_s);
  if (policy_.on_wait) policy_.on_wait(seconds, why);
  constexpr auto kSlice = std::chrono::milliseconds(50);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (stopped_ && stopped_()) throw Stopped();
    std::this_thread::sleep_for(
        std::min<std::chrono::duration<double>>(kSlice, end - std::chrono::steady_clock::now()));
  }
  return true;
}

std::string why_again(const Exchange& exchange) {
  if (!exchange.problem.empty()) return exchange.problem;
  return "the hub answers " + std::to_string(exchange.reply.status);
}

void throw_refused(const Exchange& exchange, const std::string& what, const Settings& settings,
                   const std::string& advice) {
  if (exchange.no_such_hub) {
    throw Error("hub", what + ": " + exchange.problem + "; check HF_ENDPOINT, which is " +
                           without_password(settings.endpoint) + ", and this machine's network");
  }
  if (!exchange.problem.empty()) throw Error("hub", what + ": " + exchange.problem + "; " + advice);
  const long status = exchange.reply.status;
  const std::string message = exchange.reply.header("x-error-message");
  std::string text =
      what + ": the hub at " + without_password(settings.endpoint) + " answers " + std::to_string(status);
  if (!message.empty()) text += " (" + for_message(message) + ")";
  if (status == 401 || status == 403) {
    text += settings.token.empty()
                ? "; it does not exist, or is private or gated: set HF_TOKEN to a token that may read it"
                : "; the token in HF_TOKEN may not read it: accept the model's terms on its page, or use another token";
  } else if (status == 404) {
    text += "; check the spelling of ORG/MODEL and of the revision";
  } else if (status == 429) {
    text += "; it limits how often one may ask: try again later, or set HF_TOKEN";
  } else if (status / 100 == 5) {
    text += "; the fault is on its side: try again later";
  }
  throw Error("hub", text);
}

Remote::Remote(const Settings& settings, RetryPolicy policy, std::function<bool()> stopped)
    : settings_(settings), policy_(policy), stopped_(stopped), transfer_(settings, std::move(stopped)) {}

Exchange Remote::ask(const TransferRequest& request, const std::string& what, const std::function<void()>& before) {
  Retries retries(policy_, stopped_);
  while (true) {
    if (before) before();
    Exchange exchange = transfer_.run(request);
    if (exchange.stopped) {
      if (stopped_ && stopped_()) throw Stopped();
      return exchange;
    }
    const long status = exchange.reply.status;
    const bool passing = exchange.problem.empty() ? is_passing(status) : !exchange.fatal;
    const bool good = exchange.problem.empty() && (status / 100 == 2 || status / 100 == 3);
    if (good) return exchange;
    if (!passing || !retries.again(exchange.reply.number("retry-after", 0), what + ": " + why_again(exchange))) {
      throw_refused(exchange, what, settings_, "what was fetched is kept, pull again to go on");
    }
  }
}

RepoInfo Remote::info(const RepoRef& ref) {
  const std::string what = ref.repo + "@" + ref.revision;
  std::string body;
  bool too_long = false;
  TransferRequest request;
  request.url = settings_.endpoint + "/api/models/" + url_path(ref.repo) + "/revision/" + url_segment(ref.revision);
  request.sink = [&](const Reply&, std::string_view bytes) {
    too_long = body.size() + bytes.size() > kMaxInfoBytes;
    if (!too_long) body += bytes;
    return !too_long;
  };
  ask(request, what, [&body] { body.clear(); });
  if (too_long) throw Error("hub", what + ": the list of files is longer than 32 MiB");
  return parse_repo_info(body, what);
}

RemoteFile Remote::file(const std::string& repo, const std::string& commit, const std::string& path) {
  const std::string what = repo + "/" + for_message(path);
  RemoteFile file;
  file.path = path;
  file.url = settings_.endpoint + "/" + url_path(repo) + "/resolve/" + commit + "/" + url_path(path);
  TransferRequest request;
  request.url = file.url;
  request.head_only = true;
  const Reply reply = ask(request, what, {}).reply;
  const bool linked = !reply.header("x-linked-etag").empty();
  const auto etag = parse_etag(reply.header(linked ? "x-linked-etag" : "etag"));
  file.size = reply.number("x-linked-size", linked ? -1 : reply.number("content-length", -1));
  if (file.size < 0) throw Error("hub", what + ": the hub does not say how long it is");
  // Mirrors may have no digests; the hub has: an answer without one is from something in between.
  if (!etag && settings_.endpoint == kPublicEndpoint) {
    throw Error("hub", what +
                           ": the answer has no digest of the file, which the hub always sends; a proxy or a sign-in "
                           "page may have answered in its place");
  }
  file.etag = etag ? *etag : etag_of_place(commit, path, file.size);
  return file;
}

}  // namespace ashlar::hub
