// SPDX-License-Identifier: Apache-2.0
#include "measure/engine/kernel_bench.h"
#include "measure/report/table.h"

namespace ashlar {
namespace {

double rate(int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }
double share(double part, double whole) { return whole > 0 ? part / whole : 0; }
std::string or_none(double value, const std::string& text) { return value > 0 ? text : "-"; }

double moved(const KernelRow& row) { return rate(row.read + row.written, row.seconds); }

void add(TextTable& table, const KernelBench& bench, const KernelPass& pass, const KernelRow& row) {
  const double bytes = moved(row), products = rate(row.products, row.seconds);
  table.add({row.op, row.calls > 0 ? std::to_string(row.calls) : "", three_digits(row.seconds * 1e3),
             percent(share(row.seconds, pass.seconds)),
             or_none(bytes, three_digits(static_cast<double>(row.read) * 1e-6)),
             or_none(bytes, three_digits(static_cast<double>(row.written) * 1e-6)),
             or_none(bytes, three_digits(bytes * 1e-9)), or_none(bytes, percent(share(bytes, bench.memory.best))),
             or_none(products, three_digits(products * 1e-9)),
             or_none(products * bench.products, percent(share(products, bench.products)))});
}

KernelRow all_of(const KernelPass& pass) {
  KernelRow all{"all"};
  all.seconds = pass.seconds;
  for (const KernelRow& row : pass.rows) {
    all.calls += row.calls;
    all.read += row.read;
    all.written += row.written;
    all.products += row.products;
  }
  return all;
}

std::string pass_text(const KernelBench& bench, const KernelPass& pass) {
  TextTable table(
      {pass.name, "calls", "ms", "share", "MB read", "MB written", "GB/s", "of reading", "GFLOP/s", "of the peak"});
  for (const KernelRow& row : pass.rows) add(table, bench, pass, row);
  KernelRow between{"between ops"};
  between.seconds = std::max(0.0, pass.seconds - pass.in_ops());
  add(table, bench, pass, between);
  add(table, bench, pass, all_of(pass));
  return "\n" + table.render();
}

Json row_json(const KernelBench& bench, const KernelRow& row) {
  Json json = {{"op", row.op},
               {"calls", row.calls},
               {"ms", row.seconds * 1e3},
               {"bytes_read", row.read},
               {"bytes_written", row.written},
               {"bytes_per_second", moved(row)},
               {"of_read_bandwidth", share(moved(row), bench.memory.best)}};
  if (row.products == 0) return json;
  json["products"] = row.products;
  json["products_per_second"] = rate(row.products, row.seconds);
  if (bench.products > 0) json["of_peak"] = share(rate(row.products, row.seconds), bench.products);
  return json;
}

}  // namespace

std::string kernel_bench_text(const KernelBench& bench) {
  std::string text = "Reading memory reaches " + three_digits(bench.memory.best * 1e-9) + " GB/s";
  if (bench.copies.best > 0) text += ", copying " + three_digits(bench.copies.best * 1e-9) + " GB/s";
  if (bench.products > 0) {
    text += "; matrix units, in bf16 and reading nothing, " + three_digits(bench.products * 1e-12) + " TFLOP/s";
  }
  text += ".\nOps by the time they take in the run of the median time, after " + std::to_string(bench.options.context) +
          " tokens. Bytes are what an op cannot do without.\n";
  for (const KernelPass& pass : bench.passes) text += pass_text(bench, pass);
  return text;
}

Json kernel_bench_json(const KernelBench& bench) {
  Json passes = Json::array();
  for (const KernelPass& pass : bench.passes) {
    Json rows = Json::array();
    for (const KernelRow& row : pass.rows) rows.push_back(row_json(bench, row));
    passes.push_back(
        {{"pass", pass.name}, {"ms", pass.seconds * 1e3}, {"ms_in_ops", pass.in_ops() * 1e3}, {"ops", rows}});
  }
  Json json = {{"options", {{"repeat", bench.options.repeat}, {"context", bench.options.context}}},
               {"read_bytes_per_second", bench.memory.best},
               {"kernels", passes}};
  if (bench.copies.best > 0) json["copy_bytes_per_second"] = bench.copies.best;
  if (bench.products > 0) json["products_per_second"] = bench.products;
  return json;
}

}  // namespace ashlar
