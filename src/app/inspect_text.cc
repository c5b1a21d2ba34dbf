// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "app/inspect.h"
#include "io/weights/gguf.h"
#include "session/memory_plan.h"
#include "session/models/model_locator.h"

namespace ashlar {
namespace {

std::string row(const std::string& label, const std::string& value) {
  std::string line = "  " + label;
  line.resize(std::max<size_t>(line.size() + 1, 18), ' ');
  return line + value + "\n";
}

std::string whole(const Json& value) { return std::to_string(value.get<int64_t>()); }

// 11534592 as 11,534,592.
std::string grouped(const Json& value) {
  const std::string digits = whole(value);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string plain_number(const Json& value) {
  char text[40];
  std::snprintf(text, sizeof text, "%g", value.get<double>());
  return text;
}

std::string percent(const Json& share) {
  char text[40];
  std::snprintf(text, sizeof text, "%.0f %%", 100 * share.get<double>());
  return text;
}

std::string shape_rows(const Json& facts) {
  std::string text = row("layers", whole(facts["layers"]) + ", hidden " + whole(facts["hidden"]) + ", feed-forward " +
                                       whole(facts["feed_forward"]));
  if (facts.contains("experts")) {
    const bool shared = facts["shared_feed_forward"] != 0;
    text += row("experts", whole(facts["experts_per_token"]) + " of " + whole(facts["experts"]) +
                               " a token, feed-forward " + whole(facts["expert_feed_forward"]) +
                               (shared ? ", shared " + whole(facts["shared_feed_forward"]) : "") + ", in " +
                               whole(facts["expert_layers"]) + " layers");
  }
  std::string attention = whole(facts["heads"]) + " query and " + whole(facts["kv_heads"]) + " key/value heads of " +
                          whole(facts["head_dim"]);
  if (facts["sliding_layers"] != 0) {
    attention += ", window " + whole(facts["sliding_window"]) + " in " + whole(facts["sliding_layers"]) + " layers";
  }
  const auto in_other_layers = [&](const char* key) {
    return ", in " + std::to_string(facts["layers"].get<int64_t>() - facts[key].get<int64_t>()) + " layers";
  };
  if (facts.contains("delta_net_layers")) {
    text += row("delta nets", whole(facts["delta_net_key_heads"]) + " key heads of " +
                                  whole(facts["delta_net_key_dim"]) + " and " + whole(facts["delta_net_value_heads"]) +
                                  " value heads of " + whole(facts["delta_net_value_dim"]) + ", in " +
                                  whole(facts["delta_net_layers"]) + " layers");
    attention += in_other_layers("delta_net_layers");
  }
  if (facts.contains("short_conv_layers")) {
    text += row("short convs",
                "of " + whole(facts["short_conv_rows"]) + " rows, in " + whole(facts["short_conv_layers"]) + " layers");
    attention += in_other_layers("short_conv_layers");
  }
  text += row("attention", attention);
  const std::string scaling = facts["rope_scaling"].get<std::string>();
  text += row("rope",
              "theta " + plain_number(facts["rope_theta"]) + (scaling == "none" ? "" : ", " + scaling + " scaling"));
  const Json& weights = facts["weights"];
  std::string dtypes;
  for (const auto& [dtype, count] : weights["parameters_by_dtype"].items())
    dtypes += (dtypes.empty() ? "" : " + ") + dtype;
  if (weights["files"] == 0) {
    return text + row("parameters",
                      grouped(weights["parameters"]) + " (" + format_count(weights["parameters"]) + "), NOT HERE");
  }
  text += row("parameters", grouped(weights["parameters"]) + " (" + format_count(weights["parameters"]) + "), " +
                                dtypes + ", " + format_bytes(weights["bytes"]) + " in " + whole(weights["files"]) +
                                (weights["files"] == 1 ? " file" : " files"));
  if (const auto& format = weights["quantisation"].get_ref<const std::string&>(); !format.empty()) {
    text += row("quantised", format);
  }
  return text;
}

std::string text_rows(const Json& report) {
  std::string text;
  const Json& tokenizer = report["tokenizer"];
  const std::string head = report["tied_head"].get<bool>() ? "head tied to the embedding" : "head of its own";
  text += row("vocabulary", whole(report["vocabulary"]) + ", " + head);
  if (tokenizer.contains("problem")) {
    text += row("tokenizer", "UNUSABLE: " + tokenizer["problem"].get<std::string>());
  } else {
    text += row("tokenizer",
                whole(tokenizer["tokens"]) + " tokens, " + whole(tokenizer["special_tokens"]) + " of them special");
    std::string stops;
    for (const Json& stop : tokenizer["stop_tokens"]) {
      stops += (stops.empty() ? "" : ", ") + stop["token"].get<std::string>() + " (" + whole(stop["id"]) + ")";
    }
    text += row("stop tokens", stops.empty() ? "none" : stops);
    if (tokenizer.contains("note")) text += row("", tokenizer["note"]);
  }
  return text + row("chat template", report.contains("chat_template_problem")
                                         ? "UNUSABLE: " + report["chat_template_problem"].get<std::string>()
                                         : report["chat_template"].get<std::string>());
}

std::string diffusion_row(const Json& facts) {
  const bool one = facts["block_size"] == 0;
  std::string text = one ? "the whole sequence is one block" : "blocks of " + whole(facts["block_size"]);
  if (facts["sub_block"] != 0) text += ", filled in parts of " + whole(facts["sub_block"]);
  text += ", mask token " + whole(facts["mask_token_id"]);
  return row("diffusion", text + (facts["token_shift"] == 0 ? "" : ", a row predicts the next position"));
}

std::string memory_rows(const Json& report) {
  const Json& memory = report["memory"];
  const bool window = memory["drafter_window_bytes"] != 0;
  const bool drafter = window || memory["drafter_kv_bytes_per_token"] != 0;
  std::string text =
      "memory on " + memory["device"].get<std::string>() + " (" + memory["instruction_set"].get<std::string>() + ")\n";
  text += row("weights",
              format_bytes(report["weights"]["bytes"]) +
                  (drafter ? " + " + format_bytes(report["drafter"]["weights"]["bytes"]) + " for the drafter" : ""));
  std::string of_drafter = window    ? ", at most " + format_bytes(memory["drafter_window_bytes"]) + " for the drafter"
                           : drafter ? " + " + grouped(memory["drafter_kv_bytes_per_token"]) + " for the drafter"
                                     : "";
  text += row("KV cache", grouped(memory["kv_bytes_per_token"]) + " bytes a token" + of_drafter);
  text += row("", whole(memory["page_tokens"]) + " tokens a page of " + format_bytes(memory["page_bytes"]));
  if (memory["branch_bytes"] != 0) text += row("", format_bytes(memory["branch_bytes"]) + " for branches of drafts");
  if (memory["state_bytes"] != 0) {
    text += row("states", format_bytes(memory["state_bytes_per_sequence"]) + " a sequence, " +
                              format_bytes(memory["state_bytes"]) + " with all sequences and snapshots");
  }
  text += row("full context", whole(report["context"]) + " tokens: " + whole(memory["full_context_pages"]) +
                                  " pages, " + format_bytes(memory["full_context_bytes"]));
  text += row("plan", memory["plan"]);
  if (memory.value("context", report["context"].get<int64_t>()) < report["context"].get<int64_t>()) {
    text += row("", "sequences of at most " + whole(memory["context"]) + " tokens fit");
  }
  return text;
}

std::string self_test_rows(const Json& test) {
  char figures[160];
  std::snprintf(figures, sizeof figures, "first draft accepted in %s of %s steps, %.2f tokens per step (%.0f ms)",
                percent(test["first_draft_accepted"]).c_str(), whole(test["steps"]).c_str(),
                test["mean_acceptance_length"].get<double>(), 1e3 * test["seconds"].get<double>());
  std::string text =
      row("self-test", (test["suspicious"].get<bool>() ? "SUSPICIOUS: " : "good: ") + std::string(figures));
  const bool recorded = test.contains("recorded_first_draft_accepted");
  return text + row("", recorded ? "its record: " + percent(test["recorded_first_draft_accepted"])
                                 : "no record of its own; expected at least " + percent(test["expected_at_least"]));
}

std::string head_row(const Json& drafter) {
  std::string text = drafter["head"];
  if (drafter.contains("selector")) {
    text += ", chooses among " + whole(drafter["selector"]["candidates"]) + " candidates a position by codes of " +
            whole(drafter["selector"]["rank"]);
  } else if (drafter.contains("lattice")) {
    text += ", chooses among " + whole(drafter["lattice"]["candidates"]) + " candidates a position by " +
            whole(drafter["lattice"]["layers"]) + " layers of width " + whole(drafter["lattice"]["hidden"]) +
            " over all of a block";
  } else if (drafter.contains("markov")) {
    text += ", adds to each position what the token before it says, by " +
            std::string(drafter["markov"]["gated"].get<bool>() ? "gated " : "") + "codes of " +
            whole(drafter["markov"]["rank"]);
    if (drafter["markov"]["rates_drafts"].get<bool>()) text += ", says how likely each draft is accepted";
  } else if (drafter.contains("domino")) {
    text += ", adds to each position what the block's tokens before it say, remembered in " +
            whole(drafter["domino"]["state"]) + " numbers";
  } else if (drafter.contains("refiner")) {
    text += ", chooses all drafts of a block again in up to " + whole(drafter["refiner"]["rounds"]) +
            " rounds, by what those before each say in codes of " + whole(drafter["refiner"]["rank"]);
  } else {
    text += ", the likeliest token of each position";
  }
  if (drafter.contains("convolution")) {
    text += ", convolves " + whole(drafter["convolution"]["rows"]) + " rows in groups of " +
            whole(drafter["convolution"]["group"]);
  }
  return row("head", text);
}

std::string drafter_rows(const Json& drafter) {
  std::string text = "drafter " + folder_name(drafter["folder"].get<std::string>()) + "\n";
  text += row("folder", drafter["folder"]);
  if (drafter.contains("layers")) {
    std::string layers;
    for (const Json& layer : drafter["target_layer_ids"]) layers += (layers.empty() ? "" : ", ") + whole(layer);
    const bool blocks = drafter.contains("block_size");
    text += row("method", drafter["method"].get<std::string>() +
                              (blocks ? ", block of " + whole(drafter["block_size"]) : ", one token after another") +
                              (layers.empty() ? "" : ", reads the target after layers " + layers));
    if (drafter.contains("head")) text += head_row(drafter);
    text += shape_rows(drafter);
    text += row("vocabulary", whole(drafter["draft_vocabulary"]) +
                                  (drafter["own_vocabulary"].get<bool>() ? ", of its own" : ", the target's") +
                                  (blocks ? ", mask token " + whole(drafter["mask_token_id"]) : ""));
  }
  if (drafter.contains("fits")) {
    text += row("fits", drafter["fits"].get<bool>() ? "yes" : "NO: " + drafter["problem"].get<std::string>());
  }
  if (drafter.contains("self_test")) text += self_test_rows(drafter["self_test"]);
  return text;
}

}  // namespace

std::string report_text(const Json& report) {
  if (!report.contains("family")) return drafter_rows(report["drafter"]);
  std::string text = report["name"].get<std::string>() + "\n";
  const std::string place = report["folder"].get<std::string>();
  text += row(is_gguf(place) ? "file" : "folder", place);
  text += row("architecture", report["family"]);
  text += shape_rows(report);
  text += row("context", whole(report["context"]) + " tokens");
  const bool diffusion = report.contains("diffusion");
  if (diffusion) text += diffusion_row(report["diffusion"]);
  text += text_rows(report);
  if (report.contains("memory")) text += memory_rows(report);
  if (report.contains("problem")) text += row("CANNOT LOAD", report["problem"]);
  if (report.contains("drafter")) return text + drafter_rows(report["drafter"]);
  if (diffusion || !report.contains("memory")) return text;  // without weights drafters are not looked at
  return text + "drafter\n" +
         row("none", "no folder " + folder_name(report["folder"].get<std::string>()) +
                         "-dflash next to it; --drafter names one");
}

}  // namespace ashlar
