// SPDX-License-Identifier: Apache-2.0
// Commands, their variables and what is said about unknown words; on the program's own tree.
#include "app/command_line/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>

#include "app/command_line/foreign_words.h"
#include "app/command_line/validators.h"
#include "app/program.h"

namespace ashlar {
namespace {

using testing::HasSubstr;
using Args = std::vector<std::string>;

class CommandLine : public testing::Test {
 protected:
  CommandLine() { build_program(app_); }
  ~CommandLine() override {
    for (const char* name : {"ASHLAR_PORT", "ASHLAR_THREADS"}) ::unsetenv(name);
  }
  std::string problem_of(const Args& args) { return choose_command(app_, args).problem; }
  std::string variables_of(const Args& args) { return apply_variables(app_, choose_command(app_, args)); }

  CLI::App app_{program_title(), "ashlar"};
};

TEST_F(CommandLine, FindsTheCommand) {
  EXPECT_EQ(choose_command(app_, {}).path, "ashlar");
  EXPECT_EQ(choose_command(app_, {"--help"}).path, "ashlar");
  EXPECT_EQ(choose_command(app_, {"run", "serve", "-n", "3"}).path, "ashlar run");
  EXPECT_EQ(choose_command(app_, {"run", "serve", "-n", "3"}).args, (Args{"serve", "-n", "3"}));
  EXPECT_EQ(choose_command(app_, {"eval", "dllm", "x"}).path, "ashlar eval dllm");
  EXPECT_EQ(choose_command(app_, {"bench", "folder"}).path, "ashlar bench");
  EXPECT_EQ(choose_command(app_, {"bench", "--repeat", "5", "serve"}).path, "ashlar bench serve");
}

TEST_F(CommandLine, ProposesTheNearestName) {
  EXPECT_EQ(problem_of({"ru", "--prompt", "x"}), "ashlar has no command ru; did you mean run?");
  EXPECT_EQ(problem_of({"eval-dllm", "--help"}), "ashlar has no command eval-dllm; did you mean eval dllm?");
  EXPECT_EQ(problem_of({"eval", "accept"}), "ashlar eval has no command accept; did you mean acceptance?");
  EXPECT_THAT(problem_of({"quite-another-word"}), HasSubstr("expected one of run, chat"));
  EXPECT_THAT(problem_of({"eval"}), HasSubstr("acceptance"));
  EXPECT_EQ(problem_of({"eval", "--help"}), "");
  EXPECT_EQ(nearest("--promt", {"--prompt", "--port", "--prompts"}), "--prompt");
  EXPECT_EQ(nearest("rnu", {"eval", "run", "rm"}), "run");  // swapped neighbours are one mistake
  EXPECT_EQ(nearest("sevre", {"serve", "server"}), "serve");
  EXPECT_EQ(nearest("--xyzzy", {"--prompt", "--port"}), "");
}

TEST_F(CommandLine, SaysWhatStandsForWordsOfOtherPrograms) {
  EXPECT_EQ(
      problem_of({"run", "-hf", "org/model"}),
      "-hf is no flag of ashlar run; here it is ashlar pull ORG/MODEL, after which every command takes ORG/MODEL");
  EXPECT_THAT(problem_of({"-m", "x.gguf", "-p", "hi"}),
              HasSubstr("-m is no flag of ashlar; here the model stands without a flag"));
  for (const auto& [args, here] :
       std::vector<std::pair<Args, const char*>>{{{"run", "-c", "4096"}, "--max-context N"},
                                                 {{"chat", "-t", "8"}, "--threads N"},
                                                 {{"serve", "--model", "x"}, "without a flag"},
                                                 {{"serve", "x", "--max-model-len=4096"}, "--max-context N"},
                                                 {{"run", "x", "-ngl", "99"}, "--device cuda"},
                                                 {{"run", "x", "-p", "hi", "--temp", "0.7"}, "--temperature X"},
                                                 {{"serve", "--spec-type", "draft-dflash"}, "--drafter FOLDER"},
                                                 {{"serve", "--speculative-algorithm", "DFLASH"}, "--drafter FOLDER"},
                                                 {{"serve", "--temp", "0.7"}, "each request says it"},
                                                 {{"serve", "-hfd", "org/model"}, "--drafter FOLDER"},
                                                 {{"quantize", "x.gguf"}, "--weights int8"},
                                                 {{"ps"}, "/stats"},
                                                 {{"ls"}, "ashlar list"},
                                                 {{"show", "x"}, "ashlar inspect"}}) {
    EXPECT_THAT(problem_of(args), HasSubstr(here)) << args.back();
    EXPECT_THAT(problem_of(args), HasSubstr("here")) << args.back();
  }
  EXPECT_EQ(problem_of({"run", "-hello"}), "-hello is no flag of ashlar run");  // and no -h followed by more
  // Values are no flags, and a command's own flags are its own.
  for (const Args& args :
       {Args{"run", "--prompt", "-m"}, Args{"run", "--prompt=-hf"}, Args{"run", "--", "-hf"},
        Args{"run", "--stop", "-c"}, Args{"run", "-n", "5", "-q"}, Args{"list"}, Args{"rm", "org/model"}}) {
    EXPECT_EQ(problem_of(args), "") << args.back();
  }
}

// What the table sends people to is there: each flag of it is one of run, chat or serve, each command a command.
TEST_F(CommandLine, WhatStandsForForeignWordsExists) {
  Args flags;
  for (const char* name : {"run", "chat", "serve"}) {
    const Args own = flag_names(*app_.get_subcommand(name));
    flags.insert(flags.end(), own.begin(), own.end());
  }
  size_t n = 0;
  for (const std::string& hint : foreign_hints()) {
    for (size_t at = hint.find("--"); at != std::string::npos; at = hint.find("--", at + 2)) {
      const std::string flag = hint.substr(at, hint.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at) - at);
      EXPECT_NE(std::find(flags.begin(), flags.end(), flag), flags.end()) << hint;
      ++n;
    }
    for (size_t at = hint.find("ashlar "); at != std::string::npos; at = hint.find("ashlar ", at + 1)) {
      const std::string command =
          hint.substr(at + 7, hint.find_first_not_of("abcdefghijklmnopqrstuvwxyz", at + 7) - at - 7);
      if (command.empty()) continue;  // COMMAND
      EXPECT_EQ(choose_command(app_, {command}).path, "ashlar " + command) << hint;
      ++n;
    }
  }
  EXPECT_GT(n, 60U);
}

// Users who come with the page that compares flags find each of them answered here.
TEST_F(CommandLine, EveryFlagOfTheTableInTheDocumentationIsAnswered) {
  std::ifstream page(std::filesystem::path(ASHLAR_SOURCE_DIR) / "docs" / "serving.md");
  const std::regex flag("[`( ](--?[a-z][a-z0-9-]*)");
  size_t n = 0;
  bool begun = false;
  for (std::string line; std::getline(page, line);) {
    begun = line.starts_with("## ") ? line.starts_with("## Coming from ") : begun;
    if (!begun || !line.starts_with("| ") || line.find('`') == std::string::npos) continue;
    const size_t others = line.find(" |", 2);  // what follows the column of this program's own flags
    const std::string cells = line.substr(others);
    for (std::sregex_iterator it(cells.begin(), cells.end(), flag), end; it != end; ++it) {
      const std::string name = (*it)[1];
      const std::string said = problem_of({"serve", name, "1"});
      const Args own = flag_names(*app_.get_subcommand("serve"));
      EXPECT_TRUE(said.find("here") != std::string::npos || std::find(own.begin(), own.end(), name) != own.end())
          << name;
      ++n;
    }
  }
  EXPECT_GT(n, 40U);
}

TEST_F(CommandLine, HelpAndVersionAreWordsToo) {
  EXPECT_EQ(spelled_out({"help"}), Args{"--help"});
  EXPECT_EQ(spelled_out({"help", "eval", "dllm"}), (Args{"eval", "dllm", "--help"}));
  EXPECT_EQ(spelled_out({"version"}), Args{"--version"});
  EXPECT_EQ(spelled_out({"run", "help"}), (Args{"run", "help"}));
}

TEST_F(CommandLine, OnlyTheCommandsOwnVariablesCount) {
  ::setenv("ASHLAR_PORT", "99999", 1);
  EXPECT_EQ(variables_of({"run", "-p", "hi"}), "");
  EXPECT_EQ(variables_of({"man"}), "");
}

TEST_F(CommandLine, NamesTheVariable) {
  ::setenv("ASHLAR_PORT", "99999", 1);
  EXPECT_EQ(variables_of({"serve"}), "ASHLAR_PORT is 99999; expected a whole number from 0 to 65535");
  EXPECT_EQ(variables_of({"serve", "--port", "1"}), "");  // a flag wins
}

TEST_F(CommandLine, OthersVariablesAreOutOfTheWay) {
  ::setenv("ASHLAR_THREADS", "abc", 1);
  EXPECT_EQ(variables_of({"bench", "serve", "--url", "x"}), "");
  EXPECT_EQ(app_.get_subcommand("run")->get_option("--threads")->get_envname(), "");
}

TEST_F(CommandLine, AServiceLinkIsNoPort) {
  ::setenv("ASHLAR_PORT", "tcp://10.0.0.1:8080", 1);
  testing::internal::CaptureStderr();
  EXPECT_EQ(variables_of({"serve"}), "");
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("Kubernetes"));
  EXPECT_EQ(std::getenv("ASHLAR_PORT"), nullptr);
}

// A flag whose number is not checked would take "nan", or cut what it does not understand.
TEST_F(CommandLine, EveryFlagOfANumberRefusesWhatIsNone) {
  int numbers = 0;
  const std::function<void(CLI::App&)> walk = [&](CLI::App& app) {
    for (CLI::Option* option : app.get_options()) {
      const std::string type = option->get_type_name();
      const bool is_number = type == "N" || type == "X" || type == "S" || type == "P" || type == "K" || type == "R" ||
                             type == "T" || type == "MS" || type == "SIZE" || type == "N,..." || type == "R,..." ||
                             type == "T,..." || type == "W,...";
      if (!is_number) continue;
      ++numbers;
      for (const char* bad : {"nan", "inf", "-1e400", "1x"}) {
        EXPECT_NE(problem_with_value(*option, bad), "") << app.get_name() << " " << option->get_name() << " " << bad;
      }
    }
    for (CLI::App* below : app.get_subcommands(std::function<bool(CLI::App*)>())) walk(*below);
  };
  walk(app_);
  EXPECT_GT(numbers, 50);
}

}  // namespace
}  // namespace ashlar
