// SPDX-License-Identifier: Apache-2.0
#include "measure/synth/asked_tensors.h"

#include <sys/mman.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <new>

#include "base/error.h"
#include "decode/drafters.h"
#include "device/device.h"
#include "device/forwarded_ops.h"
#include "io/weights/checkpoint.h"
#include "model/drafters/dflash.h"
#include "model/drafters/eagle3.h"
#include "model/drafters/mtp.h"
#include "model/model.h"

namespace ashlar {
namespace {

// Zeros that take no memory, however many: pages of them that are only read are all the same.
class Zeros {
 public:
  explicit Zeros(size_t bytes)
      : bytes_(bytes), data_(mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    if (data_ == MAP_FAILED) throw std::bad_alloc();
  }
  ~Zeros() { munmap(data_, bytes_); }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  size_t bytes() const { return bytes_; }
  const std::byte* data() const { return static_cast<const std::byte*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

class NotingMaker final : public TensorMaker {
 public:
  explicit NotingMaker(std::vector<AskedTensor>& asked) : asked_(asked) {}

  const StoredTensor& make(const std::string& name, const std::vector<int64_t>& shape,
                           const std::string& dtype) override {
    const auto known = made_.find(name);
    if (known != made_.end()) return known->second;
    asked_.push_back({name, shape, dtype});
    StoredTensor& tensor = made_[name];
    tensor.name = name;
    tensor.dtype = dtype.empty() ? "BF16" : dtype;
    tensor.shape = shape;
    tensor.bytes = static_cast<size_t>(asked_.back().count()) * sizeof(int64_t);  // no type is wider
    if (zeros_.empty() || zeros_.back().bytes() < tensor.bytes) zeros_.emplace_back(std::max<size_t>(tensor.bytes, 1));
    tensor.data = zeros_.back().data();
    tensor.file = "what is made";
    return tensor;
  }

 private:
  std::vector<AskedTensor>& asked_;
  std::map<std::string, StoredTensor> made_;
  std::deque<Zeros> zeros_;  // each larger than those before
};

class NoWeight final : public Weight {
 public:
  NoWeight(int64_t n, int64_t k) : n_(static_cast<int32_t>(n)), k_(static_cast<int32_t>(k)) {}
  int32_t n() const override { return n_; }
  int32_t k() const override { return k_; }
  size_t bytes() const override { return 0; }
  std::string_view format() const override { return "none"; }

 private:
  int32_t n_, k_;
};

class NoExperts final : public ExpertWeights {
 public:
  explicit NoExperts(std::span<const ExpertSource> experts)
      : n_(static_cast<int32_t>(experts.size())),
        hidden_(static_cast<int32_t>(experts[0].gate_up.cols())),
        width_(static_cast<int32_t>(experts[0].down.cols())) {}
  int32_t n() const override { return n_; }
  int32_t hidden() const override { return hidden_; }
  int32_t width() const override { return width_; }
  size_t bytes() const override { return 0; }

 private:
  int32_t n_, hidden_, width_;
};

// Weights are known by their sizes alone: what a model would need is not there.
class WeightlessOps final : public ForwardedOps {
 public:
  using ForwardedOps::ForwardedOps;
  std::unique_ptr<Weight> pack(const WeightSource& source, WeightUse /*use*/) override {
    return std::make_unique<NoWeight>(source.rows(), source.cols());
  }
  std::unique_ptr<Weight> repack(const Weight& /*weight*/, Products /*products*/) override { return nullptr; }
  std::unique_ptr<ExpertWeights> pack_experts(std::span<const ExpertSource> experts) override {
    return std::make_unique<NoExperts>(experts);
  }
};

void ask_dflash(const Model& target, const std::filesystem::path& folder, const Checkpoint& made) {
  DflashConfig config = read_dflash_config(folder);
  check_fit(config, target.config());
  DflashDrafter::load(target, std::move(config), made);
}

void ask_eagle3(const Model& target, const std::filesystem::path& folder, const Checkpoint& made) {
  Eagle3Config config = read_eagle3_config(folder);
  fit_to_target(config, target.config());
  Eagle3Head::load(target, std::move(config), made);
}

struct Asking {
  const char* method;
  void (*ask)(const Model& target, const std::filesystem::path& folder, const Checkpoint& made);
};
constexpr Asking kAsking[] = {{"dflash", ask_dflash}, {"eagle3", ask_eagle3}};

void ask(const Model& target, const std::filesystem::path& folder, std::vector<AskedTensor>& asked) {
  NotingMaker maker(asked);
  const std::string method = method_of_drafter(folder);
  const auto* const found = std::ranges::find(kAsking, method, &Asking::method);
  if (found == std::end(kAsking)) throw Error("synth", folder.string() + ": a drafter of this kind is not made");
  found->ask(target, folder, Checkpoint(folder, maker));
}

bool has_layer_to_draft(const ModelConfig& config) {
  return config.names.mtp != nullptr && config.mtp.layers == 1 && !config.mtp.own_vocabulary;
}

}  // namespace

int64_t AskedTensor::count() const {
  int64_t n = 1;
  for (const int64_t extent : shape) n *= extent;
  return n;
}

AskedTensors asked_tensors(const std::filesystem::path& model, std::span<const std::filesystem::path> drafters) {
  constexpr int32_t kPositions = 1;  // tables of positions are no tensors
  DeviceOptions one_thread;
  one_thread.threads = 1;
  const std::unique_ptr<Ops> host = make_device(device_names().front(), one_thread);
  WeightlessOps ops(*host);
  AskedTensors out;
  NotingMaker of_model(out.model);
  const Checkpoint made(model, of_model);
  const auto target = Model::load(ops, read_model_config(model), made, kPositions);
  if (has_layer_to_draft(target->config())) MtpHead::load(*target, made);
  for (const std::filesystem::path& folder : drafters) ask(*target, folder, out.drafters.emplace_back());
  return out;
}

}  // namespace ashlar
