#include "app/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

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

// A value in a line for people: bare where it is one word.
std::string plain(const Json& value) {
  if (!value.is_string()) return dump(value);
  const auto& text = value.get_ref<const std::string&>();
  const bool word = !text.empty() && text.find_first_of(" \"=\t\r\n") == std::string::npos;
  return word ? for_message(text) : dump(value);
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
    line.update(fields);
    impl_->logger->log(wanted, "{}", dump(line).substr(1));
    return;
  }
  std::string line = message;
  for (const auto& field : fields.items()) line += " " + field.key() + "=" + plain(field.value());
  impl_->logger->log(wanted, "{}", line);
}

}  // namespace ashlar
