// SPDX-License-Identifier: Apache-2.0
// Memory of the GPU, and the words of errors.

#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "base/machine/available_memory.h"
#include "cuda/on_gpu.h"

namespace ashlar::testing {
namespace {

class MemoryOnGpu : public OnGpu {};

// More than the pinned memory that copies pass through, in pieces of odd sizes.
TEST_F(MemoryOnGpu, BytesComeBackAsTheyWent) {
  std::mt19937 random(3);
  std::vector<uint32_t> sent(5'000'003);
  for (uint32_t& word : sent) word = static_cast<uint32_t>(random());
  const size_t bytes = sent.size() * sizeof(uint32_t);
  const auto buffer = ops_->allocate(bytes), copy = ops_->allocate(bytes);
  for (size_t at = 0, part = 1; at < bytes; at += part, part = part * 3 + 1) {
    part = std::min(part, bytes - at);
    std::vector<std::byte> piece(part);
    std::memcpy(piece.data(), reinterpret_cast<const std::byte*>(sent.data()) + at, part);
    ops_->upload(piece.data(), buffer->data() + at, part);
    std::fill(piece.begin(), piece.end(), std::byte{0});  // it may be used again
  }
  ops_->copy_bytes(buffer->data(), copy->data(), bytes);
  std::vector<uint32_t> found(sent.size());
  ops_->download(copy->data(), found.data(), bytes);
  EXPECT_EQ(found, sent);
}

TEST_F(MemoryOnGpu, NewMemoryIsZeroWhateverWasThereBefore) {
  for (int i = 0; i < 3; ++i) {
    const auto buffer = ops_->allocate(1 << 20);
    std::vector<uint8_t> found(1 << 20, 1);
    ops_->download(buffer->data(), found.data(), found.size());
    EXPECT_EQ(found, std::vector<uint8_t>(1 << 20));
    const std::vector<uint8_t> ones(1 << 20, 255);
    ops_->upload(ones.data(), buffer->data(), ones.size());
  }
}

TEST_F(MemoryOnGpu, WhatDoesNotFitIsAnErrorInWordsAndNothingElse) {
  try {
    ops_->allocate(size_t{1} << 46);
    FAIL() << "64 TiB were there";
  } catch (const std::exception& error) {
    const std::string words = error.what();
    EXPECT_NE(words.find("[cuda] cudaMallocFromPoolAsync of 70368744177664 bytes failed: out of memory"),
              std::string::npos)
        << words;
    EXPECT_NE(words.find("MiB are free; choose"), std::string::npos) << words;
  }
  EXPECT_EQ(ops_->allocate(64)->size(), 64U);
}

// What was given back counts again, though the driver does not have it. Other programs take and return memory of the
// GPU meanwhile, so one quiet moment of many is enough.
TEST_F(MemoryOnGpu, WhatIsLeftFollowsWhatIsTaken) {
  constexpr int64_t kTaken = int64_t{1} << 30, kOthers = int64_t{64} << 20;
  const auto left = [&] { return ops_->available_memory().bytes; };
  const auto wait = [&](Buffer& buffer) {
    float word = 0;
    ops_->download(buffer.data(), &word, sizeof(word));
  };
  const AvailableMemory at_first = ops_->available_memory();
  EXPECT_EQ(at_first.owner, "the GPU");
  EXPECT_LE(at_first.bytes + at_first.reserved, at_first.total);
  wait(*ops_->allocate(kTaken));  // the pool has it from now on
  int64_t taken = 0, returned = 0;
  for (int look = 0; look < 200; ++look) {
    const int64_t before = left();
    {
      const auto buffer = ops_->allocate(kTaken);
      wait(*buffer);
      taken = before - left();
    }
    wait(*ops_->allocate(64));
    returned = before - left();
    if (std::abs(taken - kTaken) <= kOthers && std::abs(returned) <= kOthers) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ADD_FAILURE() << "of " << kTaken << " bytes that were taken " << taken << " were missing, and " << returned
                << " when they were given back";
}

TEST_F(MemoryOnGpu, IsReadCopiedAndMultipliedAtAPossibleRate) {
  const auto probe = ops_->device_probe(int64_t{1} << 30);
  EXPECT_EQ(probe->bytes(), int64_t{1} << 30);
  EXPECT_EQ(ops_->device_probe(1)->bytes(), int64_t{256} << 20);
  EXPECT_LE(ops_->device_probe(int64_t{1} << 50)->bytes(), int64_t{1} << 32);
  for (double (DeviceProbe::*pass)() : {&DeviceProbe::read, &DeviceProbe::copy}) {
    (*probe.*pass)();
    const double rate = static_cast<double>(probe->bytes()) / (*probe.*pass)();
    EXPECT_GT(rate, 5e10);  // slower than any GPU this runs on
    EXPECT_LT(rate, 2e13);  // faster than any memory: nothing was moved
  }
  const double products = probe->multiply();
  EXPECT_GT(products, 1e13);  // slower than any GPU this runs on
  EXPECT_LT(products, 5e15);  // faster than any: nothing was multiplied
}

// Kernels one by one, with a pause between them, and recorded.
TEST_F(MemoryOnGpu, SaysWhenItWorksAndWhenItWaits) {
  constexpr int32_t kRows = 4096, kCols = 4096;
  const auto buffer = ops_->allocate(sizeof(float) * kRows * kCols);
  const Tensor x = {buffer->data(), kRows, kCols, kCols, DType::kF32};
  const Tensor few = x.narrow(256);
  const auto probe = ops_->device_probe(1);
  float word = 0;
  const auto wait = [&] { ops_->download(buffer->data(), &word, sizeof(word)); };
  const auto work = [&] {
    for (int i = 0; i < 200; ++i) ops_->scale(x, 1);
    wait();
  };
  probe->watch();
  work();
  const DeviceWork alone = probe->work();
  EXPECT_EQ(alone.loose_launches, 200);
  EXPECT_GT(alone.seconds, 1e-3);  // 27 GB are read and written
  EXPECT_GT(alone.seconds - alone.idle, 1e-3);

  probe->watch();
  work();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  work();
  const DeviceWork apart = probe->work();
  EXPECT_EQ(apart.loose_launches, 400);
  EXPECT_GT(apart.idle, 0.05);  // whatever else runs on the GPU
  EXPECT_GT(apart.seconds - apart.idle, 2e-3);

  const auto pass = [&] {
    for (int i = 0; i < 50; ++i) ops_->scale(few, 1);
  };
  const PassKey key(this, few.rows);
  for (int i = 0; i < 40; ++i) ops_->run_pass(key, pass);  // recorded by now
  wait();
  probe->watch();
  for (int i = 0; i < 10; ++i) {
    ops_->run_pass(key, pass);
    wait();
  }
  const DeviceWork recorded = probe->work();
  EXPECT_EQ(recorded.loose_launches, 0);
  EXPECT_GT(recorded.seconds, recorded.idle);
  EXPECT_GT(recorded.idle, 0);
}

}  // namespace

// Where there is a GPU this says so in the log; elsewhere the words say what is missing.
TEST(Gpu, IsThereOrWhatIsMissingIsSaid) {
  try {
    std::printf("[ COVERAGE ] cuda device: %s\n", make_device("cuda", {})->isa().c_str());
  } catch (const std::exception& error) {
    const std::string words = error.what();
    EXPECT_EQ(words.rfind("[cuda] ", 0), 0U) << words;
    EXPECT_NE(words.find("--device cpu"), std::string::npos) << words;
    std::printf("[ COVERAGE ] no cuda device: %s\n", words.c_str());
  }
  EXPECT_THROW(make_device("cuda", {.threads = 0, .isa = "avx2"}), std::exception);
}

}  // namespace ashlar::testing
