// SPDX-License-Identifier: Apache-2.0
#include "train/data/document_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "train/data/batch_order.h"

namespace ashlar {
namespace {

EncodedDocument document_of(std::vector<int32_t> ids, std::vector<uint8_t> supervised) {
  return {std::move(ids), std::move(supervised), 0};
}

TEST(DocumentSet, CutsAndLeavesOutAndCounts) {
  DocumentSet set(3);
  set.add(document_of({1, 2, 3, 4}, {0, 1, 1, 1}));
  set.add(document_of({1, 2, 3, 4}, {0, 0, 0, 1}));  // nothing is left to learn
  set.add(document_of({5, 6}, {0, 0}));
  set.add(document_of({5, 6}, {1, 0}));  // the first token follows nothing
  set.add(document_of({7}, {1}));
  set.add(document_of({8, 9}, {0, 1}));
  set.end_file();
  ASSERT_EQ(set.size(), 2u);
  EXPECT_THAT(set.ids(0), ::testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(set.supervised(0), ::testing::ElementsAre(0, 1, 1));
  EXPECT_THAT(set.ids(1), ::testing::ElementsAre(8, 9));
  EXPECT_EQ(set.counts().cut, 1);
  EXPECT_EQ(set.counts().unsupervised, 4);
  EXPECT_EQ(set.counts().tokens, 5);
  EXPECT_EQ(set.counts().supervised, 3);
}

DocumentSet files_of(const std::vector<int>& sizes) {
  DocumentSet set(10);
  for (const int n : sizes) {
    for (int i = 0; i < n; ++i) set.add(document_of({i, n}, {0, 1}));
    set.end_file();
  }
  return set;
}

TEST(DocumentSet, HoldsOutTheEndOfEachFile) {
  EXPECT_THAT(files_of({9}).held_out(), ::testing::IsEmpty());
  EXPECT_THAT(files_of({10}).held_out(), ::testing::ElementsAre(9));
  EXPECT_THAT(files_of({200}).held_out(), ::testing::ElementsAre(196, 197, 198, 199));
  EXPECT_EQ(files_of({10'000}).held_out().size(), 50u);
  const DocumentSet two = files_of({100, 200});
  EXPECT_THAT(two.held_out(), ::testing::ElementsAre(98, 99, 296, 297, 298, 299));
  std::vector<size_t> all = two.training();
  EXPECT_EQ(all.size(), 294u);
  const std::vector<size_t> held = two.held_out();
  all.insert(all.end(), held.begin(), held.end());
  std::sort(all.begin(), all.end());
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i);
}

TEST(DocumentSet, OtherDataHaveAnotherFingerprint) {
  DocumentSet a(10), b(10), c(10), d(10);
  a.add(document_of({1, 2, 3}, {0, 1, 1}));
  b.add(document_of({1, 2, 3}, {0, 0, 1}));
  c.add(document_of({1, 2, 4}, {0, 1, 1}));
  d.add(document_of({1, 2, 3}, {0, 1, 1}));
  for (DocumentSet* set : {&a, &b, &c, &d}) set->end_file();
  EXPECT_EQ(a.fingerprint(), d.fingerprint());
  EXPECT_NE(a.fingerprint(), b.fingerprint());
  EXPECT_NE(a.fingerprint(), c.fingerprint());
  DocumentSet weighted(10);
  weighted.add(document_of({1, 2, 3}, {0, 1, 1}));
  weighted.end_file(2);
  EXPECT_NE(a.fingerprint(), weighted.fingerprint());
  EXPECT_EQ(weighted.weight(0), 2);
}

std::vector<OrderedDocument> documents_of(size_t n) {
  std::vector<OrderedDocument> documents(n);
  for (size_t i = 0; i < n; ++i) documents[i].length = static_cast<int32_t>(5 + i * i % 37);
  return documents;
}

TEST(BatchOrder, AnEpochHasEveryDocumentOnceInBatchesThatAreFull) {
  const std::vector<OrderedDocument> documents = documents_of(101);
  BatchOrder order(documents, 100, 1);
  const int64_t steps = order.steps_of(2);
  std::vector<int> seen(documents.size());
  for (int64_t step = 0; step < steps; ++step) {
    int64_t tokens = 0;
    for (const int32_t document : order.batch(step)) {
      ++seen[static_cast<size_t>(document)];
      tokens += documents[static_cast<size_t>(document)].length;
    }
    EXPECT_LE(tokens, 100);
    EXPECT_GT(tokens, 0);
    const bool last = order.epoch_of(step + 1) != order.epoch_of(step);
    if (last) {
      EXPECT_THAT(seen, ::testing::Each(order.epoch_of(step) + 1));
    }
    if (!last) {
      EXPECT_GT(tokens + documents[static_cast<size_t>(order.batch(step + 1).front())].length, 100);
    }
  }
  EXPECT_EQ(order.epoch_of(steps), 2);
}

TEST(BatchOrder, ABatchIsAFunctionOfSeedAndStep) {
  const std::vector<OrderedDocument> documents = documents_of(57);
  BatchOrder forward(documents, 64, 5), other(documents, 64, 6);
  std::vector<std::vector<int32_t>> batches;
  for (int64_t step = 0; step < 80; ++step) batches.push_back(forward.batch(step));
  for (const int64_t step : {79, 3, 41, 0, 78}) {
    BatchOrder fresh(documents, 64, 5);
    EXPECT_EQ(fresh.batch(step), batches[static_cast<size_t>(step)]);
    EXPECT_EQ(forward.batch(step), batches[static_cast<size_t>(step)]);  // backwards, too
  }
  EXPECT_NE(other.batch(0), batches[0]);
  EXPECT_NE(forward.permutation(0), forward.permutation(1));
}

// Of 20 000 orders of three documents each of the six comes in a sixth of the cases: 5 standard deviations are 1.3 %.
TEST(BatchOrder, EveryOrderIsAsLikely) {
  BatchOrder order({{1}, {1}, {1}}, 1, 9);
  std::map<std::vector<int32_t>, int> seen;
  for (int64_t epoch = 0; epoch < 20'000; ++epoch) ++seen[order.permutation(epoch)];
  ASSERT_EQ(seen.size(), 6u);
  for (const auto& [permutation, n] : seen) EXPECT_NEAR(n / 20'000.0, 1.0 / 6, 0.0132);
}

// After n epochs a document was seen n times its weight, up to one, whether weights are whole or not; of many documents
// with a fraction every epoch has about their share; and the order of those with a weight of 1 is what it is alone.
TEST(BatchOrder, WeightsSayHowOftenDocumentsAreSeen) {
  constexpr int kEach = 100;
  const std::vector<double> weights = {1, 2, 0.5, 2.75, 0.125};
  std::vector<OrderedDocument> documents;
  for (const double weight : weights) documents.insert(documents.end(), kEach, {4, weight});
  const BatchOrder order(documents, 16, 3);
  std::vector<int> seen(documents.size());
  std::set<std::vector<int32_t>> ones;
  for (int epoch = 0; epoch < 8; ++epoch) {
    std::vector<int> of_file(weights.size());
    std::vector<int32_t> first_file;
    for (const int32_t document : order.permutation(epoch)) {
      ++seen[static_cast<size_t>(document)];
      ++of_file[static_cast<size_t>(document / kEach)];
      if (document < kEach) first_file.push_back(document);
    }
    for (size_t file = 0; file < weights.size(); ++file) EXPECT_NEAR(of_file[file], weights[file] * kEach, 4) << file;
    for (size_t i = 0; i < documents.size(); ++i) {
      EXPECT_LT(std::abs(seen[i] - (epoch + 1) * documents[i].weight), 1) << i << " after epoch " << epoch;
    }
    EXPECT_EQ(first_file, BatchOrder(std::vector<OrderedDocument>(kEach, {4, 1}), 16, 3).permutation(epoch));
    ones.insert(first_file);
  }
  EXPECT_EQ(ones.size(), 8U);
}

// Three documents that an epoch in ten has each: most epochs have no step, and none is lost or counted twice.
TEST(BatchOrder, EpochsMayBeEmpty) {
  BatchOrder order(std::vector<OrderedDocument>(3, {5, 0.1}), 5, 0);
  EXPECT_EQ(order.steps_of(10), 3);
  std::vector<int32_t> seen;
  for (int64_t step = 0; step < 3; ++step) {
    ASSERT_EQ(order.batch(step).size(), 1U);
    seen.push_back(order.batch(step).front());
  }
  EXPECT_THAT(seen, ::testing::UnorderedElementsAre(0, 1, 2));
  EXPECT_LT(order.epoch_of(2), 10);
}

TEST(BatchOrder, ALongDocumentIsABatchOfItsOwn) {
  BatchOrder order({{500}, {3}}, 10, 0);
  EXPECT_EQ(order.batch(0).size(), 1u);
  EXPECT_EQ(order.batch(1).size(), 1u);
}

}  // namespace
}  // namespace ashlar
