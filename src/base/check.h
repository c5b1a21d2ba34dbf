// SPDX-License-Identifier: Apache-2.0
#pragma once
// ASHLAR_CHECK: a broken invariant of ours. Always on; prints both sides and aborts. User input never reaches one.

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace ashlar::detail {

[[noreturn]] inline void check_failed(const char* file, int line, const char* text, const std::string& values) {
  std::fprintf(stderr, "%s:%d: check failed: %s%s\n", file, line, text, values.c_str());
  std::fflush(stderr);
  std::abort();
}

template <class A, class B>
std::string both_sides(const A& a, const B& b) {
  std::ostringstream out;
  out << " (" << a << " against " << b << ")";
  return out.str();
}

}  // namespace ashlar::detail

#define ASHLAR_CHECK(condition)                                                      \
  do {                                                                               \
    if (!(condition)) [[unlikely]]                                                   \
      ::ashlar::detail::check_failed(__FILE__, __LINE__, #condition, std::string{}); \
  } while (0)

#define ASHLAR_CHECK_OP(op, a, b)                                                     \
  do {                                                                                \
    const auto& check_a = (a);                                                        \
    const auto& check_b = (b);                                                        \
    if (!(check_a op check_b)) [[unlikely]]                                           \
      ::ashlar::detail::check_failed(__FILE__, __LINE__, #a " " #op " " #b,           \
                                     ::ashlar::detail::both_sides(check_a, check_b)); \
  } while (0)

#define ASHLAR_CHECK_EQ(a, b) ASHLAR_CHECK_OP(==, a, b)
#define ASHLAR_CHECK_NE(a, b) ASHLAR_CHECK_OP(!=, a, b)
#define ASHLAR_CHECK_LE(a, b) ASHLAR_CHECK_OP(<=, a, b)
#define ASHLAR_CHECK_LT(a, b) ASHLAR_CHECK_OP(<, a, b)
#define ASHLAR_CHECK_GE(a, b) ASHLAR_CHECK_OP(>=, a, b)
