// SPDX-License-Identifier: Apache-2.0
// Values are destroyed without memory, wherever that happens: also where memory has just run out.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/client_json.h"
#include "io/json.h"

// Where memory ends while the JSON library fills a value from a list in braces, that value's container is left over:
// its constructor throws, so that no destructor runs.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the sanitizer's name
extern "C" const char* __lsan_default_suppressions() { return "leak:basic_json(std::initializer_list\n"; }

namespace {

int64_t made = 0;  // allocations so far
int64_t live = 0;  // of which were not released
int64_t first_failing = INT64_MAX, end_of_failing = INT64_MAX;

// Apart: where a compiler sees through delete but not through new, it takes free() for a mistake.
[[gnu::noinline]] void release(void* memory) noexcept {
  if (memory != nullptr) --live;
  std::free(memory);
}

}  // namespace

// The sanitizers' own forms do not call these: each form that is used here is replaced.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  const int64_t number = made++;
  void* const memory = number >= first_failing && number < end_of_failing ? nullptr : std::malloc(bytes);
  if (memory != nullptr) ++live;
  return memory;
}
void* operator new(size_t bytes) {
  if (void* const memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete(void* memory, size_t) noexcept { release(memory); }

namespace ashlar::testing {
namespace {

template <class Document>
int64_t allocations_of_destroying(Document document) {
  std::optional<Document> held(std::move(document));
  const int64_t before = made;
  held.reset();
  return made - before;
}

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
}

TEST(JsonDestruction, AllocatesNothing) {
  std::string numbers = "[0";
  std::string members = R"({"a": "a text that is longer than what a string holds by itself")";
  for (int i = 0; i < 2000; ++i) {
    numbers += "," + std::to_string(i);
    members += ",\"" + std::to_string(i) + R"(": {"role": "user", "content": [1, "x", {"y": null}]})";
  }
  for (const std::string& text : {numbers + "]", members + "}", nested(64)}) {
    EXPECT_EQ(allocations_of_destroying(parse_json(text, "test")), 0);
    // The library's own type does otherwise.
    EXPECT_GT(allocations_of_destroying(nlohmann::ordered_json::parse(text)), 0);
  }
  EXPECT_EQ(allocations_of_destroying(Json("text")), 0);
}

TEST(JsonDestruction, OfWhatIsReplacedErasedOrMovedFromAllocatesNothing) {
  Json document = parse_json(R"({"a": [[1, 2], {"b": [3]}], "c": {"d": [4, [5]]}, "e": [6]})", "test");
  Json copy = document;
  Json taken = std::move(document["c"]);
  const int64_t before = made;
  document["a"] = nullptr;
  document.erase("e");
  taken.clear();
  copy["a"].erase(1);
  { const Json gone = std::move(copy); }
  EXPECT_EQ(made - before, 0);
  EXPECT_EQ(document, Json::parse(R"({"a": null, "c": null})"));
}

// What destroying a value must not see, all others do.
TEST(JsonContainers, AreWhole) {
  const Json items = parse_json("[1,[2,3],{\"a\":4}]", "test");
  EXPECT_EQ(items.size(), 3U);
  EXPECT_EQ(items.get_ref<const Json::array_t&>().size(), 3U);
  EXPECT_EQ(items.get<std::vector<Json>>().size(), 3U);
  EXPECT_EQ(std::distance(items.begin(), items.end()), 3);
  EXPECT_EQ(std::distance(items.rbegin(), items.rend()), 3);
  EXPECT_EQ(Json(std::vector<int>{1, 2}).dump(), "[1,2]");
  Json members = {{"b", 1}, {"a", {{"c", nullptr}}}};
  EXPECT_EQ(members.size(), 2U);
  EXPECT_EQ(members.get_ref<Json::object_t&>().begin()->first, "b");
  members.update({{"b", 2}});
  EXPECT_EQ(members.dump(), R"({"b":2,"a":{"c":null}})");
  EXPECT_EQ(members, nlohmann::ordered_json::parse(members.dump()).get<Json>());
}

class Shortage {
 public:
  Shortage(int64_t from, int64_t count) {
    end_of_failing = count == INT64_MAX ? INT64_MAX : made + from + count;
    first_failing = made + from;
  }
  ~Shortage() { first_failing = INT64_MAX; }
};

// Calls `life` for each of its allocations, which fails, alone and with all that follow. Returns how many there are.
template <class Life>
int64_t fail_each_allocation(const Life& life) {
  int64_t n = 0;
  for (const int64_t count : {int64_t{1}, INT64_MAX}) {
    n = 0;
    for (bool reached = true; reached; ++n) {
      const Shortage shortage(n, count);
      try {
        life();
      } catch (const std::bad_alloc&) {
      }
      reached = made > first_failing;
    }
  }
  return n;
}

constexpr const char* kDocument =
    R"({"a":[1,[2.5,{"b":"a text that is longer than what a string has room for","c":[]}],null],"d":{"e":{"f":[1]}},)"
    R"("g":[[[{}]]],"h":"\ud800 is half of a pair, and the text is long","i":{"j":[{"k":"l"},{"m":["n"]}]}})";

// A request's document: parsed, read, copied, moved from, changed.
TEST(JsonMemory, WhereItEndsInADocumentAllIsReleased) {
  const auto life = [] {
    const int64_t before = live;
    const auto use = [] {
      Json document = parse_client_json(kDocument, "test");
      const Json copy = document["a"];
      const Json taken = std::move(document["d"]);
      Json kept = Json::object();
      kept["copy"] = copy;
      kept["all"] = document;
      document = copy;
      kept["all"].erase("i");
      return kept.dump().size() + taken.size();
    };
    try {
      use();
    } catch (const std::bad_alloc&) {
    }
    EXPECT_EQ(live, before);
  };
  EXPECT_GT(fail_each_allocation(life), 100);
}

// Lists in braces have values that are destroyed with each of them.
TEST(JsonMemory, WhereItEndsInAnAnswerAnExceptionPasses) {
  const Json content = parse_json(R"({"a":[1,{"b":[]}]})", "test");
  const auto life = [&] {
    Json answer = {{"x", {1, {{"y", Json::array({content, "z"})}}}}, {"content", content}};
    answer.update({{"more", {{"of", content}}}});
    answer["x"].push_back({{"end", nullptr}});
  };
  EXPECT_GT(fail_each_allocation(life), 50);
}

}  // namespace
}  // namespace ashlar::testing
