// SPDX-License-Identifier: Apache-2.0
#pragma once
// What `ashlar doctor` looks at: each check gives a finding, none throws for what it finds.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/machine/cores.h"
#include "io/json.h"
#include "session/memory_budget.h"
#include "session/session.h"

namespace ashlar::doctor {

enum class Severity { kOk, kWarning, kProblem };

struct Finding {
  std::string check;  ///< "memory"
  Severity severity = Severity::kOk;
  std::string found;   ///< what is so
  std::string advice;  ///< what to do; empty where all is well
};

// The machine (doctor_machine.cc).
/// `isa`: the one asked for; empty: the best.
Finding check_cpu(const std::string& isa);
/// `threads`: as asked for; 0: Cores::workers().
Finding check_cores(int32_t threads, const Cores& cores = usable_cores());
/// `file`: the kernel's setting of transparent huge pages.
Finding check_huge_pages(const std::filesystem::path& file = "/sys/kernel/mm/transparent_hugepage/enabled");
/// Bytes a second that `threads` threads read from memory, the best of a few runs of `bytes` each; 0 if there is no
/// memory for it.
double read_bandwidth(int32_t threads, int64_t bytes);
/// Of the memory of the device that would be used; where that cannot be, of the host's.
Finding check_bandwidth(const std::string& device, const DeviceOptions& options);
/// GPUs, or why there is none: of those that find_devices() finds with facts.
std::vector<Finding> check_gpus(const std::vector<FoundDevice>& found = find_devices(true));
/// Whether `connections` fit into the limit of open files.
Finding check_descriptors(int64_t connections);
Finding check_clock();

// Network and files (doctor_network.cc).
Finding check_port(const std::string& host, uint16_t port);
/// Whether the file of keys can be read, and whether an address that others reach is left without any.
Finding check_access(const std::string& host, const std::vector<std::string>& keys, const std::string& key_file);
/// Whether the request log could be written, and is none of another program; empty: not asked for. Nothing is created
/// or changed.
Finding check_request_log(const std::string& file);
/// Throws Error if certificate and key cannot be read or do not belong together; both empty: TLS is not asked for.
void try_tls(const std::string& cert_file, const std::string& key_file);
/// Both empty: TLS is not asked for. Readable, a pair, and of this time.
Finding check_tls(const std::string& cert_file, const std::string& key_file);

// The model (doctor_model.cc).
/// Model, memory, drafter and the equality of drafted and plain answers; what builds on a failed check is left out.
std::vector<Finding> check_model(const SessionOptions& options);
/// Whether what loading needs is there (session/memory_budget.h).
Finding check_memory(const MemorySituation& situation);

// The report (doctor.cc).
/// The worst of all.
Severity worst(const std::vector<Finding>& findings);
std::string report_lines(const std::vector<Finding>& findings);
Json report_json(const std::vector<Finding>& findings);

}  // namespace ashlar::doctor
