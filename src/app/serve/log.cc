// SPDX-License-Identifier: Apache-2.0
#include "app/serve/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <mutex>

#include "app/line_writer.h"
#include "session/terminal.h"

namespace ashlar {
namespace {

spdlog::level::level_enum spd(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

const char* name_of(LogLevel level) {
  constexpr const char* kNames[] = {"debug", "info", "warn", "error"};
  return kNames[static_cast<int>(level)];
}

std::string dump(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace); }

struct Character {
  uint32_t code;
  size_t bytes;
};

// The character at `i` of what is meant to be UTF-8; a byte that begins none counts as one.
Character character_at(std::string_view text, size_t i) {
  const auto byte = [&](size_t k) { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0U; };
  const auto next = [&](size_t k) { return (byte(k) & 0xC0) == 0x80; };
  if (byte(0) >= 0xC2 && byte(0) < 0xE0 && next(1)) return {(byte(0) & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (byte(0) >= 0xE0 && byte(0) < 0xF0 && next(1) && next(2)) {
    return {(byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  }
  return {byte(0), 1};
}

// What a terminal might obey, or a reader take for another line or read in another order: control characters, line
// separators, marks that turn the direction of text.
bool steers(const Character& c) {
  if (c.code < 0x20 || c.code == 0x7F) return true;
  if (c.bytes == 1) return false;
  return c.code < 0xA0 || c.code == 0x61C || c.code == 0x200E || c.code == 0x200F ||
         (c.code >= 0x2028 && c.code <= 0x202E) || (c.code >= 0x2066 && c.code <= 0x2069);
}

template <class Instead>
std::string without_steering(const std::string& text, const Instead& instead) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Character c = character_at(text, i);
    if (steers(c)) {
      out += instead(c);
    } else {
      out.append(text, i, c.bytes);
    }
    i += c.bytes;
  }
  return out;
}

std::string one_line(const std::string& text) {
  return without_steering(text, [](const Character&) { return "?"; });
}

// Of JSON in one line, where such characters stand in strings only.
std::string escaped(const std::string& json) {
  return without_steering(json, [](const Character& c) {
    char text[8];
    std::snprintf(text, sizeof text, "\\u%04x", c.code);
    return std::string(text);
  });
}

// A value in a line for people: bare where it is one word.
std::string plain(const Json& value) {
  if (!value.is_string()) return one_line(dump(value));
  const auto& text = value.get_ref<const std::string&>();
  const auto breaks = [](unsigned char c) { return c <= ' ' || c >= 0x7F || c == '"' || c == '='; };
  const bool word = !text.empty() && std::none_of(text.begin(), text.end(), breaks);
  return word ? for_message(text) : one_line(dump(value));
}

// One for all logs on stderr, so that their lines keep their order.
std::shared_ptr<LineWriter> writer_for(int fd) {
  if (fd != STDERR_FILENO) return std::make_shared<LineWriter>(fd);
  static std::mutex mutex;
  static std::weak_ptr<LineWriter> shared;
  const std::lock_guard lock(mutex);
  std::shared_ptr<LineWriter> writer = shared.lock();
  if (writer == nullptr) shared = writer = std::make_shared<LineWriter>(fd);
  return writer;
}

}  // namespace

// Not of the unnamed namespace: it is a member's type.
class QueueingSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  QueueingSink(std::shared_ptr<LineWriter> writer, bool color) : writer_(std::move(writer)), color_(color) {}
  uint64_t take_lost() { return lost_.exchange(0); }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    std::string line(text.data(), text.size());
    if (color_ && message.color_range_end > message.color_range_start) {
      line.insert(message.color_range_end, "\033[0m").insert(message.color_range_start, color_of(message.level));
    }
    if (!writer_->add(line)) ++lost_;
  }
  void flush_() override {}
  static const char* color_of(spdlog::level::level_enum level) {
    switch (level) {
      case spdlog::level::info:
        return "\033[32m";
      case spdlog::level::warn:
        return "\033[33m\033[1m";
      case spdlog::level::err:
        return "\033[31m\033[1m";
      default:
        return "\033[36m";
    }
  }

  const std::shared_ptr<LineWriter> writer_;
  const bool color_;
  std::atomic<uint64_t> lost_{0};
};

struct Log::Impl {
  void say_lost() {
    if (!writer->has_room()) return;
    const uint64_t lost = sink->take_lost();
    if (lost == 0) return;
    const std::string message = std::to_string(lost) + " lines of this log are lost: it was not read fast enough";
    write(LogLevel::kError, message, Json::object());
  }
  void write(LogLevel level, const std::string& message, const Json& fields);

  std::shared_ptr<LineWriter> writer;
  std::shared_ptr<QueueingSink> sink;
  std::shared_ptr<spdlog::logger> logger;
  bool json = false;
};

Log::Log(const LogOptions& options, int fd) : impl_(std::make_unique<Impl>()) {
  impl_->json = options.format == "json";
  impl_->writer = writer_for(fd);
  impl_->sink = std::make_shared<QueueingSink>(impl_->writer, use_color(ColorMode::kAuto, fd));
  impl_->logger = std::make_shared<spdlog::logger>("ashlar", impl_->sink);
  impl_->logger->set_level(spdlog::level::from_str(options.level == "warn" ? "warning" : options.level));
  impl_->logger->set_error_handler([](const std::string&) {});  // memory ran out: the line is lost
  // In JSON the time is part of the object: UTC in RFC 3339.
  impl_->logger->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      impl_->json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ",%v)" : "%Y-%m-%d %H:%M:%S.%e %^%-5l%$ %v",
      impl_->json ? spdlog::pattern_time_type::utc : spdlog::pattern_time_type::local));
}

Log::~Log() {
  impl_->writer->flush(std::chrono::milliseconds(500));
  impl_->say_lost();
}

void Log::write(LogLevel level, const std::string& message, const Json& fields) {
  if (!impl_->logger->should_log(spd(level))) return;
  impl_->say_lost();
  impl_->write(level, message, fields);
}

void Log::Impl::write(LogLevel level, const std::string& message, const Json& fields) {
  const auto wanted = spd(level);
  if (json) {
    Json line = {{"level", name_of(level)}, {"message", message}};
    for (const auto& field : fields.items()) {
      // A key twice would leave it to the reader which one holds.
      if (field.key() != "time" && !line.contains(field.key())) line[field.key()] = field.value();
    }
    logger->log(wanted, "{}", escaped(dump(line)).substr(1));
    return;
  }
  std::string line = one_line(message);
  for (const auto& field : fields.items()) line += " " + field.key() + "=" + plain(field.value());
  logger->log(wanted, "{}", line);
}

void log_messages(const LogOptions& options) {
  redirect_messages([log = std::make_shared<Log>(options)](MessageKind kind, const std::string& text) {
    log->write(kind == MessageKind::kNote      ? LogLevel::kInfo
               : kind == MessageKind::kWarning ? LogLevel::kWarn
                                               : LogLevel::kError,
               text);
  });
}

}  // namespace ashlar
