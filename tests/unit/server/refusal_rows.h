// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bad input, row by row: every refusal is a 400 that names the field.

#include <gtest/gtest.h>

#include "text/tokenizer/utf8.h"
#include "unit/server/api_support.h"

namespace ashlar::server::test {

struct Row {
  const char* members;  ///< laid over the smallest body
  const char* param;
};

inline void check_rows(Endpoint endpoint, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const auto error = refusal_of(endpoint, with(endpoint, row.members));
    ASSERT_TRUE(error.has_value()) << row.members;
    EXPECT_EQ(error->param, row.param) << row.members << " -> " << error->message;
    EXPECT_EQ(error->status, 400);
    EXPECT_EQ(error->message.rfind(row.param, 0), 0u) << error->message;
    EXPECT_EQ(error->message.find(": " + std::string(row.param) + " "), std::string::npos) << error->message;
    EXPECT_GT(error->message.size(), std::string(row.param).size() + 10) << error->message;
    EXPECT_TRUE(text::is_valid_utf8(error->message));
  }
}

}  // namespace ashlar::server::test
