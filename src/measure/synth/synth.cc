// SPDX-License-Identifier: Apache-2.0
#include "measure/synth/synth.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <span>
#include <vector>

#include "base/content_hash.h"
#include "base/error.h"
#include "base/philox.h"
#include "base/thread_pool.h"
#include "io/durable_file.h"
#include "io/weights/safetensors_writer.h"
#include "measure/synth/asked_tensors.h"
#include "measure/synth/drafter_shapes.h"
#include "measure/synth/made_folder.h"
#include "measure/synth/shapes.h"

namespace ashlar {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBytes = 2;  // of a number in bf16

/// The numbers of one tensor: each is a function of seed, name and its index.
class Numbers {
 public:
  Numbers(const AskedTensor& tensor, uint64_t seed)
      : cols_(std::max<int64_t>(1, tensor.shape.back())),
        key_(content_hash(std::as_bytes(std::span(tensor.name)), seed)),
        scale_(std::sqrt(3.0F / static_cast<float>(cols_))),
        is_vector_(tensor.shape.size() == 1),
        is_bias_(tensor.name.ends_with("bias")) {}

  void fill(int64_t first_row, int64_t rows, float* to) const {
    if (is_vector_ || is_bias_) return void(std::fill_n(to, rows * cols_, is_bias_ ? 0.0F : 1.0F));
    constexpr int64_t kAtOnce = 4;
    const int64_t begin = first_row * cols_, end = begin + rows * cols_;
    for (int64_t i = begin; i < end;) {
      const auto at = static_cast<uint64_t>(i / kAtOnce);
      const PhiloxBlock words = philox4x32({static_cast<uint32_t>(at), static_cast<uint32_t>(at >> 32), 0, 0},
                                           static_cast<uint32_t>(key_), static_cast<uint32_t>(key_ >> 32));
      // Of the 24 upper bits, in [-1, 1).
      for (int64_t j = i % kAtOnce; j < kAtOnce && i < end; ++j, ++i) {
        *to++ = (static_cast<float>(words[static_cast<size_t>(j)] >> 8) * 0x1p-23F - 1.0F) * scale_;
      }
    }
  }

 private:
  int64_t cols_;
  uint64_t key_;
  float scale_;  // a uniform number in [-1, 1) has a variance of 1 / 3
  bool is_vector_, is_bias_;
};

bool is_of_integers(const AskedTensor& tensor) { return tensor.dtype == "I64"; }

int64_t bytes_of(const AskedTensor& tensor) {
  return tensor.count() * (is_of_integers(tensor) ? static_cast<int64_t>(sizeof(int64_t)) : kBytes);
}

int64_t bytes_of(const std::vector<AskedTensor>& tensors) {
  int64_t bytes = 0;
  for (const AskedTensor& tensor : tensors) bytes += bytes_of(tensor);
  return bytes;
}

int64_t count_of(const std::vector<AskedTensor>& tensors) {
  int64_t count = 0;
  for (const AskedTensor& tensor : tensors) count += is_of_integers(tensor) ? 0 : tensor.count();
  return count;
}

// Whether `bytes` fit next to what they replace. Throws if they do not even fit in its place.
bool fits_next_to_it(const MadeFolder& folder, int64_t bytes, int64_t replaced) {
  std::error_code error;
  const fs::space_info space = fs::space(folder.fresh(), error);
  if (error || space.available == static_cast<std::uintmax_t>(-1)) return true;
  if (space.available >= static_cast<std::uintmax_t>(bytes)) return true;
  const std::uintmax_t room = space.available + static_cast<std::uintmax_t>(replaced);
  if (room >= static_cast<std::uintmax_t>(bytes)) return false;
  throw Error("synth", folder.path().string() + ": the disk has room for " + std::to_string(room / 1'000'000) +
                           " MB; the weights need " + std::to_string(bytes / 1'000'000) + " MB");
}

// `zeros`: as many as any tensor of integers has numbers. The pool lives as long as what is returned.
TensorToWrite tensor_to_write(const AskedTensor& asked, uint64_t seed, std::span<const int64_t> zeros, ThreadPool& pool,
                              const std::function<void(int64_t)>& written) {
  TensorToWrite tensor;
  tensor.name = asked.name;
  tensor.shape = asked.shape;
  if (is_of_integers(asked)) {
    tensor.type = TensorToWrite::Type::kI64;
    tensor.integers = zeros.first(static_cast<size_t>(asked.count()));
    return tensor;
  }
  tensor.type = TensorToWrite::Type::kBF16;
  if (!asked.dtype.empty()) throw Error("synth", asked.name + ": is of " + asked.dtype + ", which is not made");
  tensor.fill = [numbers = Numbers(asked, seed), cols = asked.shape.back(), &pool, written](int64_t first, int64_t rows,
                                                                                            float* to) {
    const auto parts = static_cast<int32_t>(std::min<int64_t>(rows, pool.size()));
    pool.run(parts, [&](int32_t part, int32_t /*worker*/) {
      const int64_t begin = rows * part / parts, end = rows * (part + 1) / parts;
      numbers.fill(first + begin, end - begin, to + begin * cols);
    });
    written(rows * cols * kBytes);
  };
  return tensor;
}

/// Cut into files of at most `shard_bytes`, or of one tensor.
std::vector<std::span<const AskedTensor>> shards_of(const std::vector<AskedTensor>& tensors, int64_t shard_bytes) {
  std::vector<std::span<const AskedTensor>> shards;
  size_t begin = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t own = bytes_of(tensors[i]);
    if (i > begin && bytes + own > shard_bytes) {
      shards.emplace_back(tensors.data() + begin, i - begin);
      begin = i;
      bytes = 0;
    }
    bytes += own;
  }
  shards.emplace_back(tensors.data() + begin, tensors.size() - begin);
  return shards;
}

std::string five_digits(size_t number) {
  const std::string digits = std::to_string(number);
  return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

void write_weights(const fs::path& folder, const std::vector<AskedTensor>& tensors, const SynthOptions& options,
                   const std::function<void(int64_t)>& written) {
  const auto shards = shards_of(tensors, options.shard_bytes);
  int64_t integers = 0;
  for (const AskedTensor& tensor : tensors) integers = std::max(integers, is_of_integers(tensor) ? tensor.count() : 0);
  const std::vector<int64_t> zeros(static_cast<size_t>(integers));
  ThreadPool pool;
  Json places = Json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string file = shards.size() == 1
                                 ? "model.safetensors"
                                 : "model-" + five_digits(i + 1) + "-of-" + five_digits(shards.size()) + ".safetensors";
    std::vector<TensorToWrite> parts;
    for (const AskedTensor& tensor : shards[i]) {
      parts.push_back(tensor_to_write(tensor, options.seed, zeros, pool, written));
      places[tensor.name] = file;
    }
    write_safetensors(folder / file, parts, {{"format", "pt"}});
  }
  if (shards.size() == 1) return;
  const Json index = {{"metadata", {{"total_size", bytes_of(tensors)}}}, {"weight_map", places}};
  write_durably(folder / "model.safetensors.index.json", index.dump(1) + "\n");
}

void set_layers(Json& config, const SynthOptions& options) {
  constexpr const char* kLayers = "num_hidden_layers";
  if (config.contains("layer_types")) {
    throw Error("synth", options.shape + ": says of each layer what it is; change num_hidden_layers and layer_types " +
                             "there in place of --layers");
  }
  if (!config.contains(kLayers)) {
    throw Error("synth", options.shape + ": has no num_hidden_layers of its own (that of a model with several parts " +
                             "is in text_config); change it there in place of --layers");
  }
  config[kLayers] = options.layers;
}

void check_vocabulary(const ModelConfig& config) {
  if (config.vocab >= kByteTokenizerTokens) return;
  throw Error("synth", "vocab_size: expected at least " + std::to_string(kByteTokenizerTokens) +
                           ", which the tokenizer of bytes has, found " + std::to_string(config.vocab));
}

Json tokenizer_config() {
  return {{"tokenizer_class", "PreTrainedTokenizerFast"},
          {"eos_token", "<|endoftext|>"},
          {"chat_template",
           "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
           "+ '<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ "
           "'<|im_start|>assistant\n' }}{% endif %}"}};
}

fs::path folder_next_to(const fs::path& model, const std::string& kind) {
  fs::path folder = model.lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  folder += "-" + kind;
  return folder;
}

}  // namespace

SynthResult synthesize(const SynthOptions& options, const SynthProgress& progress) {
  Json config = shape_config(options.shape);  // an unknown one makes no folder
  if (options.layers > 0) set_layers(config, options);
  const ModelConfig read = read_config_json(config, options.shape);
  check_vocabulary(read);
  SynthResult result;
  result.model.folder = options.folder;
  std::deque<MadeFolder> folders;  // the model's, then those of its drafters
  folders.emplace_back(options.folder, options.force);
  std::vector<fs::path> drafters;
  for (const std::string& kind : options.drafters) {
    if (std::ranges::count(options.drafters, kind) > 1) throw Error("synth", "the drafter " + kind + " is named twice");
    const Json drafter = drafter_config_for(kind, read, options.drafter_layers);
    result.drafters.push_back({folder_next_to(options.folder, kind)});
    drafters.push_back(folders.emplace_back(result.drafters.back().folder, options.force).fresh());
    write_durably(drafters.back() / "config.json", drafter.dump(1) + "\n");
  }
  const fs::path& fresh = folders.front().fresh();
  write_durably(fresh / "config.json", config.dump(1) + "\n");
  write_durably(fresh / "tokenizer.json", byte_tokenizer());
  write_durably(fresh / "tokenizer_config.json", tokenizer_config().dump(1) + "\n");
  const AskedTensors asked = asked_tensors(fresh, drafters);
  result.model.parameters = count_of(asked.model);
  result.bytes = bytes_of(asked.model);
  for (size_t i = 0; i < drafters.size(); ++i) {
    result.drafters[i].parameters = count_of(asked.drafters[i]);
    result.bytes += bytes_of(asked.drafters[i]);
  }
  // What is replaced stays until all is written, if the disk has room for both.
  int64_t replaced = 0;
  for (const MadeFolder& folder : folders) replaced += folder.replaced_bytes();
  if (!fits_next_to_it(folders.front(), result.bytes, replaced)) {
    for (const MadeFolder& folder : folders) folder.remove_replaced();
  }
  int64_t done = 0;
  const auto written = [&](int64_t bytes) {
    if (options.stopped && options.stopped()) throw Error("synth", "stopped; what was written is removed");
    done += bytes;
    if (progress) progress(done, result.bytes);
  };
  write_weights(fresh, asked.model, options, written);
  for (size_t i = 0; i < drafters.size(); ++i) write_weights(drafters[i], asked.drafters[i], options, written);
  for (const MadeFolder& folder : folders) folder.commit();
  return result;
}

}  // namespace ashlar
