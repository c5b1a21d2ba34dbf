// SPDX-License-Identifier: Apache-2.0
#include "app/doctor/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "app/serve/http_probe.h"
#include "base/error.h"
#include "server/http/http_server.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

using namespace doctor;
using testing::AllOf;
using testing::HasSubstr;

class Doctor : public testing::Test {
 protected:
  std::string file(const std::string& name, const std::string& text) { return folder_.write(name, text).string(); }
  // A self-signed certificate that ends `seconds` from now; returns its file and its key's.
  std::pair<std::string, std::string> certificate(const std::string& name, long seconds) {
    EVP_PKEY* key = EVP_EC_gen("P-256");
    X509* cert = X509_new();
    ASN1_INTEGER_set(X509_get_serialNumber(cert), 1);
    X509_gmtime_adj(X509_getm_notBefore(cert), -1000000);
    X509_gmtime_adj(X509_getm_notAfter(cert), seconds);
    X509_set_pubkey(cert, key);
    X509_sign(cert, key, EVP_sha256());
    const std::string cert_file = file(name + ".pem", ""), key_file = file(name + "-key.pem", "");
    FILE* out = fopen(cert_file.c_str(), "w");
    PEM_write_X509(out, cert);
    fclose(out);
    out = fopen(key_file.c_str(), "w");
    PEM_write_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr);
    fclose(out);
    X509_free(cert);
    EVP_PKEY_free(key);
    return {cert_file, key_file};
  }
  const TempFolder folder_;
};

server::HttpOptions options_with(const std::pair<std::string, std::string>& files) {
  server::HttpOptions options;
  options.tls_cert_file = files.first;
  options.tls_key_file = files.second;
  return options;
}

TEST_F(Doctor, TheBundledPairIsWell) {
  SessionOptions options;
  options.device = "cpu";
  options.model = std::string(ASHLAR_SOURCE_DIR) + "/models/pebble-11m";
  const std::vector<Finding> findings = check_model(options);
  std::vector<std::string> names;
  for (const Finding& finding : findings) {
    names.push_back(finding.check);
    EXPECT_EQ(finding.severity, doctor::Severity::kOk) << finding.check << ": " << finding.found;
    EXPECT_EQ(finding.advice, "");
  }
  EXPECT_EQ(names, (std::vector<std::string>{"memory", "model", "drafter", "answer"}));
  EXPECT_THAT(findings.back().found, HasSubstr("10 tokens"));
}

TEST_F(Doctor, AMissingModelIsAProblem) {
  SessionOptions options;
  options.device = "cpu";
  options.model = (folder_ / "nowhere").string();
  const std::vector<Finding> findings = check_model(options);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, doctor::Severity::kProblem);
  EXPECT_THAT(findings[0].found, HasSubstr("nowhere"));
}

TEST_F(Doctor, DefaultsThatAServerRefusesAreAProblem) {
  const std::filesystem::path bundled = std::string(ASHLAR_SOURCE_DIR) + "/models/pebble-11m";
  for (const auto& entry : std::filesystem::directory_iterator(bundled)) {
    if (entry.path().filename() == "generation_config.json") continue;
    std::filesystem::create_symlink(entry.path(), folder_ / entry.path().filename());
  }
  SessionOptions options;
  options.device = "cpu";
  options.model = folder_.path().string();
  file("generation_config.json", R"({"repetition_penalty": 0})");
  const std::vector<Finding> findings = check_model(options);
  EXPECT_EQ(worst(findings), doctor::Severity::kProblem);
  ASSERT_GE(findings.size(), 2U);
  EXPECT_EQ(findings[1].severity, doctor::Severity::kProblem);
  EXPECT_THAT(findings[1].found, AllOf(HasSubstr("generation_config.json"), HasSubstr("repetition_penalty")));
  file("generation_config.json", R"({"top_k": -1})");
  EXPECT_EQ(worst(check_model(options)), doctor::Severity::kOk);
}

TEST_F(Doctor, ChecksMemory) {
  constexpr int64_t kGiB = 1 << 30;
  MemorySituation situation;
  situation.plan.layout.add_paged("target", 1 << 20);  // 16 tokens to the MiB
  situation.needs = {kGiB, 0, 0};
  situation.wishes = {0, 16 * 1024, false, 1};  // a GiB of cache
  const auto severity = [&situation](int64_t available) {
    situation.available = {available, 0};
    return check_memory(situation).severity;
  };
  EXPECT_EQ(severity(4 * kGiB), doctor::Severity::kOk);
  EXPECT_EQ(severity(2 * kGiB), doctor::Severity::kWarning);
  EXPECT_EQ(severity(kGiB), doctor::Severity::kProblem);
  EXPECT_EQ(severity(0), doctor::Severity::kOk);  // unknown
}

TEST_F(Doctor, ChecksKeysAndWhoReachesTheServer) {
  EXPECT_EQ(check_access("127.0.0.1", {}, "").severity, doctor::Severity::kOk);
  EXPECT_EQ(check_access("[::1]", {}, "").severity, doctor::Severity::kOk);
  EXPECT_EQ(check_access("0.0.0.0", {}, "").severity, doctor::Severity::kWarning);
  EXPECT_EQ(check_access("0.0.0.0", {"key"}, "").severity, doctor::Severity::kOk);
  EXPECT_EQ(check_access("0.0.0.0", {}, file("keys", "# mine\nkey\n")).found, "1 key");
  const Finding missing = check_access("127.0.0.1", {}, "/nosuch");
  EXPECT_EQ(missing.severity, doctor::Severity::kProblem);
  EXPECT_THAT(missing.found, HasSubstr("/nosuch"));
}

TEST_F(Doctor, ChecksTheRequestLog) {
  EXPECT_EQ(check_request_log("").severity, doctor::Severity::kOk);
  EXPECT_EQ(check_request_log((folder_ / "new.db").string()).severity, doctor::Severity::kOk);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "new.db"));
  EXPECT_EQ(check_request_log("/nosuch/x.db").severity, doctor::Severity::kProblem);
  EXPECT_EQ(check_request_log(folder_.path().string()).severity, doctor::Severity::kProblem);
  const Finding text = check_request_log(file("notes.txt", std::string(4096, 'x')));
  EXPECT_EQ(text.severity, doctor::Severity::kProblem);
  EXPECT_THAT(text.found, HasSubstr("not a database"));
  EXPECT_EQ(check_request_log(file("short.txt", "a note\n")).severity, doctor::Severity::kProblem);
  EXPECT_EQ(check_request_log("/dev/full").severity, doctor::Severity::kProblem);
  EXPECT_EQ(check_request_log(file("empty.db", "")).severity, doctor::Severity::kOk);
}

TEST_F(Doctor, AModelThatAServerWouldFetchIsNoProblem) {
  ::setenv("HF_HUB_CACHE", folder_.path().c_str(), 1);
  SessionOptions options;
  options.device = "cpu";
  options.model = "harbour/pebble";
  std::vector<Finding> findings = check_model(options);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, doctor::Severity::kWarning);
  EXPECT_THAT(findings[0].advice, HasSubstr("ashlar pull harbour/pebble"));
  // Half of it is there.
  const std::string commit(40, 'a');
  const auto repo = folder_ / "models--harbour--pebble";
  std::filesystem::create_directories(repo / "refs");
  std::filesystem::create_directories(repo / "snapshots" / commit);
  std::ofstream(repo / "refs" / "main") << commit;
  std::ofstream(repo / "snapshots" / commit / "config.json") << R"({"model_type": "qwen3"})";
  std::ofstream(repo / "snapshots" / commit / "model.safetensors") << "x";
  findings = check_model(options);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].severity, doctor::Severity::kWarning);
  EXPECT_THAT(findings[0].found, HasSubstr("it lacks tokenizer.json"));
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  EXPECT_EQ(check_model(options).at(0).severity, doctor::Severity::kProblem);
  ::unsetenv("HF_HUB_OFFLINE");
  ::unsetenv("HF_HUB_CACHE");
}

TEST_F(Doctor, ACacheThatCannotBeHadIsAProblem) {
  SessionOptions options;
  options.device = "cpu";
  options.model = std::string(ASHLAR_SOURCE_DIR) + "/models/pebble-11m";
  options.engine.kv_bytes = int64_t{1} << 49;
  Finding last = check_model(options).back();
  EXPECT_EQ(last.severity, doctor::Severity::kProblem);
  EXPECT_THAT(last.found, HasSubstr("--kv-memory"));
  options.engine.kv_bytes = 1 << 20;
  last = check_model(options).back();
  EXPECT_EQ(last.severity, doctor::Severity::kProblem);
  EXPECT_THAT(last.found, testing::AllOf(HasSubstr("31.0 MiB"), HasSubstr("--max-context")));
}

TEST_F(Doctor, ChecksTheMachine) {
  EXPECT_NE(check_cpu("").severity, doctor::Severity::kProblem);
  EXPECT_EQ(check_cpu("abacus").severity, doctor::Severity::kProblem);
  const Cores four = {{{0, 0}, {2, 2}, {4, 4}, {6, 6}, {1, 0}, {3, 2}, {5, 4}, {7, 6}}, 4, 0};
  EXPECT_EQ(check_cores(0, four).severity, doctor::Severity::kOk);
  EXPECT_THAT(check_cores(0, four).found, AllOf(HasSubstr("8 hardware threads"), HasSubstr("; 4 threads")));
  EXPECT_EQ(check_cores(5, four).severity, doctor::Severity::kWarning);
  const Cores limited = {four.cpus, 4, 2.5};
  EXPECT_EQ(check_cores(0, limited).severity, doctor::Severity::kOk);
  EXPECT_THAT(check_cores(0, limited).found, AllOf(HasSubstr("2.5"), HasSubstr("; 2 threads")));
  EXPECT_EQ(check_cores(3, limited).severity, doctor::Severity::kWarning);
  EXPECT_THAT(check_cores(3, limited).advice, HasSubstr("--threads 2"));
  EXPECT_THAT(check_cores(0, {four.cpus, 4, 128.5}).found, HasSubstr("128.5"));
  EXPECT_EQ(check_huge_pages(file("thp", "always [madvise] never\n")).severity, doctor::Severity::kOk);
  EXPECT_EQ(check_huge_pages(file("thp", "always madvise [never]\n")).severity, doctor::Severity::kWarning);
  EXPECT_EQ(check_huge_pages(folder_ / "none").severity, doctor::Severity::kWarning);
  EXPECT_EQ(check_descriptors(1).severity, doctor::Severity::kOk);
  EXPECT_EQ(check_descriptors(int64_t{1} << 41).severity, doctor::Severity::kWarning);
  EXPECT_EQ(check_clock().severity, doctor::Severity::kOk);
  EXPECT_GT(read_bandwidth(2, 16 << 20), 1e8);
}

TEST_F(Doctor, SaysWhatGpusThereAreOrWhatIsMissing) {
  const std::vector<Finding> findings = check_gpus({{"ref", "", "NVIDIA X", "9 of 10 MiB free, driver for CUDA 13.0"},
                                                    {"cuda:1", "it has compute capability 7.5", "NVIDIA Y", ""},
                                                    {"cuda", "no NVIDIA driver is installed here", "", ""}});
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_EQ(findings[0].severity, doctor::Severity::kOk);
  EXPECT_EQ(findings[0].found, "ref: NVIDIA X, 9 of 10 MiB free, driver for CUDA 13.0");
  EXPECT_EQ(findings[1].severity, doctor::Severity::kWarning);
  EXPECT_THAT(findings[1].found, AllOf(HasSubstr("NVIDIA Y"), HasSubstr("7.5")));
  EXPECT_EQ(findings[1].advice, "--device auto, the default, takes ref");
  EXPECT_EQ(check_gpus({{"ref", "it is too old", "NVIDIA Y", ""}})[0].advice, "--device auto, the default, takes cpu");
  EXPECT_EQ(findings[2].severity, doctor::Severity::kOk);
  EXPECT_THAT(findings[2].found, HasSubstr("no NVIDIA driver"));
  EXPECT_EQ(check_gpus({}).size(), 1U);
  EXPECT_THAT(check_bandwidth("ref", {}).found, HasSubstr("GB/s of reading: a token"));
  EXPECT_THAT(check_bandwidth("cuda:77", {}).found, HasSubstr("GB/s of reading: a token"));
}

TEST_F(Doctor, ChecksThePort) {
  server::HttpServer server({}, [](const std::shared_ptr<server::Exchange>&) {});
  server.start();
  EXPECT_EQ(check_port("127.0.0.1", 0).severity, doctor::Severity::kOk);
  const Finding taken = check_port("127.0.0.1", server.port());
  EXPECT_EQ(taken.severity, doctor::Severity::kProblem);
  EXPECT_THAT(taken.advice, HasSubstr("another program"));
  EXPECT_EQ(check_port("192.0.2.1", 0).severity, doctor::Severity::kProblem);  // of no machine
}

TEST_F(Doctor, ChecksCertificates) {
  const auto good = certificate("good", 100 * 86400), other = certificate("other", 100 * 86400);
  const auto soon = certificate("soon", 86400), past = certificate("past", -3600);
  EXPECT_EQ(check_tls("", "").severity, doctor::Severity::kOk);
  EXPECT_EQ(check_tls(good.first, good.second).severity, doctor::Severity::kOk);
  EXPECT_EQ(check_tls(good.first, other.second).severity, doctor::Severity::kProblem);
  EXPECT_EQ(check_tls(good.first, "").severity, doctor::Severity::kProblem);
  EXPECT_EQ(check_tls(good.second, good.first).severity, doctor::Severity::kProblem);
  EXPECT_EQ(check_tls(soon.first, soon.second).severity, doctor::Severity::kWarning);
  EXPECT_EQ(check_tls(past.first, past.second).severity, doctor::Severity::kProblem);
  EXPECT_NO_THROW(try_tls(past.first, past.second));  // a server takes it: whether clients do is theirs to say
  EXPECT_THROW(try_tls(good.first, other.second), Error);
}

TEST_F(Doctor, ReportsForPeopleAndPrograms) {
  const std::vector<Finding> findings = {{"a", doctor::Severity::kOk, "fine", ""},
                                         {"b", doctor::Severity::kProblem, "broken", "mend it"}};
  EXPECT_EQ(worst(findings), doctor::Severity::kProblem);
  EXPECT_EQ(worst({}), doctor::Severity::kOk);
  EXPECT_EQ(report_lines(findings),
            "ok       a: fine\nproblem  b: broken\n         -> mend it\n2 checks, 0 warnings, 1 problem\n");
  EXPECT_EQ(report_json(findings), Json::parse(R"({"severity": "problem", "checks": [
      {"check": "a", "severity": "ok", "found": "fine"},
      {"check": "b", "severity": "problem", "found": "broken", "advice": "mend it"}]})"));
}

TEST_F(Doctor, ProbesAServer) {
  for (const bool tls : {false, true}) {
    server::HttpServer server(tls ? options_with(certificate("probe", 3600)) : server::HttpOptions{},
                              [](const std::shared_ptr<server::Exchange>& exchange) {
                                const bool well = exchange->request().path == "/health";
                                exchange->respond({well ? 200 : 503, "text/plain", exchange->request().path, {}});
                              });
    server.start();
    const std::string url = (tls ? "https://localhost:" : "http://127.0.0.1:") + std::to_string(server.port());
    for (const char* end : {"", "/"}) {
      const ProbeAnswer answer = probe(url + end, "/health", std::chrono::seconds(5));
      EXPECT_EQ(answer.status, 200);
      EXPECT_EQ(answer.body, "/health");
    }
    EXPECT_EQ(probe(url + "/other", "/health", std::chrono::seconds(5)).status, 503);
    if (!tls) {
      EXPECT_THROW(probe("https" + url.substr(4), "/", std::chrono::seconds(5)), Error);
    }
  }
}

TEST_F(Doctor, AProbeThatFailsSaysWhy) {
  for (const char* url : {"", "127.0.0.1:80", "ftp://x", "http://", "http://x:0", "http://x:70000", "http://x:8a",
                          "http://x:", "http://[::1", "http://a b", "http://127.0.0.1:1/\r\nX: y"}) {
    EXPECT_THROW(probe(url, "/", std::chrono::seconds(1)), Error) << url;
  }
  // Accepts and never answers.
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(listen(fd, 1), 0);  // on any free port of this machine
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  const int port = ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  const auto begin = std::chrono::steady_clock::now();
  try {
    probe("http://127.0.0.1:" + std::to_string(port), "/", std::chrono::milliseconds(200));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("in time"));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(3));
  close(fd);
}

}  // namespace
}  // namespace ashlar
