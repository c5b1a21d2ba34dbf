// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tree of rows in one call: every row sees its own path, as if that were a sequence by itself.

#include "cache.h"

namespace ashlar::conformance {

/// Rows of a tree, depth first: parents[r] comes before row r. Rows of the first branch lie in the pages of sequence 0,
/// those of others in scratch slots of the last sequence's pages.
struct TreeCase {
  std::vector<int32_t> parents;
  int32_t context;  ///< positions before the root
  int32_t window;   ///< keys that a row sees; 0: all
};

inline const std::vector<TreeCase>& tree_cases() {
  static const std::vector<TreeCase> cases = {
      {{-1, 0, 1, 2, 1, 4, 0, 6, 7, 0}, 5, 0},              // in the sequence's first page
      {{-1, 0, 1, 2, 3, 4, 2, 6, 7, 1, 9, 0}, 30, 0},       // over a page border
      {{-1, 0, 0, 0, 0}, 16, 0},                            // from a page border, one draft a branch
      {{-1, 0, 1, 0, 3, 4, 5}, 0, 0},                       // nothing before
      {{-1, 0, 1, 2, 3, 1, 5, 6, 0, 8, 9, 10, 8}, 252, 0},  // over a segment border
      {{-1, 0, 1, 0, 3}, 300, 0},                           // after a segment
      {{-1, 0, 1, 2, 0, 4, 5, 4}, 290, 24},                 // a window that begins after the segment border
      {{-1, 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,  // a long branch, and a longer one
        0,  17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38},
       20,
       0},
  };
  return cases;
}

/// Holds a tree's attention, and the pages after its last branch was committed, against each path in a sequence of its
/// own, bit for bit.
inline void expect_tree_is_its_paths(Ops& ops, const AttentionShape& shape, const TreeCase& tree,
                                     std::mt19937& random) {
  const auto n = static_cast<int32_t>(tree.parents.size());
  const int32_t width = shape.q_width() + 2 * shape.kv_width();
  std::vector<int32_t> depth(tree.parents.size());
  std::vector<int32_t> leaves;
  for (int32_t r = 0; r < n; ++r) {
    if (r > 0) depth[static_cast<size_t>(r)] = depth[static_cast<size_t>(tree.parents[static_cast<size_t>(r)])] + 1;
    if (r + 1 == n || tree.parents[static_cast<size_t>(r) + 1] != r) leaves.push_back(r);
  }
  const int32_t length = tree.context + n + 1;
  // Sequence 0 has the tree, one more for every leaf its path, the last one other rows; then scratch slots.
  const auto n_leaves = static_cast<int32_t>(leaves.size());
  std::vector<int32_t> lengths(static_cast<size_t>(n_leaves) + 1, length);
  lengths.push_back(40);
  lengths.push_back((n + kScratchSlotsPerPage - 1) / kScratchSlotsPerPage * kPageTokens);
  const int32_t last_sequence = n_leaves + 1;
  Cache cache(ops, shape, lengths, 7);
  const IdentityRope rope(shape.head_dim, length + 48);

  Matrix before(std::max(tree.context, 1), 2 * shape.kv_width());
  before.fill_normal(random);
  Matrix others(40, 2 * shape.kv_width());
  others.fill_normal(random);
  for (int32_t s = 0; s <= n_leaves; ++s) {
    std::vector<Row> rows;
    for (int32_t p = 0; p < tree.context; ++p) rows.push_back({s, p});
    Matrix copy = before;
    if (tree.context > 0) cache.store(copy, RowList(rows), nullptr, nullptr, rope.table);
  }
  std::vector<Row> filling;
  for (int32_t p = 0; p < 40; ++p) filling.push_back({last_sequence, p});
  cache.store(others, RowList(filling), nullptr, nullptr, rope.table);

  const auto begin_of = [&](int32_t position) { return tree.window > 0 ? std::max(0, position - tree.window + 1) : 0; };
  Matrix qkv(n + 2, width);  // a row of the last one before and after
  qkv.fill_normal(random, 1.5F);
  Matrix original = qkv;

  // The tree: tables 0 (the last one), 1 (first branch), 2... (branches), then the last one again.
  std::vector<const int32_t*> tables = {cache.tables()[static_cast<size_t>(last_sequence)], cache.tables()[0]};
  std::vector<std::vector<int32_t>> paths(2);
  std::vector<int32_t> firsts(2, 0);
  std::vector<Row> rows = {{0, 39, 0, 40}};
  std::vector<int32_t> scratch_slots = {-1};
  int32_t used = 0;
  for (int32_t r = 0; r < n; ++r) {
    const int32_t parent = tree.parents[static_cast<size_t>(r)];
    if (r > 0 && parent != r - 1) {
      tables.push_back(cache.tables()[0]);
      auto& path = paths.emplace_back();
      for (int32_t a = parent; a > 0 && scratch_slots[static_cast<size_t>(a) + 1] >= 0;
           a = tree.parents[static_cast<size_t>(a)])
        path.insert(path.begin(), scratch_slots[static_cast<size_t>(a) + 1]);
      firsts.push_back(tree.context + depth[static_cast<size_t>(parent)] + 1 - static_cast<int32_t>(path.size()));
    }
    const bool in_scratch = tables.size() > 2;
    const int32_t page = cache.tables().back()[used / kScratchSlotsPerPage];
    scratch_slots.push_back(in_scratch ? page * kScratchSlotsPerPage + used % kScratchSlotsPerPage : -1);
    if (in_scratch) {
      ++used;
      paths.back().push_back(scratch_slots.back());
    }
    const int32_t position = tree.context + depth[static_cast<size_t>(r)];
    rows.push_back({static_cast<int32_t>(tables.size()) - 1, position, begin_of(position), position + 1});
  }
  tables.push_back(tables[0]);
  paths.emplace_back();
  firsts.push_back(0);
  rows.push_back({static_cast<int32_t>(tables.size()) - 1, 39, 0, 40});
  scratch_slots.push_back(-1);
  std::vector<BranchTable> branch_tables;
  for (size_t t = 0; t < tables.size(); ++t)
    branch_tables.push_back({firsts[t], static_cast<int32_t>(paths[t].size()), paths[t].data()});
  const RowList list(rows);
  Rows all = list.rows(tables);
  all.scratch_slots = scratch_slots.data();
  all.branch_tables = branch_tables.data();
  ops.store_kv(qkv.view(), {shape, nullptr, nullptr, 1e-6F, rope.table, all, cache.plane()});
  Matrix got(n + 2, shape.q_width());
  ops.attention(qkv.view(), shape, all, list.visible(), cache.plane(), got.view());
  ASSERT_TRUE(same_bits(qkv.row(0), original.row(0), width));

  const auto path_to = [&](int32_t leaf) {
    std::vector<int32_t> path;
    for (int32_t r = leaf; r >= 0; r = tree.parents[static_cast<size_t>(r)]) path.insert(path.begin(), r);
    return path;
  };
  for (int32_t l = 0; l < n_leaves; ++l) {
    const std::vector<int32_t> path = path_to(leaves[static_cast<size_t>(l)]);
    Matrix chain(static_cast<int32_t>(path.size()), width);
    std::vector<Row> steps;
    for (size_t i = 0; i < path.size(); ++i) {
      const int32_t position = tree.context + static_cast<int32_t>(i);
      std::copy_n(original.row(path[i] + 1), width, chain.row(static_cast<int32_t>(i)));
      steps.push_back({l + 1, position, begin_of(position), position + 1});
    }
    const RowList alone(steps);
    Matrix want(chain.view().rows, shape.q_width());
    cache.store(chain, alone, nullptr, nullptr, rope.table);
    cache.attend(chain, alone, want);
    for (size_t i = 0; i < path.size(); ++i) {
      ASSERT_TRUE(same_bits(got.row(path[i] + 1), want.row(static_cast<int32_t>(i)), shape.q_width()))
          << "dim " << shape.head_dim << " context " << tree.context << " leaf " << leaves[static_cast<size_t>(l)]
          << " row " << path[i];
    }
  }
  // The last leaf is committed: one row after it sees the same in both sequences.
  const BranchTable& last = branch_tables[branch_tables.size() - 2];
  ops.commit_kv(shape, last, cache.tables()[0], cache.plane());
  const int32_t end = tree.context + static_cast<int32_t>(path_to(leaves.back()).size());
  Matrix pair(2, width);
  pair.fill_normal(random);
  std::copy_n(pair.row(0), width, pair.row(1));
  const RowList after({{0, end - 1, begin_of(end), end}, {n_leaves, end - 1, begin_of(end), end}});
  Matrix seen(2, shape.q_width());
  cache.attend(pair, after, seen);
  ASSERT_TRUE(same_bits(seen.row(0), seen.row(1), shape.q_width())) << "committed, context " << tree.context;
}

}  // namespace ashlar::conformance
