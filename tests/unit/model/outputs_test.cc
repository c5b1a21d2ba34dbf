// SPDX-License-Identifier: Apache-2.0
// Rows that are not asked for are left out of the last layer. Nothing else may change.

#include <algorithm>
#include <random>

#include "unit/model/tiny_model.h"

namespace ashlar::testing {
namespace {

class Outputs : public ::testing::TestWithParam<const char*> {
 protected:
  static constexpr int32_t kRows = 11;

  Outputs() : ops_(make_device(GetParam(), {})), model_(Model::load(*ops_, folder_.path())) {
    KvLayout layout;
    model_->register_state(layout);
    kv_ = std::make_unique<KvMemory>(*ops_, layout, 3);
    model_->reserve(kRows);
    storage_ = ops_->allocate(sizeof(float) * kRows * 8);
  }

  Tensor aux_hidden() const { return {reinterpret_cast<float*>(storage_->data()), kRows, 8, 8}; }

  using Values = std::vector<float>;
  static Values values(Tensor x, int32_t row) { return {x.row(row), x.row(row) + x.cols}; }

  // What the wanted rows of two sequences come out as, and what the row after each sequence comes out as afterwards:
  // it sees all of their K and V.
  std::vector<Values> run(const std::vector<bool>& wanted, const AuxHiddenRequest& aux = {}) {
    RowBatch batch(*ops_, kRows, 2);
    const auto add = [&](const auto& row) {
      row();
      if (wanted[static_cast<size_t>(batch.n()) - 1]) batch.want_output();
    };
    batch.begin_sequence(pages_);
    for (int32_t i = 0; i < 6; ++i) add([&] { batch.add_row(3 + i, i, 6); });
    batch.begin_sequence(pages_ + 1);
    for (int32_t i = 0; i < 3; ++i) add([&] { batch.add_row(11 - i, i, 3); });
    for (int32_t i = 1; i < 3; ++i) add([&] { batch.add_without_kv(19 - i, i); });
    std::vector<Values> out;
    const Tensor hidden = model_->forward(batch, *kv_, aux);
    EXPECT_EQ(hidden.rows, std::count(wanted.begin(), wanted.end(), true));
    for (int32_t row = 0; row < hidden.rows; ++row) out.push_back(values(hidden, row));
    batch.clear();
    batch.begin_sequence(pages_);
    batch.add_row(1, 6, 7);
    batch.want_output();
    batch.begin_sequence(pages_ + 1);
    batch.add_row(2, 3, 4);
    batch.want_output();
    const Tensor next = model_->forward(batch, *kv_, {});
    for (int32_t row = 0; row < 2; ++row) out.push_back(values(next, row));
    return out;
  }

  // Of `all`, what run() should give for fewer rows.
  static std::vector<Values> some(const std::vector<Values>& all, const std::vector<bool>& wanted) {
    std::vector<Values> out;
    for (size_t row = 0; row < wanted.size(); ++row) {
      if (wanted[row]) out.push_back(all[row]);
    }
    out.insert(out.end(), all.end() - 2, all.end());
    return out;
  }

  ModelFolder folder_;
  std::unique_ptr<Ops> ops_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<KvMemory> kv_;
  std::unique_ptr<Buffer> storage_;
  const int32_t pages_[2] = {2, 0};
};

TEST_P(Outputs, AreTheSameWhoeverElseIsAskedFor) {
  const std::vector<Values> all = run(std::vector<bool>(kRows, true));
  EXPECT_NE(all[5], all[4]);
  std::mt19937 random(1);
  for (uint32_t round = 0; round < 200; ++round) {
    std::vector<bool> wanted(kRows);
    for (size_t row = 0; row < wanted.size(); ++row) {
      wanted[row] = round < 2 * kRows ? (row == round / 2) == (round % 2 == 0) : random() % (1 + round % 5) == 0;
    }
    ASSERT_EQ(run(wanted), some(all, wanted)) << "round " << round;
  }
  EXPECT_EQ(run(std::vector<bool>(kRows)), some(all, std::vector<bool>(kRows)));
}

TEST_P(Outputs, AuxiliaryStatesOfTheLastLayerHaveAllRows) {
  const AuxLayer last = {1, 0};
  const AuxHiddenRequest request = {{&last, 1}, aux_hidden()};
  std::vector<bool> wanted(kRows, true);
  const std::vector<Values> all = run(wanted, request);
  const Values expected(aux_hidden().row(0), aux_hidden().row(kRows));
  std::fill(aux_hidden().row(0), aux_hidden().row(kRows), 0.0F);
  wanted.assign(kRows, false);
  wanted[4] = true;
  EXPECT_EQ(run(wanted, request), some(all, wanted));
  EXPECT_EQ(Values(aux_hidden().row(0), aux_hidden().row(kRows)), expected);
}

INSTANTIATE_TEST_SUITE_P(Devices, Outputs, ::testing::Values("ref", "cpu"));

}  // namespace
}  // namespace ashlar::testing
