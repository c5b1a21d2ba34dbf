// Memory that runs out anywhere between a request's arrival and its end: that request may fail, the server must not.

#include <gtest/gtest.h>

#include <atomic>

#include "io/json.h"
#include "scenario/replaced_new.h"

namespace {

std::atomic<int64_t> made{0};  // allocations of the server's threads
std::atomic<int64_t> first_failing{INT64_MAX}, end_of_failing{INT64_MAX};
thread_local bool is_client = false;

}  // namespace

bool ashlar::testing::next_allocation_fails() {
  if (is_client) return false;
  const int64_t number = made.fetch_add(1);
  return number >= first_failing.load() && number < end_of_failing.load();
}

namespace ashlar::server::test {
namespace {

/// For its life `count` allocations fail, from number `from` on, counted from now.
class Shortage {
 public:
  Shortage(int64_t from, int64_t count) {
    const int64_t now = made.load();
    end_of_failing = count == INT64_MAX ? INT64_MAX : now + from + count;
    first_failing = now + from;
  }
  ~Shortage() { first_failing = INT64_MAX; }
};

constexpr const char* kDocument =
    R"({"a":[1,[2.5,{"b":"a text that is longer than what a string has room for","c":[]}],null],"d":{"e":{"f":[true]}},)"
    R"("g":[[[{}]]],"h":{"i":1,"j":2,"k":{"l":"another text that is longer than that room"}}})";

TEST(JsonMemory, ADocumentGoesWithoutAllocating) {
  Json document = parse_json(kDocument, "it");
  Json copy = document;
  const int64_t before = made;
  document = nullptr;
  { const Json gone = std::move(copy); }
  EXPECT_EQ(made - before, 0);
}

TEST(JsonMemory, AParserThatRunsOutOfItThrows) {
  for (const int64_t count : {int64_t{1}, INT64_MAX}) {
    int64_t n = 0;
    for (bool failed = true; failed; ++n) {
      const Shortage shortage(n, count);
      try {
        EXPECT_EQ(parse_json(kDocument, "it").size(), 4U);
        failed = false;
      } catch (const std::bad_alloc&) {
      }
    }
    EXPECT_GT(n, 20);
  }
}

}  // namespace
}  // namespace ashlar::server::test
