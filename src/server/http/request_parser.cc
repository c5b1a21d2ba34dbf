// SPDX-License-Identifier: Apache-2.0
#include "server/http/request_parser.h"

#include <algorithm>
#include <boost/beast/http/parser.hpp>
#include <string>

#include "server/http/target.h"

namespace ashlar::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr size_t kMaxHeaders = 128;
constexpr size_t kMaxMethod = 32;
constexpr size_t kFramingSlack = 64u << 10;

/// Beast's string_body would reserve whatever a Content-Length promises; this one grows with what arrives.
struct GrowingBody {
  using value_type = std::string;
  static uint64_t size(const value_type& body) { return body.size(); }

  class reader {
   public:
    template <bool kIsRequest, class Fields>
    reader(http::header<kIsRequest, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<uint64_t>&, error_code& ec) { ec = {}; }
    template <class Buffers>
    size_t put(const Buffers& buffers, error_code& ec) {
      ec = {};
      size_t taken = 0;
      for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers); ++it) {
        const asio::const_buffer part = *it;
        body_.append(static_cast<const char*>(part.data()), part.size());
        taken += part.size();
      }
      return taken;
    }
    void finish(error_code& ec) { ec = {}; }

   private:
    value_type& body_;
  };
};

/// Whether the byte at `i` may follow those before it: lines end in CR LF, none is folded, no control characters.
bool allowed_in_head(std::string_view head, size_t i) {
  const char c = head[i];
  const char before = i > 0 ? head[i - 1] : '\0';
  if ((c == '\n') != (before == '\r')) return false;
  if ((c == ' ' || c == '\t') && before == '\n') return false;
  if (c == '\t' || c == '\r' || c == '\n') return true;
  return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F;
}

bool all_digits(std::string_view text) {
  return !text.empty() && text.size() <= 18 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

size_t count_headers(const Headers& headers, std::string_view name) {
  return static_cast<size_t>(std::count_if(headers.begin(), headers.end(),
                                           [&](const Header& h) { return equal_ignoring_case(h.name, name); }));
}

/// What is wrong with the headers that say where a body ends, or empty.
std::string_view framing_problem(const HttpRequest& request) {
  const size_t lengths = count_headers(request.headers, "Content-Length");
  const size_t encodings = count_headers(request.headers, "Transfer-Encoding");
  if (lengths > 0 && encodings > 0) return "Content-Length and Transfer-Encoding exclude each other.";
  if (lengths > 1 || (lengths == 1 && !all_digits(request.header("Content-Length")))) {
    return "Content-Length must be given once, in digits.";
  }
  if (encodings > 0 && request.http_1_0) return "HTTP/1.0 knows no Transfer-Encoding.";
  if (encodings > 1 || (encodings == 1 && !equal_ignoring_case(request.header("Transfer-Encoding"), "chunked"))) {
    return "The only Transfer-Encoding taken is \"chunked\", given once.";
  }
  return {};
}

/// A header that decides about the request and is there twice, or empty: who reads the first and who reads the last
/// would take it for different requests. (Content-Length, Transfer-Encoding and Host are looked at for themselves.)
std::string_view repeated(const Headers& headers) {
  for (const std::string_view name : {"Authorization", "X-Api-Key", "Content-Type", "Origin", "Expect",
                                      "Access-Control-Request-Method", "Access-Control-Request-Private-Network"}) {
    if (count_headers(headers, name) > 1) return name;
  }
  return {};
}

/// Whether the body is encoded, by any of the lines and elements of the header, which is a list.
bool encoded(const Headers& headers) {
  for (const Header& header : headers) {
    if (!equal_ignoring_case(header.name, "Content-Encoding")) continue;
    std::string_view rest = header.value;
    while (!rest.empty()) {
      std::string_view coding = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(rest.size(), coding.size() + 1));
      while (!coding.empty() && (coding.front() == ' ' || coding.front() == '\t')) coding.remove_prefix(1);
      while (!coding.empty() && (coding.back() == ' ' || coding.back() == '\t')) coding.remove_suffix(1);
      if (!coding.empty() && !equal_ignoring_case(coding, "identity")) return true;
    }
  }
  return false;
}

}  // namespace

struct RequestParser::Impl {
  explicit Impl(const RequestLimits& limits) : limits(limits) {
    parser.header_limit(static_cast<uint32_t>(limits.max_header_bytes + 1024));
    parser.body_limit(limits.max_body_bytes);
  }

  void fail(int status, std::string_view message) {
    state = State::kFailed;
    if (request.method.empty()) read_names();
    request.path = path();
    failure = error_response(request.path, status, "invalid_request_error", message);
  }
  void read_names();
  std::string path() const;
  void fail(const error_code& error);
  size_t feed_head(std::string_view bytes);
  size_t feed_body(std::string_view bytes);
  void parse_head();
  bool read_fields();
  bool read_host(const std::string& authority);

  RequestLimits limits;
  http::request_parser<GrowingBody> parser;
  State state = State::kHead;
  std::string head;
  size_t skipped = 0;     ///< line ends before the request line
  size_t wire_bytes = 0;  ///< of the body, with its framing
  HttpRequest request;
  HttpResponse failure;
};

// As far as it is known: a refusal may come before all of the head was looked at.
std::string RequestParser::Impl::path() const {
  if (!request.path.empty()) return request.path;
  const Result<Target> target = parse_target(std::string(parser.get().method_string()), parser.get().target());
  return target ? target.value().path : "";
}

void RequestParser::Impl::fail(const error_code& error) {
  if (error == http::error::body_limit) {
    fail(413, "The body is larger than the " + std::to_string(limits.max_body_bytes) + " bytes that are accepted.");
  } else if (error == http::error::header_limit) {
    fail(431, "The headers are larger than the " + std::to_string(limits.max_header_bytes) + " bytes accepted.");
  } else if (error == http::error::bad_version) {
    fail(505, "Only HTTP/1.0 and HTTP/1.1 are spoken here.");
  } else {
    fail(400, "This is not a well-formed HTTP request.");
  }
}

size_t RequestParser::Impl::feed_head(std::string_view bytes) {
  size_t blank = 0;  // some clients end a body with a line that its length does not count
  while (head.empty() && skipped < 4 && blank < bytes.size() && (bytes[blank] == '\r' || bytes[blank] == '\n')) {
    ++blank;
    ++skipped;
  }
  bytes.remove_prefix(blank);
  const size_t before = head.size();
  head.append(bytes.substr(0, limits.max_header_bytes - before));
  const size_t end = head.find("\r\n\r\n", before > 3 ? before - 3 : 0);
  if (end != std::string::npos) head.resize(end + 4);
  const size_t taken = head.size() - before;
  for (size_t i = before; i < head.size(); ++i) {
    if (!allowed_in_head(head, i)) {
      fail(400, "The request line or a header has bytes that are not allowed there.");
      return blank;
    }
  }
  if (end != std::string::npos) {
    parse_head();
  } else if (head.size() >= limits.max_header_bytes) {
    fail(http::error::header_limit);
  }
  return blank + taken;
}

void RequestParser::Impl::parse_head() {
  std::string_view rest = head;
  while (!parser.is_header_done()) {
    error_code error;
    const size_t taken = parser.put(asio::buffer(rest.data(), rest.size()), error);
    if (error) return fail(error);
    rest.remove_prefix(taken);
    if (taken == 0) return fail(400, "This is not a well-formed HTTP request.");
  }
  parser.eager(true);
  if (read_fields()) state = parser.is_done() ? State::kDone : State::kBody;
  head = {};
}

void RequestParser::Impl::read_names() {
  const auto& message = parser.get();
  request.method = std::string(message.method_string());
  request.http_1_0 = message.version() == 10;
  for (const auto& field : message)
    request.headers.push_back({std::string(field.name_string()), std::string(field.value())});
}

bool RequestParser::Impl::read_fields() {
  read_names();
  const auto& message = parser.get();
  if (message.version() != 10 && message.version() != 11) {
    fail(http::error::bad_version);
  } else if (request.method.size() > kMaxMethod) {
    fail(400, "The method's name is too long.");
  } else if (request.headers.size() > kMaxHeaders) {
    fail(431, "More than " + std::to_string(kMaxHeaders) + " headers.");
  } else if (const std::string_view problem = framing_problem(request); !problem.empty()) {
    fail(400, problem);
  } else if (Result<Target> target = parse_target(request.method, message.target()); !target) {
    fail(400, target.error());
  } else if (const Header* expect = find_header(request.headers, "Expect");
             expect && !equal_ignoring_case(expect->value, "100-continue")) {
    fail(417, "The only expectation met is \"100-continue\".");
  } else if (const std::string_view twice = repeated(request.headers); !twice.empty()) {
    fail(400, "The header " + std::string(twice) + " must be given once.");
  } else if (encoded(request.headers)) {
    fail(415, "Bodies are taken as they are; send this one without Content-Encoding.");
  } else {
    request.path = std::move(target.value().path);
    request.query = std::move(target.value().query);
    return read_host(target.value().authority);
  }
  return false;
}

bool RequestParser::Impl::read_host(const std::string& authority) {
  const size_t hosts = count_headers(request.headers, "Host");
  const std::string_view host = request.header("Host");
  if (hosts > 1 || (hosts == 0 && !request.http_1_0)) {
    fail(400, "A request must have exactly one Host header.");
  } else if (!host.empty() && !valid_authority(host)) {
    fail(400, "The Host header is malformed.");
  } else if (hosts == 1 && !authority.empty() && !equal_ignoring_case(authority, host)) {
    fail(400, "The Host header and the request target name different hosts.");
  } else {
    request.host = authority.empty() ? std::string(host) : authority;
    return true;
  }
  return false;
}

size_t RequestParser::Impl::feed_body(std::string_view bytes) {
  size_t total = 0;
  while (!bytes.empty() && !parser.is_done()) {
    error_code error;
    const size_t taken = parser.put(asio::buffer(bytes.data(), bytes.size()), error);
    bytes.remove_prefix(taken);
    total += taken;
    wire_bytes += taken;
    if (error == http::error::need_more) break;
    if (error) {
      fail(error);
      return total;
    }
    if (taken == 0) break;
  }
  const size_t body = parser.get().body().size();
  // What the parser leaves lying is the unfinished line of a chunk's size or of a trailer.
  if (wire_bytes - body > kFramingSlack + body / 8 || (!parser.is_done() && bytes.size() > limits.max_header_bytes)) {
    fail(400, "The body is cut into too many tiny chunks, or its chunk extensions or trailers are too long.");
  } else if (parser.is_done()) {
    state = State::kDone;
    request.body = std::move(parser.get().body());
  }
  return total;
}

RequestParser::RequestParser(const RequestLimits& limits) : impl_(std::make_unique<Impl>(limits)) {}
RequestParser::~RequestParser() = default;

size_t RequestParser::feed(std::string_view bytes) {
  if (impl_->state == State::kHead) return impl_->feed_head(bytes);
  return impl_->state == State::kBody ? impl_->feed_body(bytes) : 0;
}

RequestParser::State RequestParser::state() const { return impl_->state; }
bool RequestParser::started() const { return impl_->state != State::kHead || !impl_->head.empty(); }
bool RequestParser::keep_alive() const { return impl_->parser.get().keep_alive(); }
size_t RequestParser::body_bytes() const { return impl_->parser.get().body().size() + impl_->request.body.size(); }
const HttpRequest& RequestParser::request() const { return impl_->request; }
HttpRequest RequestParser::take_request() { return std::move(impl_->request); }

void RequestParser::drop_body() {
  for (std::string* body : {&impl_->parser.get().body(), &impl_->request.body}) std::string().swap(*body);
}

const HttpResponse& RequestParser::failure() const { return impl_->failure; }

bool RequestParser::expects_continue() const {
  return impl_->state == State::kBody && !impl_->request.http_1_0 && find_header(impl_->request.headers, "Expect");
}

}  // namespace ashlar::server
