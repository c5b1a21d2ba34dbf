// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <thread>

#include "app/doctor/doctor.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/machine/available_memory.h"
#include "device/device.h"

namespace ashlar::doctor {
namespace {

// Value of the first "key : value" line of /proc/cpuinfo.
std::string cpu_fact(const std::string& key) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const size_t at = line.find_first_not_of(" \t", line.find(':') + 1);
    return at == std::string::npos ? "" : line.substr(at);
  }
  return "";
}

std::string list_of(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

Finding check_cpu(const std::string& isa) {
  const std::vector<std::string> choices = isa_choices();
  const std::string model = cpu_fact("model name");
  Finding out{"cpu", Severity::kOk, (model.empty() ? "unknown processor" : model), ""};
  if (!isa.empty() && std::find(choices.begin(), choices.end(), isa) == choices.end()) {
    out.severity = Severity::kProblem;
    out.found += "; it cannot run \"" + isa + "\"";
    out.advice =
        "choose one of " + list_of(choices) + " with --isa, or none for the best (ASHLAR_FORCE_ISA is the same)";
    return out;
  }
  const std::string& chosen = isa.empty() ? choices.front() : isa;
  out.found += "; runs with " + chosen + " (of " + list_of(choices) + ")";
  if (choices.size() == 1) {
    out.severity = Severity::kWarning;
    out.advice = "this machine lacks AVX2: answers are right but slow; a virtual machine may hide what its host has";
  } else if (chosen != choices.front()) {
    out.severity = Severity::kWarning;
    out.advice = "leave out --isa and ASHLAR_FORCE_ISA for the fastest";
  }
  return out;
}

Finding check_cores(int32_t threads, const Cores& cores) {
  const int32_t used = threads > 0 ? threads : cores.workers();
  std::ostringstream found;
  found << cores.cores << " may be used";
  if (cores.cpus.size() > static_cast<size_t>(cores.cores)) {
    found << ", with " << cores.cpus.size() << " hardware threads";
  }
  if (cores.granted > 0)
    found << ", and the time of " << std::fixed << std::setprecision(1) << cores.granted << " is granted";
  found << "; " << used << (used == 1 ? " thread" : " threads");
  Finding out{"cores", Severity::kOk, found.str(), ""};
  if (used > cores.cores) {
    out.severity = Severity::kWarning;
    out.advice =
        "more threads than cores slow each other down; use --threads " + std::to_string(cores.workers()) + " or none";
  } else if (used > cores.workers()) {
    out.severity = Severity::kWarning;
    out.advice = "the container's CPU limit stops all threads again and again; use --threads " +
                 std::to_string(cores.workers()) + ", or none, or raise the limit";
  }
  return out;
}

Finding check_huge_pages(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const size_t open = line.find('['), close = line.find(']');
  const std::string mode =
      open == std::string::npos || close == std::string::npos ? "" : line.substr(open + 1, close - open - 1);
  if (mode == "always" || mode == "madvise") return {"huge pages", Severity::kOk, "transparent ones: " + mode, ""};
  return {"huge pages", Severity::kWarning, mode.empty() ? "the kernel has none" : "transparent ones: " + mode,
          "weights are read faster with them: as root, echo madvise > " + path.string()};
}

double read_bandwidth(int32_t threads, int64_t bytes) {
  const auto size = static_cast<size_t>(bytes) / 4096 * 4096;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  madvise(memory, size, MADV_HUGEPAGE);
  auto* words = static_cast<uint64_t*>(memory);
  const size_t share = size / sizeof(uint64_t) / static_cast<size_t>(threads);
  std::atomic<uint64_t> sink{0};
  const auto on_all = [&](const auto& work) {
    std::vector<std::thread> workers;
    for (int32_t t = 0; t < threads; ++t)
      workers.emplace_back([&, t] { work(words + static_cast<size_t>(t) * share); });
    for (std::thread& worker : workers) worker.join();
  };
  on_all([&](uint64_t* begin) { std::fill(begin, begin + share, 1); });  // each thread touches what it will read
  double best = 0;
  for (int run = 0; run < 3; ++run) {
    const int64_t start = now_ns();
    on_all([&](const uint64_t* begin) {
      uint64_t sums[4] = {0, 0, 0, 0};
      for (size_t i = 0; i + 4 <= share; i += 4) {
        for (size_t k = 0; k < 4; ++k) sums[k] += begin[i + k];
      }
      sink += sums[0] + sums[1] + sums[2] + sums[3];
    });
    best =
        std::max(best, static_cast<double>(size) * 1e9 / static_cast<double>(std::max<int64_t>(1, now_ns() - start)));
  }
  munmap(memory, size);
  return best;
}

std::vector<Finding> check_gpus(const std::vector<FoundDevice>& found) {
  if (found.empty()) return {{"gpu", Severity::kOk, "this build has no device for GPUs", ""}};
  std::vector<Finding> out;
  for (const FoundDevice& gpu : found) {
    if (gpu.problem.empty()) {
      out.push_back({"gpu", Severity::kOk, gpu.name + ": " + gpu.what + ", " + gpu.facts, ""});
    } else if (gpu.what.empty()) {
      out.push_back({"gpu", Severity::kOk, "none: " + gpu.problem, ""});
    } else {
      out.push_back({"gpu", Severity::kWarning, gpu.what + " cannot be used: " + gpu.problem,
                     "--device auto, the default, takes " + choose_among(found, {}).name});
    }
  }
  return out;
}

namespace {

struct Reading {
  std::string of;   // whose memory, where it is not the host's
  double rate = 0;  // bytes a second; 0: nothing was read
};

// Nothing where the device has no memory of its own; what keeps it from being made is the model's finding.
Reading read_device(const std::string& device, const DeviceOptions& options) {
  try {
    const std::unique_ptr<Ops> ops = make_device(device, options);
    const std::unique_ptr<DeviceProbe> probe = ops->device_probe(int64_t{1} << 30);
    if (!probe) return {};
    double seconds = probe->read();
    for (int run = 0; run < 3; ++run) seconds = std::min(seconds, probe->read());
    return {ops->name(), static_cast<double>(probe->bytes()) / seconds};
  } catch (const Error&) {
    return {};
  }
}

// Beyond the caches, and not so much that it presses on others.
Reading read_host(int32_t threads) {
  const int64_t available = available_memory().bytes;
  const int64_t bytes = std::min<int64_t>(int64_t{512} << 20, available > 0 ? available / 8 : int64_t{128} << 20);
  return {"", read_bandwidth(threads > 0 ? threads : usable_cores().workers(), bytes)};
}

}  // namespace

Finding check_bandwidth(const std::string& device, const DeviceOptions& options) {
  Reading reading = read_device(device, options);
  if (reading.rate == 0) reading = read_host(options.threads);
  const double rate = reading.rate;
  char text[160];
  std::snprintf(text, sizeof text, "%.1f GB/s of reading%s%s: a token takes at least %.1f ms for each GB of weights",
                rate * 1e-9, reading.of.empty() ? "" : " on ", reading.of.c_str(), rate > 0 ? 1e12 / rate : 0.0);
  if (rate == 0) return {"bandwidth", Severity::kWarning, "not measured: no memory", "free some memory"};
  if (rate >= 3e9) return {"bandwidth", Severity::kOk, text, ""};
  return {"bandwidth", Severity::kWarning, text, "far less than machines of this kind have; is it busy, or shared?"};
}

Finding check_descriptors(int64_t connections) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto files = limit.rlim_cur == RLIM_INFINITY ? int64_t{1} << 40 : static_cast<int64_t>(limit.rlim_cur);
  constexpr int64_t kOthers = 64;  // weights, logs, sockets that listen
  const std::string found =
      (limit.rlim_cur == RLIM_INFINITY ? "any number" : std::to_string(files)) + " may be open at once";
  if (files >= connections + kOthers) return {"open files", Severity::kOk, found, ""};
  return {"open files", Severity::kWarning, found + ", and " + std::to_string(connections) + " connections are allowed",
          "ulimit -n " + std::to_string(connections + kOthers) +
              " (systemd: LimitNOFILE=), or a smaller --max-connections"};
}

Finding check_clock() {
  constexpr std::time_t kBegin2024 = 1704067200;
  const std::time_t now = std::time(nullptr);
  char text[64];
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  if (now < kBegin2024) {
    return {"clock", Severity::kProblem, text, "it is late: certificates and logs will be wrong; set it (timedatectl)"};
  }
  timespec resolution{};
  clock_getres(CLOCK_MONOTONIC, &resolution);
  if (resolution.tv_sec > 0 || resolution.tv_nsec > 1'000'000) {
    return {"clock", Severity::kWarning, std::string(text) + ", with steps above 1 ms",
            "timings will be coarse; see /sys/devices/system/clocksource"};
  }
  timex state{};
  const bool synchronised = adjtimex(&state) >= 0 && (state.status & STA_UNSYNC) == 0;
  return {"clock", Severity::kOk,
          text + std::string(synchronised ? ", synchronised" : "; not known to be synchronised"), ""};
}

}  // namespace ashlar::doctor
