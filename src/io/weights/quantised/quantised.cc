// SPDX-License-Identifier: Apache-2.0
#include "io/weights/quantised/quantised.h"

#include <algorithm>

#include "base/error.h"
#include "io/mapped_file.h"
#include "io/weights/quantised/quantised_format.h"

namespace ashlar {
namespace {

constexpr QuantisedFormat kFormats[] = {
    {"awq", read_awq},     {"gptq", read_gptq},      {"compressed-tensors", read_compressed_tensors},
    {"fp8", read_fp8},     {"fbgemm_fp8", read_fp8},  // with a scale for each row
    {"mxfp4", read_mxfp4},
};

/// What tools of former years wrote next to a config.json that says nothing.
constexpr std::pair<const char*, std::string_view> kFiles[] = {{"quantize_config.json", "gptq"},
                                                               {"quant_config.json", "awq"}};

std::string method_names() {
  std::string names;
  for (const QuantisedFormat& format : kFormats) names += (names.empty() ? "" : ", ") + std::string(format.method);
  return names;
}

/// The object under "quantization_config" of config.json, or under its former name, or of the text model within.
const Json* find_config(const Json& root) {
  if (!root.is_object()) return nullptr;
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (root.contains(key) && !root.at(key).is_null()) return &root.at(key);
  }
  return root.contains("text_config") ? find_config(root.at("text_config")) : nullptr;
}

Quantised read(const JsonFields& config, const std::string& method, const std::filesystem::path& folder,
               TensorsByName& tensors) {
  const auto* format = std::find_if(std::begin(kFormats), std::end(kFormats),
                                    [&](const QuantisedFormat& each) { return each.method == method; });
  if (format == std::end(kFormats)) {
    config.fail("quant_method", "one of " + method_names() +
                                    "; take a checkpoint in one of these, in bf16 or as a GGUF file " +
                                    "(--weights int8 or int4 makes bf16 as small when it is loaded)");
  }
  Quantised out;
  QuantisedTensors within(folder.string(), tensors, out.made);
  out.description = format->read(config, within);
  return out;
}

}  // namespace

Quantised read_quantised(const std::filesystem::path& folder, TensorsByName& tensors) {
  if (const auto path = folder / "config.json"; file_exists(path)) {
    const Json root = read_json_file(path);
    if (const Json* found = find_config(root)) {
      const JsonFields config(*found, path.string() + ": quantization_config", "quantised");
      return read(config, config.string("quant_method"), folder, tensors);
    }
  }
  for (const auto& [name, method] : kFiles) {
    const auto path = folder / name;
    if (!file_exists(path)) continue;
    const Json root = read_json_file(path);
    const JsonFields config(root, path.string(), "quantised");
    return read(config, config.string("quant_method", std::string(method)), folder, tensors);
  }
  return {};
}

}  // namespace ashlar
