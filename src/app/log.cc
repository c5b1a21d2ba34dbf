#include "app/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>

#include "app/terminal.h"

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

// One line for people: what a terminal might obey, or a reader take for another line, becomes a question mark.
// C1 controls and the line separators of Unicode count too; `text` is UTF-8 or gets there by dump().
std::string one_line(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = [&](size_t k) { return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0; };
    const bool c1 = byte == 0xC2 && next(1) >= 0x80 && next(1) < 0xA0;
    const bool separator = byte == 0xE2 && next(1) == 0x80 && (next(2) == 0xA8 || next(2) == 0xA9);
    if (c1 || separator) {
      out += '?';
      i += c1 ? 1 : 2;
    } else {
      out += byte < 0x20 || byte == 0x7F ? '?' : text[i];
    }
  }
  return out;
}

// A value in a line for people: bare where it is one word.
std::string plain(const Json& value) {
  if (!value.is_string()) return one_line(dump(value));
  const auto& text = value.get_ref<const std::string&>();
  const auto breaks = [](unsigned char c) { return c <= ' ' || c >= 0x7F || c == '"' || c == '='; };
  const bool word = !text.empty() && std::none_of(text.begin(), text.end(), breaks);
  return word ? for_message(text) : one_line(dump(value));
}

}  // namespace

struct Log::Impl {
  std::shared_ptr<spdlog::logger> logger;
  bool json = false;
};

Log::Log(const LogOptions& options) : impl_(std::make_unique<Impl>()) {
  impl_->json = options.format == "json";
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  impl_->logger = std::make_shared<spdlog::logger>("ashlar", std::move(sink));
  impl_->logger->set_level(spdlog::level::from_str(options.level == "warn" ? "warning" : options.level));
  // In JSON the time is part of the object: UTC in RFC 3339.
  // A disk that is full or a pipe that is gone is no reason to say so on the same stream.
  impl_->logger->set_error_handler([](const std::string&) {});
  impl_->logger->set_formatter(std::make_unique<spdlog::pattern_formatter>(
      impl_->json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%eZ",%v)" : "%Y-%m-%d %H:%M:%S.%e %^%-5l%$ %v",
      impl_->json ? spdlog::pattern_time_type::utc : spdlog::pattern_time_type::local));
  impl_->logger->flush_on(spdlog::level::debug);
}

Log::~Log() = default;

void Log::write(LogLevel level, const std::string& message, const Json& fields) {
  const auto wanted = spd(level);
  if (!impl_->logger->should_log(wanted)) return;
  if (impl_->json) {
    Json line = {{"level", name_of(level)}, {"message", message}};
    for (const auto& field : fields.items()) {
      // A key twice would leave it to the reader which one holds.
      if (field.key() != "time" && !line.contains(field.key())) line[field.key()] = field.value();
    }
    impl_->logger->log(wanted, "{}", dump(line).substr(1));
    return;
  }
  std::string line = one_line(message);
  for (const auto& field : fields.items()) line += " " + field.key() + "=" + plain(field.value());
  impl_->logger->log(wanted, "{}", line);
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
