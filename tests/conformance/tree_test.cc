// SPDX-License-Identifier: Apache-2.0
// Branches of drafts: rows in scratch slots, branch tables over the pages.

#include "tree.h"

namespace ashlar::conformance {
namespace {

constexpr AttentionShape kTreeShapes[] = {
    {4, 2, 64, 0.125F}, {8, 1, 32, 0.2F},   {6, 6, 80, 0.11F},    {4, 4, 128, 0.09F},
    {3, 1, 10, 0.3F},   {40, 1, 16, 0.25F}, {4, 1, 256, 0.0625F},
};

class Tree : public OnIsa {};

TEST_P(Tree, RowsSeeTheirOwnPathBitForBit) {
  for (const AttentionShape& shape : kTreeShapes) {
    for (KvDType kv : kv_dtypes(shape.head_dim)) {
      for (int32_t threads : {1, 3}) {
        const auto ops = make(threads, kv);
        for (const TreeCase& tree : tree_cases()) expect_tree_is_its_paths(*ops, shape, tree, random_);
      }
    }
  }
}

ASHLAR_FOR_EACH_ISA(Tree);

TEST(TreeOnRef, RowsSeeTheirOwnPath) {
  std::mt19937 random(3);
  for (const AttentionShape& shape : kTreeShapes) {
    for (KvDType kv : kv_dtypes_of(shape.head_dim)) {
      const auto ops = make_ref_ops(kv);
      for (const TreeCase& tree : tree_cases()) expect_tree_is_its_paths(*ops, shape, tree, random);
    }
  }
}

}  // namespace
}  // namespace ashlar::conformance
