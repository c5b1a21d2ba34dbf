// A document is destroyed without memory, wherever that happens: also where memory has just run out.

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <optional>

#include "io/json.h"

namespace {

std::optional<int64_t> allocations;  // counted while there is a number

}  // namespace

void* operator new(size_t bytes) {
  if (allocations) ++*allocations;
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace ashlar::testing {
namespace {

template <class Document>
int64_t allocations_of_destroying(Document document) {
  std::optional<Document> held(std::move(document));
  allocations = 0;
  held.reset();
  const int64_t counted = *allocations;
  allocations.reset();
  return counted;
}

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') + std::string(static_cast<size_t>(depth), ']');
}

TEST(JsonDestruction, AllocatesNothing) {
  std::string numbers = "[0";
  std::string members = R"({"a": "a text that is longer than what a string holds by itself")";
  for (int i = 0; i < 20000; ++i) {
    numbers += "," + std::to_string(i);
    members += ",\"" + std::to_string(i) + R"(": {"role": "user", "content": [1, "x", {"y": null}]})";
  }
  for (const std::string& text : {numbers + "]", members + "}", nested(64)}) {
    EXPECT_EQ(allocations_of_destroying(parse_json(text, "test")), 0);
    // The library's own type, which nothing here changes, does otherwise.
    EXPECT_GT(allocations_of_destroying(nlohmann::ordered_json::parse(text)), 0);
  }
  EXPECT_EQ(allocations_of_destroying(Json("text")), 0);
}

}  // namespace
}  // namespace ashlar::testing
