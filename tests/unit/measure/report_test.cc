// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "measure/build_info.h"
#include "measure/engine/bench_report.h"
#include "measure/evaluation/acceptance_report.h"
#include "measure/evaluation/denoise_study.h"
#include "measure/report/report_file.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What a program that reads the file would stumble over: JSON has no NaN, nlohmann writes null.
void expect_no_null(const Json& json) { EXPECT_THAT(json.dump(), Not(HasSubstr("null"))); }

BenchResult bench_result() {
  BenchResult result;
  result.width = 16;
  result.memory = {40e9, 30e9, 1 << 30, 2};
  result.weights = {80e9, 60e9, 20'000'000, 2};
  result.bytes = {20'000'000, 10'000'000};
  result.verify = {{"1", {}, 1, {1e-3, 1e-3, 1e-3}}, {"16", {}, 1, {1.5e-3, 1.5e-3, 9e-3}}};
  result.prefill = {{"128", {}, 1, {8e-3}}};
  result.plain.total = result.plain.p10_total = result.plain.best_total = 1e-3;
  result.cycle.total = 1.75e-3;
  result.cycle.p10_total = 1.6e-3;
  result.concurrency = {{1, 24, 64, 1000, 2000}, {8, 48, 64, 3000, 4500}};
  return result;
}

TEST(BenchReport, Ratios) {
  const Json json = bench_json(bench_result());
  EXPECT_DOUBLE_EQ(json["verify"][1]["ratio"].get<double>(), 1.5);
  EXPECT_DOUBLE_EQ(json["cycle_ratio"].get<double>(), 1.75);
  EXPECT_DOUBLE_EQ(json["cycle_ratio_of_weights"].get<double>(), 1.5);
  EXPECT_DOUBLE_EQ(json["plain_step_bytes_per_second"].get<double>(), 20e9);
  EXPECT_DOUBLE_EQ(json["prefill"][0]["tokens_per_second"].get<double>(), 16000);
  expect_no_null(json);
  const std::string text = bench_text(bench_result());
  EXPECT_THAT(text, HasSubstr("a cycle costs 1.75 plain steps (p10: 1.60"));
  EXPECT_THAT(text, HasSubstr("50.0 %"));  // 20 of 40 GB/s
}

TEST(BenchReport, CopiesOfADeviceThatHasItsOwnMemory) {
  BenchResult result = bench_result();
  EXPECT_FALSE(bench_json(result).contains("copy_bandwidth"));
  EXPECT_THAT(bench_text(result), Not(HasSubstr("copying")));
  result.copies = {25e9, 20e9, 1 << 30, 0};
  EXPECT_DOUBLE_EQ(bench_json(result)["copy_bandwidth"]["best_bytes_per_second"].get<double>(), 25e9);
  EXPECT_THAT(bench_text(result), HasSubstr("copying"));
  EXPECT_THAT(bench_text(result), HasSubstr("80.0 %"));  // 20 of 25 GB/s
}

TEST(BenchReport, IdleTimeOfADeviceThatSaysIt) {
  BenchResult result = bench_result();
  EXPECT_FALSE(bench_json(result).contains("plain_work"));
  EXPECT_THAT(bench_text(result), Not(HasSubstr("device idle")));
  result.plain_work = {100, 5e-3, 0.0123, 0};
  result.cycle_work = {90, 7e-3, 0.02, 3.25};
  EXPECT_DOUBLE_EQ(bench_json(result)["plain_work"]["idle_share"].get<double>(), 0.0123);
  EXPECT_DOUBLE_EQ(bench_json(result)["cycle_work"]["loose_launches_per_step"].get<double>(), 3.25);
  const std::string text = bench_text(result);
  EXPECT_THAT(text, HasSubstr("1.23 %"));
  EXPECT_THAT(text, HasSubstr("2.00 %"));
}

TEST(BenchReport, FixedAndChosenWidthSideBySide) {
  BenchResult result = bench_result();
  const auto speed = [](int32_t drafted, int64_t ns) {
    RequestStats stats;
    stats.generated_tokens = 11;
    stats.verify_steps = 5;
    stats.drafted = drafted;
    stats.lengths = {0, 0, 5};
    stats.first_token_ns = 1;
    stats.finished_ns = 1 + ns;
    AnswerSpeed answers;
    answers.tally.add(stats);
    return answers;
  };
  result.plain_answers = speed(0, 10'000'000);
  result.drafted_answers = speed(15, 4'000'000);
  result.block_answers = speed(75, 5'000'000);
  EXPECT_FALSE(bench_json(result).contains("block_answers"));
  result.adapts = true;
  const Json json = bench_json(result);
  EXPECT_DOUBLE_EQ(json["speed_up"].get<double>(), 2.5);
  EXPECT_DOUBLE_EQ(json["block_speed_up"].get<double>(), 2);
  EXPECT_DOUBLE_EQ(json["drafted_answers"]["rows_per_step"].get<double>(), 4);
  EXPECT_DOUBLE_EQ(json["block_answers"]["rows_per_step"].get<double>(), 16);
  EXPECT_THAT(bench_text(result), HasSubstr("speed-up: 2.50x"));
}

TEST(BenchReport, SaysWhenTheMachineWasBusy) {
  BenchResult result = bench_result();
  EXPECT_THAT(bench_text(result), Not(HasSubstr("busy")));
  result.plain.total = 1.5e-3;
  EXPECT_THAT(bench_text(result), HasSubstr("The machine was busy"));
}

TEST(BenchReport, WithoutDrafterNothingIsSaidOfOne) {
  BenchResult result = bench_result();
  result.width = 0;
  const Json json = bench_json(result);
  EXPECT_FALSE(json.contains("cycle"));
  EXPECT_FALSE(json["concurrency"][0].contains("drafted_tokens_per_second"));
  EXPECT_THAT(bench_text(result), Not(HasSubstr("cycle")));
}

TEST(BenchReport, OfNgramDrafts) {
  BenchResult result = bench_result();
  result.width = 0;
  result.ngrams = true;
  const Json json = bench_json(result);
  EXPECT_FALSE(json.contains("cycle"));
  EXPECT_TRUE(json.contains("drafted_answers"));
  EXPECT_EQ(json["speed_up"], bench_json(bench_result())["speed_up"]);
  EXPECT_TRUE(json["concurrency"][0].contains("drafted_tokens_per_second"));
  const std::string text = bench_text(result);
  EXPECT_THAT(text, Not(HasSubstr("cycle")));
  EXPECT_THAT(text, HasSubstr("n-gram drafts"));
  EXPECT_THAT(text, HasSubstr("identical: "));
}

TEST(BenchReport, OfABlockDiffusionModel) {
  BenchResult result = bench_result();
  result.block = result.width = 8;
  const auto speed = [](int32_t steps, int64_t ns) {
    RequestStats stats;
    stats.generated_tokens = 12;
    stats.verify_steps = steps;
    stats.blocks = 2;
    stats.prompt_done_ns = 1;
    stats.first_token_ns = 2;
    stats.finished_ns = 1 + ns;
    AnswerSpeed answers;
    answers.tally.add(stats);
    answers.tokens = 12;
    answers.wall_ns = ns + 4'000'000;
    return answers;
  };
  result.plain_answers = speed(12, 12'000'000);
  result.drafted_answers = speed(6, 8'000'000);
  result.compared = 4;
  result.identical = 3;
  const Json json = bench_json(result);
  EXPECT_DOUBLE_EQ(json["speed_up"].get<double>(), 1.5);
  EXPECT_DOUBLE_EQ(json["parallel_answers"]["tokens_per_forward"].get<double>(), 2);
  EXPECT_DOUBLE_EQ(json["concurrency"][1]["parallel_tokens_per_second"].get<double>(), 4500);
  EXPECT_EQ(json["agreement"]["identical"], 3);
  expect_no_null(json);
  const std::string text = bench_text(result);
  EXPECT_THAT(text, HasSubstr("1500         1000"));  // without the prompt and with it
  EXPECT_THAT(text, HasSubstr("speed-up: 1.50x   the same as one token a forward: 3 of 4"));
  EXPECT_THAT(text, Not(HasSubstr("drafted")));
  EXPECT_THAT(text, Not(HasSubstr("cycle")));
}

TEST(BenchReport, EmptyMeasurementsDivideByNothing) {
  BenchResult result;
  result.width = 2;
  result.verify = {{"1", {}, 1, {}}};
  expect_no_null(bench_json(result));
  EXPECT_FALSE(bench_text(result).empty());
}

TEST(DenoiseReport, SpeedAndTimePerStep) {
  RequestStats stats;
  stats.verify_steps = 4;
  stats.generated_tokens = 9;
  stats.lengths = {0, 0, 4};
  DenoiseCell cell;
  cell.tally.add(stats);
  cell.speeds = {900, 1000, 1100};
  EXPECT_DOUBLE_EQ(cell.ms_per_step(), 2);
  const Json json = denoise_json({cell});
  EXPECT_DOUBLE_EQ(json[0]["decode_tokens_per_second"].get<double>(), 1000);
  expect_no_null(json);
}

TEST(ReportFile, WrongPathIsToldAtOnce) {
  EXPECT_THROW(ReportFile("/no/such/folder/report.json"), Error);
  ReportFile none("");
  EXPECT_FALSE(none.wanted());
  none.write("nothing");
}

TEST(ReportFile, WritesAndTellsAFullDisk) {
  const TempFolder folder;
  const std::string path = (folder / "report.json").string();
  ReportFile(path).write("content\n");
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "content\n");
  if (std::ofstream("/dev/full")) {
    EXPECT_THROW(ReportFile("/dev/full").write("content"), Error);
  }
}

TEST(ReportFile, WhatLiesThereStaysUntilThereIsMore) {
  const TempFolder folder;
  const auto content = [&] {
    std::stringstream text;
    text << std::ifstream(folder / "report.json").rdbuf();
    return text.str();
  };
  std::ofstream(folder / "report.json") << "old";
  std::filesystem::create_symlink("report.json", folder / "link.json");
  ReportFile file(folder / "link.json");
  EXPECT_EQ(content(), "old");
  file.write("new");
  EXPECT_EQ(content(), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link.json"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);  // nothing else is left
  { const ReportFile unwritten(folder / "another.json"); }
  EXPECT_FALSE(std::filesystem::exists(folder / "another.json"));
}

TEST(ReportFile, SaysWhyNot) {
  const auto error_of = [](const std::string& path) {
    try {
      const ReportFile file(path);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_THAT(error_of("/no/such/folder/report.json"), HasSubstr("No such file or directory"));
  EXPECT_THAT(error_of(TempFolder().path()), HasSubstr("Is a directory"));
}

TEST(BuildInfo, NamesTheBuild) {
  const Json json = describe_build();
  EXPECT_FALSE(json["version"].get<std::string>().empty());
  EXPECT_GE(json["cores"].get<int>(), 1);
}

}  // namespace
}  // namespace ashlar
