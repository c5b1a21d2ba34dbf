// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/bench_report.h"

#include <algorithm>

#include "measure/report/table.h"

namespace ashlar {
namespace {

double ms(double seconds) { return seconds * 1e3; }
double per_second(double seconds) { return seconds > 0 ? 1 / seconds : 0; }
double over(double a, double b) { return b > 0 ? a / b : 0; }
double gigabytes(double bytes) { return bytes * 1e-9; }

std::string megabytes(int64_t bytes) { return three_digits(static_cast<double>(bytes) * 1e-6) + " MB"; }

double step_bandwidth(const BenchResult& result) {
  return over(static_cast<double>(result.bytes.plain_step), result.plain.total);
}

// What a cycle would cost if reading weights were all there is.
double ideal_cycle(const BenchResult& result) {
  return over(static_cast<double>(result.bytes.plain_step + result.bytes.drafter),
              static_cast<double>(result.bytes.plain_step));
}

std::string memory_text(const BenchResult& result) {
  TextTable table({"bandwidth", "buffer", "median", "best", "a plain step reaches"});
  const auto row = [&](const char* name, const Bandwidth& bandwidth) {
    table.add({name, megabytes(bandwidth.buffer_bytes), three_digits(gigabytes(bandwidth.median)) + " GB/s",
               three_digits(gigabytes(bandwidth.best)) + " GB/s",
               percent(over(step_bandwidth(result), bandwidth.best))});
  };
  row("reading memory", result.memory);
  row("reading a buffer of the weights' size", result.weights);
  if (result.copies.best > 0) row("copying, read and written", result.copies);
  std::string text = table.render() + "  a plain step reads " + megabytes(result.bytes.plain_step) +
                     " of weights: " + three_digits(gigabytes(step_bandwidth(result))) + " GB/s\n";
  if (result.products > 0) {
    text += "  matrix units, in bf16 and reading nothing: " + three_digits(result.products * 1e-12) + " TFLOP/s\n";
  }
  return text;
}

std::string verify_text(const BenchResult& result) {
  TextTable table({"rows", "median ms", "p10 ms", "best ms", "x 1 row", "x 1 row (p10)", "x 1 row (best)"});
  for (const TimedCase& timed : result.verify) {
    const TimedCase& one = result.verify.front();
    table.add({timed.name, three_digits(ms(timed.median_seconds())), three_digits(ms(timed.p10_seconds())),
               three_digits(ms(timed.best_seconds())), fixed(over(timed.median_seconds(), one.median_seconds()), 2),
               fixed(over(timed.p10_seconds(), one.p10_seconds()), 2),
               fixed(over(timed.best_seconds(), one.best_seconds()), 2)});
  }
  return "\nVerify cost (forward and head of the target, context " + std::to_string(result.options.context) + "):\n" +
         table.render();
}

// On a quiet machine median and 10th percentile of the same work lie within a few percent.
std::string noise_text(const BenchResult& result) {
  constexpr double kBusy = 1.25;
  double worst =
      std::max(over(result.plain.total, result.plain.p10_total), over(result.cycle.total, result.cycle.p10_total));
  for (const TimedCase& timed : result.verify)
    worst = std::max(worst, over(timed.median_seconds(), timed.p10_seconds()));
  if (worst < kBusy) return {};
  return "\nThe machine was busy: some medians are " + fixed(worst, 1) +
         " times the 10th percentile. Trust p10 and best, or repeat when it is quiet.\n";
}

std::string prefill_text(const BenchResult& result) {
  TextTable table({"prefill", "median ms", "tokens/s"});
  for (const TimedCase& timed : result.prefill) {
    const double seconds = timed.median_seconds();
    table.add(
        {timed.name + " tokens", three_digits(ms(seconds)), three_digits(std::stod(timed.name) * per_second(seconds))});
  }
  return "\n" + table.render();
}

std::string step_text(const BenchResult& result) {
  TextTable table({"step", "rows", "draft", "verify", "sample", "context", "device", "device p10", "host", "tokens"});
  const auto row = [&](const char* name, int32_t rows, const StepSplit& split, const AnswerSpeed& answers) {
    table.add({name, std::to_string(rows), three_digits(ms(split.draft)), three_digits(ms(split.verify)),
               three_digits(ms(split.sample)), three_digits(ms(split.context)), three_digits(ms(split.total)),
               three_digits(ms(split.p10_total)), three_digits(ms(answers.host_seconds_per_step())),
               fixed(split.tokens, 2)});
  };
  if (result.block > 0) {
    row("one token a forward", 2 * result.block, result.plain, result.plain_answers);
    row("the algorithm's own", 2 * result.block, result.cycle, result.drafted_answers);
    return "\nOne forward of one sequence, median ms (rows: most, when a block is committed with it):\n" +
           table.render();
  }
  row("plain", 1, result.plain, result.plain_answers);
  if (result.width > 0) {
    row("cycle", result.width, result.cycle, result.adapts ? result.block_answers : result.drafted_answers);
  }
  std::string text = "\nOne step of one sequence, median ms (host work overlaps the device's):\n" + table.render();
  if (result.width > 0) {
    text += "  a cycle costs " + fixed(over(result.cycle.total, result.plain.total), 2) +
            " plain steps (p10: " + fixed(over(result.cycle.p10_total, result.plain.p10_total), 2) +
            ", best: " + fixed(over(result.cycle.best_total, result.plain.best_total), 2) +
            "; reading the weights alone: " + fixed(ideal_cycle(result), 2) + ")\n";
  }
  return text;
}

double speed_up(const BenchResult& result, const AnswerSpeed& speed) {
  return over(speed.tally.decode_tokens_per_second(), result.plain_answers.tally.decode_tokens_per_second());
}

// Mean rows of a verify step.
double rows_of(const AcceptanceTally& tally) {
  return 1 + over(static_cast<double>(tally.drafted()), static_cast<double>(tally.steps()));
}

std::string block_answers_text(const BenchResult& result) {
  TextTable table({"answers", "tokens", "tokens per forward", "decode tokens/s", "with prompt", "x one a forward"});
  const auto row = [&](const char* name, const AnswerSpeed& speed) {
    table.add({name, std::to_string(speed.tokens), fixed(speed.tally.acceptance_length_generated().value, 3),
               three_digits(speed.tally.decode_tokens_per_second()), three_digits(speed.tokens_per_second()),
               fixed(speed_up(result, speed), 2)});
  };
  row("one token a forward", result.plain_answers);
  row("the algorithm's own", result.drafted_answers);
  return "\nAnswers to the built-in prompts, greedy, one at a time, in turns:\n" + table.render() +
         "  speed-up: " + fixed(speed_up(result, result.drafted_answers), 2) +
         "x   the same as one token a forward: " + std::to_string(result.identical) + " of " +
         std::to_string(result.compared) + "\n";
}

std::string answers_text(const BenchResult& result) {
  if (result.block > 0) return block_answers_text(result);
  TextTable table(
      {"answers", "tokens", "ms/token", "decode tokens/s", "with prompt", "rows", "accept length", "x plain"});
  const auto row = [&](const std::string& name, const AnswerSpeed& speed) {
    const double rate = speed.tally.decode_tokens_per_second();
    table.add({name, std::to_string(speed.tokens), three_digits(ms(per_second(rate))), three_digits(rate),
               three_digits(speed.tokens_per_second()), fixed(rows_of(speed.tally), 1),
               fixed(speed.tally.acceptance_length_per_step().value, 3), fixed(speed_up(result, speed), 2)});
  };
  row("plain", result.plain_answers);
  if (result.has_drafted_answers()) {
    const char* of_drafter = result.adapts ? "drafted, width chosen step by step" : "drafted";
    row(result.ngrams ? "n-gram drafts" : of_drafter, result.drafted_answers);
  }
  if (result.adapts) row("drafted, width " + std::to_string(result.width), result.block_answers);
  std::string text = "\nAnswers to the built-in prompts, greedy, one at a time, in turns:\n" + table.render();
  if (!result.has_drafted_answers()) return text;
  if (result.options.accept_length > 0) {
    text += "  drafts are replaced by ones that give " + fixed(result.options.accept_length, 2) +
            " tokens a step of the whole block: what a drafter that good would gain here, not what this one gains\n";
  }
  return text + "  speed-up: " + fixed(speed_up(result, result.drafted_answers), 2) +
         "x   identical: " + std::to_string(result.identical) + " of " + std::to_string(result.compared) + "\n";
}

std::string concurrency_text(const BenchResult& result) {
  if (result.concurrency.empty()) return {};
  const bool blocks = result.block > 0;
  TextTable table({"at once", blocks ? "one a forward tokens/s" : "plain tokens/s",
                   blocks ? "tokens/s" : "drafted tokens/s", blocks ? "x one a forward" : "x plain"});
  for (const Concurrency& one : result.concurrency) {
    table.add({std::to_string(one.sequences), three_digits(one.plain),
               result.has_drafted_answers() ? three_digits(one.drafted) : "-",
               result.has_drafted_answers() ? fixed(over(one.drafted, one.plain), 2) : "-"});
  }
  return "\nSequences at once, prompts included:\n" + table.render();
}

std::string work_text(const BenchResult& result) {
  if (result.plain_work.steps == 0) return {};
  TextTable table({"one answer, steps planned ahead", "ms a step", "device idle", "kernels launched one by one"});
  const auto row = [&](const char* name, const StepWork& work) {
    if (work.steps == 0) return;
    table.add({name, three_digits(ms(work.seconds)), fixed(100 * work.idle, 2) + " %", fixed(work.loose_launches, 1)});
  };
  row(result.block > 0 ? "one token a forward" : "plain", result.plain_work);
  row(result.block > 0 ? "the algorithm's own" : "cycles", result.cycle_work);
  return "\n" + table.render();
}

// What slow models get less of.
std::string shortened_text(const BenchResult& result) {
  if (!result.shortened) return {};
  std::string text = "\nTo take " + three_digits(result.options.seconds) +
                     " s a part, or not much more (--seconds): " + std::to_string(result.rounds) + " of " +
                     std::to_string(result.options.repeat) + " rounds, " + std::to_string(result.answers) +
                     " answers of at most " + std::to_string(result.max_tokens) + " tokens one at a time";
  for (const Concurrency& one : result.concurrency) {
    text += "; " + std::to_string(one.sequences) + " at once " + std::to_string(one.answers) + " of " +
            std::to_string(one.max_tokens);
  }
  return text + ".\n";
}

Json bandwidth_json(const Bandwidth& bandwidth) {
  return {{"buffer_bytes", bandwidth.buffer_bytes},
          {"threads", bandwidth.threads},
          {"median_bytes_per_second", bandwidth.median},
          {"best_bytes_per_second", bandwidth.best}};
}

Json split_json(const StepSplit& split, const AnswerSpeed& answers) {
  return {{"draft_ms", ms(split.draft)},
          {"verify_ms", ms(split.verify)},
          {"sample_ms", ms(split.sample)},
          {"context_ms", ms(split.context)},
          {"device_ms", ms(split.total)},
          {"device_p10_ms", ms(split.p10_total)},
          {"device_best_ms", ms(split.best_total)},
          {"host_ms", ms(answers.host_seconds_per_step())},
          {"tokens_per_step", split.tokens}};
}

Json work_json(const StepWork& work) {
  return {{"steps", work.steps},
          {"ms_per_step", ms(work.seconds)},
          {"idle_share", work.idle},
          {"loose_launches_per_step", work.loose_launches}};
}

Json answers_json(const AnswerSpeed& speed) {
  return {{"tokens", speed.tokens},
          {"decode_tokens_per_second", speed.tally.decode_tokens_per_second()},
          {"tokens_per_second_with_prompt", speed.tokens_per_second()},
          {"rows_per_step", rows_of(speed.tally)},
          {"acceptance_length_per_step", speed.tally.acceptance_length_per_step().value}};
}

Json timed_json(const TimedCase& timed) {
  return {{"median_ms", ms(timed.median_seconds())},
          {"p10_ms", ms(timed.p10_seconds())},
          {"best_ms", ms(timed.best_seconds())},
          {"samples", timed.seconds.size()}};
}

Json rows_json(const BenchResult& result) {
  Json list = Json::array();
  for (const TimedCase& timed : result.verify) {
    Json entry = {{"rows", std::stoi(timed.name)}};
    entry.update(timed_json(timed));
    entry["ratio"] = over(timed.median_seconds(), result.verify.front().median_seconds());
    entry["ratio_p10"] = over(timed.p10_seconds(), result.verify.front().p10_seconds());
    entry["ratio_best"] = over(timed.best_seconds(), result.verify.front().best_seconds());
    list.push_back(entry);
  }
  return list;
}

}  // namespace

std::string bench_text(const BenchResult& result) {
  return memory_text(result) + verify_text(result) + prefill_text(result) + step_text(result) + answers_text(result) +
         concurrency_text(result) + work_text(result) + shortened_text(result) + noise_text(result);
}

Json bench_json(const BenchResult& result) {
  Json prefill = Json::array();
  for (const TimedCase& timed : result.prefill) {
    Json entry = {{"tokens", std::stoi(timed.name)}};
    entry.update(timed_json(timed));
    entry["tokens_per_second"] = std::stod(timed.name) * per_second(timed.median_seconds());
    prefill.push_back(entry);
  }
  Json levels = Json::array();
  for (const Concurrency& one : result.concurrency) {
    levels.push_back({{"sequences", one.sequences},
                      {"answers", one.answers},
                      {"max_tokens", one.max_tokens},
                      {"plain_tokens_per_second", one.plain}});
    const char* key = result.block > 0 ? "parallel_tokens_per_second" : "drafted_tokens_per_second";
    if (result.has_drafted_answers()) levels.back()[key] = one.drafted;
  }
  Json json = {
      {"options",
       {{"repeat", result.options.repeat},
        {"context", result.options.context},
        {"max_tokens", result.options.max_tokens},
        {"seconds", result.options.seconds}}},
      {"rounds", result.rounds},
      {"answers", result.answers},
      {"max_tokens", result.max_tokens},
      {"shortened", result.shortened},
      {"read_bandwidth", {{"memory", bandwidth_json(result.memory)}, {"weights_size", bandwidth_json(result.weights)}}},
      {"bytes_per_plain_step", result.bytes.plain_step},
      {"plain_step_bytes_per_second", step_bandwidth(result)},
      {"verify", rows_json(result)},
      {"prefill", prefill},
      {"plain_step", split_json(result.plain, result.plain_answers)},
      {"plain_answers", answers_json(result.plain_answers)},
      {"concurrency", levels}};
  if (result.copies.best > 0) json["copy_bandwidth"] = bandwidth_json(result.copies);
  if (result.products > 0) json["products_per_second"] = result.products;
  if (result.plain_work.steps > 0) json["plain_work"] = work_json(result.plain_work);
  if (result.cycle_work.steps > 0) json["cycle_work"] = work_json(result.cycle_work);
  if (result.options.accept_length > 0) json["options"]["accept_length"] = result.options.accept_length;
  if (!result.has_drafted_answers()) return json;
  if (result.block > 0) {
    json["block_size"] = result.block;
    json["parallel_step"] = split_json(result.cycle, result.drafted_answers);
    json["parallel_answers"] = answers_json(result.drafted_answers);
    json["plain_answers"]["tokens_per_forward"] = result.plain_answers.tally.acceptance_length_generated().value;
    json["parallel_answers"]["tokens_per_forward"] = result.drafted_answers.tally.acceptance_length_generated().value;
    json["speed_up"] = speed_up(result, result.drafted_answers);
    json["agreement"] = {{"compared", result.compared}, {"identical", result.identical}};
    return json;
  }
  json["drafted_answers"] = answers_json(result.drafted_answers);
  json["speed_up"] = speed_up(result, result.drafted_answers);
  json["identity"] = {{"compared", result.compared}, {"identical", result.identical}};
  if (result.width == 0) return json;
  json["width"] = result.width;
  json["drafter_bytes_per_cycle"] = result.bytes.drafter;
  json["cycle"] = split_json(result.cycle, result.adapts ? result.block_answers : result.drafted_answers);
  json["cycle_ratio"] = over(result.cycle.total, result.plain.total);
  json["cycle_ratio_p10"] = over(result.cycle.p10_total, result.plain.p10_total);
  json["cycle_ratio_best"] = over(result.cycle.best_total, result.plain.best_total);
  json["cycle_ratio_of_weights"] = ideal_cycle(result);
  json["width_is_chosen_step_by_step"] = result.adapts;
  if (result.adapts) {
    json["block_answers"] = answers_json(result.block_answers);
    json["block_speed_up"] = speed_up(result, result.block_answers);
  }
  return json;
}

}  // namespace ashlar
