// SPDX-License-Identifier: Apache-2.0
#include "server/service/metrics.h"

#include <algorithm>
#include <cstdio>

namespace ashlar::server {
namespace {

constexpr double kSeconds[] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120};
constexpr double kShort[] = {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1};
constexpr double kTokens[] = {0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
constexpr const char* kReasons[] = {"stop", "length", "tool_calls", "cancelled", "error"};

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

// A label's value: quotes, backslashes and line ends escaped.
std::string escaped(const std::string& value) {
  std::string out;
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

class Page {
 public:
  explicit Page(const std::string& model) : labels_("model_name=\"" + escaped(model) + "\"") {}

  void head(const char* name, const char* type, const char* help) {
    out += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  }
  void value(const char* name, double value, const std::string& more = "") {
    out += std::string(name) + "{" + labels_ + (more.empty() ? "" : "," + more) + "} " + number(value) + "\n";
  }
  void counter(const char* name, const char* help, double total) {
    head(name, "counter", help);
    value(name, total);
  }
  void gauge(const char* name, const char* help, double now) {
    head(name, "gauge", help);
    value(name, now);
  }
  const std::string& labels() const { return labels_; }
  std::string out;

 private:
  std::string labels_;
};

void per_position(Page& page, const char* name, const char* help, const std::vector<int64_t>& counts,
                  const std::string& label = "position") {
  page.head(name, "counter", help);
  for (size_t k = 0; k < counts.size(); ++k) {
    page.value(name, static_cast<double>(counts[k]), label + "=\"" + std::to_string(k) + "\"");
  }
}

void engine_figures(Page& page, const EngineCounters& c, int64_t waiting) {
  page.gauge("vllm:num_requests_running", "Answers that run.", c.running);
  page.gauge("vllm:num_requests_waiting", "Answers that wait for a place.", static_cast<double>(c.waiting + waiting));
  page.gauge("vllm:kv_cache_usage_perc", "Share of the cache's pages that running answers hold.",
             c.pages_total == 0 ? 0 : static_cast<double>(c.pages_held) / c.pages_total);
  page.gauge("ashlar:kv_pages_cached", "Pages of ended answers that are kept for prompts that begin alike.",
             c.pages_cached);
  page.gauge("ashlar:kv_pages_free", "Pages that hold nothing.", c.pages_free);
  page.counter("vllm:prompt_tokens_total", "Prompt tokens, those found in the cache included.",
               static_cast<double>(c.prefill_tokens + c.cached_tokens));
  page.counter("vllm:generation_tokens_total", "Tokens produced.", static_cast<double>(c.generated_tokens));
  page.counter("vllm:prefix_cache_queries_total", "Prompt tokens that were looked for in the cache.",
               static_cast<double>(c.prefill_tokens + c.cached_tokens));
  page.counter("vllm:prefix_cache_hits_total", "Prompt tokens that were found in the cache.",
               static_cast<double>(c.cached_tokens));
  page.counter("vllm:num_preemptions_total", "Answers that gave way to others and went on later.",
               static_cast<double>(c.preemptions));
  page.counter("vllm:spec_decode_num_drafts_total", "Passes that could verify drafts.",
               static_cast<double>(c.verify_spans));
  page.counter("vllm:spec_decode_num_draft_tokens_total", "Drafts that were verified.", static_cast<double>(c.drafted));
  page.counter("vllm:spec_decode_num_accepted_tokens_total", "Drafts that were accepted.",
               static_cast<double>(c.accepted));
  page.counter("ashlar:spec_decode_num_ngram_accepted_tokens_total",
               "Accepted n-gram drafts: those that followed when the same tokens came before.",
               static_cast<double>(c.ngram_accepted));
  page.counter("ashlar:spec_decode_num_recalled_tokens_total",
               "Deprecated: ashlar:spec_decode_num_ngram_accepted_tokens_total.",
               static_cast<double>(c.ngram_accepted));
  page.counter("ashlar:decode_forwards_total", "Passes of the model over answers, counted for each answer in a step.",
               static_cast<double>(c.verify_spans));
  page.counter("ashlar:decode_decided_tokens_total", "Tokens that these passes decided.",
               static_cast<double>(c.decided));
  page.counter("ashlar:decode_settled_tokens_total", "Deprecated: ashlar:decode_decided_tokens_total.",
               static_cast<double>(c.decided));
  page.counter("ashlar:decode_blocks_total", "Blocks of answers, of models that fill blocks.",
               static_cast<double>(c.blocks));
  page.counter("ashlar:engine_steps_total", "Steps of the engine.", static_cast<double>(c.steps));
  page.head("ashlar:device_seconds_total", "counter", "Time of the device by phase.");
  page.value("ashlar:device_seconds_total", static_cast<double>(c.draft_ns) * 1e-9, "phase=\"draft\"");
  page.value("ashlar:device_seconds_total", static_cast<double>(c.verify_ns) * 1e-9, "phase=\"verify\"");
  page.value("ashlar:device_seconds_total", static_cast<double>(c.sample_ns) * 1e-9, "phase=\"sample\"");
  page.value("ashlar:device_seconds_total", static_cast<double>(c.context_ns) * 1e-9, "phase=\"context\"");
}

size_t reason_index(const std::string& reason) {
  const auto* found = std::find(std::begin(kReasons), std::end(kReasons), reason);
  return found == std::end(kReasons) ? 4 : static_cast<size_t>(found - std::begin(kReasons));
}

void add_to(std::vector<int64_t>& sums, const std::vector<int32_t>& more) {
  if (sums.size() < more.size()) sums.resize(more.size());
  for (size_t i = 0; i < more.size(); ++i) sums[i] += more[i];
}

}  // namespace

Histogram::Histogram(std::span<const double> bounds)
    : bounds_(bounds.begin(), bounds.end()), counts_(bounds.size() + 1) {}

void Histogram::observe(double value, int64_t times) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin();
  const std::lock_guard lock(mutex_);
  counts_[static_cast<size_t>(at)] += times;
  sum_ += value * static_cast<double>(times);
}

void Histogram::write(const std::string& name, const std::string& help, const std::string& labels,
                      std::string& out) const {
  const std::lock_guard lock(mutex_);
  out += "# HELP " + name + " " + help + "\n# TYPE " + name + " histogram\n";
  int64_t total = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    total += counts_[i];
    const std::string bound = i < bounds_.size() ? number(bounds_[i]) : "+Inf";
    out += name + "_bucket{" + labels + ",le=\"" + bound + "\"} " + std::to_string(total) + "\n";
  }
  out += name + "_sum{" + labels + "} " + number(sum_) + "\n";
  out += name + "_count{" + labels + "} " + std::to_string(total) + "\n";
}

ServiceMetrics::ServiceMetrics()
    : first_token(kSeconds), between_tokens(kShort), whole_request(kSeconds), queue(kSeconds), decided(kTokens) {}

void ServiceMetrics::answer_ended(const RequestStats& stats, const std::string& reason) {
  for (size_t n = 0; n < stats.lengths.size(); ++n) {
    if (stats.lengths[n] > 0) decided.observe(static_cast<double>(n), stats.lengths[n]);
  }
  const std::lock_guard lock(mutex_);
  add_to(unmasked_in_pass_, stats.unmasked_in_pass);
  add_to(drafted_at_, stats.drafted_at);
  add_to(accepted_at_, stats.accepted_at);
  ++reasons_[reason_index(reason)];
}

void ServiceMetrics::refused(int status) {
  const std::lock_guard lock(mutex_);
  ++(status == 429 || status == 503 ? refused_busy_ : refused_wrong_);
}

void ServiceMetrics::training_began() {
  const std::lock_guard lock(mutex_);
  ++trainings_;
}

void ServiceMetrics::drafter_replaced(double gain) {
  const std::lock_guard lock(mutex_);
  ++replaced_drafters_;
  drafter_gain_ = gain;
}

std::string ServiceMetrics::write(const std::string& model, const EngineCounters& engine, const HttpCounters& http,
                                  int64_t waiting_requests) const {
  Page page(model);
  engine_figures(page, engine, waiting_requests);
  first_token.write("vllm:time_to_first_token_seconds", "From a request's arrival to its first token.", page.labels(),
                    page.out);
  between_tokens.write("vllm:inter_token_latency_seconds", "Time for each further token.", page.labels(), page.out);
  whole_request.write("vllm:e2e_request_latency_seconds", "From a request's arrival to its end.", page.labels(),
                      page.out);
  queue.write("vllm:request_queue_time_seconds", "From an answer's submission to its first step.", page.labels(),
              page.out);
  decided.write("ashlar:decode_decided_per_forward_tokens", "Tokens that a pass decided for an answer.", page.labels(),
                page.out);
  decided.write("ashlar:decode_settled_per_forward_tokens", "Deprecated: ashlar:decode_decided_per_forward_tokens.",
                page.labels(), page.out);
  {
    const std::lock_guard lock(mutex_);
    per_position(page, "vllm:spec_decode_num_accepted_tokens_per_pos_total", "Accepted drafts by place in the block.",
                 accepted_at_);
    per_position(page, "ashlar:spec_decode_num_draft_tokens_per_pos_total", "Verified drafts by place in the block.",
                 drafted_at_);
    per_position(page, "ashlar:decode_unmasked_in_pass_total",
                 "Tokens by the pass over their block that unmasked them, of models that fill blocks.",
                 unmasked_in_pass_, "pass");
    per_position(page, "ashlar:decode_settled_in_pass_total", "Deprecated: ashlar:decode_unmasked_in_pass_total.",
                 unmasked_in_pass_, "pass");
    page.head("vllm:request_success_total", "counter", "Answers by how they ended.");
    for (size_t i = 0; i < reasons_.size(); ++i) {
      page.value("vllm:request_success_total", static_cast<double>(reasons_[i]),
                 std::string("finished_reason=\"") + kReasons[i] + "\"");
    }
    page.head("ashlar:requests_refused_total", "counter", "Requests that were not begun.");
    page.value("ashlar:requests_refused_total", static_cast<double>(refused_busy_), "why=\"busy\"");
    page.value("ashlar:requests_refused_total", static_cast<double>(refused_wrong_), "why=\"wrong\"");
    page.counter("ashlar:drafter_trainings_total", "Trainings in idle time that were begun.",
                 static_cast<double>(trainings_));
    page.counter("ashlar:drafters_replaced_total", "Drafters that took the place of the one before.",
                 static_cast<double>(replaced_drafters_));
    page.gauge("ashlar:drafter_gain_tokens_per_step",
               "Tokens a pass that the newest drafter gained on held-out prompts; 0: none was replaced.",
               drafter_gain_);
  }
  page.counter("ashlar:http_requests_total", "Requests of any kind.", static_cast<double>(http.requests));
  page.counter("ashlar:http_connections_refused_total", "Connections beyond the limit.",
               static_cast<double>(http.refused));
  page.counter("ashlar:http_connections_yielded_total",
               "Connections without a request that were closed in favour of new ones.",
               static_cast<double>(http.yielded));
  page.gauge("ashlar:http_memory_bytes", "Bytes of requests being served and of answers that were not taken yet.",
             static_cast<double>(http.memory_used));
  page.gauge("ashlar:http_open_connections", "Open connections.", static_cast<double>(http.open_connections));
  return page.out;
}

}  // namespace ashlar::server
