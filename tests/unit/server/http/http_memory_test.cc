// SPDX-License-Identifier: Apache-2.0
// Memory that runs out in the server: that request may fail, the next one must not.

#include <gtest/gtest.h>

#include <atomic>

#include "http_test_client.h"
#include "http_test_server.h"
#include "scenario/replaced_new.h"

namespace {

std::atomic<int64_t> until_failure{-1};  // allocations of the server's threads; negative: none fails
thread_local bool is_client = false;

}  // namespace

bool ashlar::testing::next_allocation_fails() {
  return !is_client && until_failure.load() >= 0 && until_failure.fetch_sub(1) == 0;
}

namespace ashlar::server {
namespace {

using std::chrono::milliseconds;

class HttpMemory : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, HttpMemory, ::testing::Values(1, 3));

// Each allocation in turn, from accepting a client to its end, until a request needs no more than are let pass.
TEST_P(HttpMemory, OneFailedAllocationEndsOneConnectionAtMost) {
  is_client = true;
  HttpOptions options;
  options.io_threads = GetParam();
  options.header_timeout = options.idle_timeout = options.write_timeout = options.linger = milliseconds(200);
  TestServer server(options);
  ASSERT_EQ(TestClient(server.port()).ask(get("/echo")).status, 200);
  int64_t n = 0;
  for (bool failed = true; failed; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    ASSERT_TRUE(eventually([&] { return server->counters().open_connections == 0; }));
    until_failure = n;
    {
      TestClient client(server.port());
      client.send(get("/echo", "Connection: close\r\n"));
      client.read(false, 500);
      // What ends the connection allocates as well.
      ASSERT_TRUE(eventually([&] { return server->counters().open_connections == 0; }));
    }
    failed = until_failure.exchange(-1) < 0;
    TestClient next(server.port());
    ASSERT_EQ(next.ask(get("/echo")).status, 200);
  }
  EXPECT_GT(n, 20);
  EXPECT_TRUE(server->drain(std::chrono::steady_clock::now() + std::chrono::seconds(5)));
}

}  // namespace
}  // namespace ashlar::server
