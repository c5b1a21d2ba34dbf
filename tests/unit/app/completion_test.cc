// SPDX-License-Identifier: Apache-2.0
// Completion scripts and the manual page, held against the tree of commands that is parsed, and against the shells.
#include "app/command_line/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>

#include "app/command_line/man_page.h"
#include "device/device.h"
#include "temp_folder.h"

namespace ashlar {
namespace {

using testing::HasSubstr;

class Completion : public testing::Test {
 protected:
  Completion() {
    build_program(app_);
    facts_ = command_facts(app_);
  }

  std::string file(const std::string& name, const std::string& text) { return folder_.write(name, text).string(); }
  // Exit code and output of a shell command.
  static std::pair<int, std::string> run(const std::string& command) {
    FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
    std::string out;
    char bytes[4096];
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, pipe)) > 0;) out.append(bytes, n);
    return {::pclose(pipe), out};
  }
  static bool has_program(const std::string& name) { return run("command -v " + name).first == 0; }

  // Commands and their flags, walked without command_facts().
  static void walk(const CLI::App& app, const std::string& path, std::map<std::string, std::set<std::string>>& out) {
    std::set<std::string>& names = out[path];
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) names.insert("--" + name);
      for (const std::string& name : option->get_snames()) names.insert("-" + name);
    }
    for (const CLI::App* below : app.get_subcommands(std::function<bool(const CLI::App*)>())) {
      if (below->get_group().empty()) continue;  // hidden: it only says what to use instead
      names.insert(below->get_name());
      walk(*below, path.empty() ? below->get_name() : path + " " + below->get_name(), out);
    }
  }
  // What bash proposes at the end of a line.
  std::set<std::string> proposals(const std::string& script, const std::string& line) {
    const std::string ask = "source " + script + "\nCOMP_WORDS=(" + line +
                            ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_ashlar\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
    std::istringstream lines(run("bash " + file("ask.bash", ask)).second);
    std::set<std::string> out;
    for (std::string word; std::getline(lines, word);) out.insert(word);
    out.erase("");
    return out;
  }

  const TempFolder folder_;
  CLI::App app_{program_title(), "ashlar"};
  std::vector<CommandFacts> facts_;
};

TEST_F(Completion, BashProposesEveryFlagOfEveryCommand) {
  const std::string script = file("ashlar.bash", completion_script(facts_, "bash"));
  EXPECT_EQ(run("bash -n " + script), (std::pair<int, std::string>{0, ""}));
  EXPECT_THAT(run("bash -c 'source " + script + "; complete -p ashlar'").second, HasSubstr("_ashlar ashlar"));
  std::map<std::string, std::set<std::string>> commands;
  walk(app_, "", commands);
  ASSERT_GT(commands.size(), 10U);
  for (const auto& [path, names] : commands) {
    const std::set<std::string> found = proposals(script, "ashlar " + path + " \"\"");
    for (const std::string& name : names) EXPECT_TRUE(found.contains(name)) << path << ": " << name;
  }
}

TEST_F(Completion, BashProposesValues) {
  using Set = std::set<std::string>;
  const std::string script = file("ashlar.bash", completion_script(facts_, "bash"));
  EXPECT_EQ(proposals(script, "ashlar run --color \"\""), (Set{"auto", "always", "never"}));
  EXPECT_EQ(proposals(script, "ashlar run --color = a"), (Set{"auto", "always"}));
  EXPECT_EQ(proposals(script, "ashlar serve --log-format j"), Set{"json"});
  EXPECT_EQ(proposals(script, "ashlar serve --tls-cert \"\""), Set{});  // bash itself then names files
  EXPECT_EQ(proposals(script, "ashlar doc"), Set{"doctor"});
  EXPECT_EQ(proposals(script, "ashlar completion z"), Set{"zsh"});
  const std::vector<std::string> names = device_names();
  Set devices(names.begin(), names.end());
  devices.insert("auto");
  EXPECT_EQ(proposals(script, "ashlar run --device \"\""), devices);
  EXPECT_EQ(proposals(script, "ashlar serve --log-level w"), Set{"warn"});
  EXPECT_EQ(proposals(script, "ashlar run --dllm-algorithm low"), Set{"low_confidence"});
  EXPECT_TRUE(proposals(script, "ashlar run --isa \"\"").contains("portable"));
}

TEST_F(Completion, OtherShellsReadTheirs) {
  const std::string zsh = completion_script(facts_, "zsh"), fish = completion_script(facts_, "fish");
  for (const CommandFacts& command : facts_) {
    for (const ArgumentFacts& argument : command.arguments) {
      for (const std::string& name : argument.names) {
        if (!name.starts_with("--")) continue;
        EXPECT_THAT(zsh, HasSubstr("'" + std::string(argument.repeatable ? "*" : "") + name));
        EXPECT_THAT(fish, HasSubstr(" -l " + name.substr(2) + " "));
      }
    }
  }
  if (has_program("zsh")) {
    EXPECT_EQ(run("zsh -n " + file("_ashlar", zsh)), (std::pair<int, std::string>{0, ""}));
  }
  if (has_program("fish")) {
    const std::string script = file("ashlar.fish", fish);
    EXPECT_EQ(run("fish --no-execute " + script), (std::pair<int, std::string>{0, ""}));
    const std::string found =
        run("fish --no-config -c 'source " + script + "; complete -C \"ashlar serve --log-f\"'").second;
    EXPECT_THAT(found, testing::StartsWith("--log-format"));
  }
}

TEST_F(Completion, TheManualNamesEveryFlag) {
  const std::string page = man_page(facts_, "1.2.3");
  for (const CommandFacts& command : facts_) {
    for (const ArgumentFacts& argument : command.arguments) {
      for (std::string name : argument.names) {
        for (size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2) name.insert(at, "\\");
        EXPECT_THAT(page, HasSubstr(name + "\\fR"));
      }
    }
  }
  for (const char* variable : {"HF_TOKEN", "HF_ENDPOINT", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "ASHLAR_PORT"}) {
    EXPECT_THAT(page, HasSubstr(std::string("\\fB") + variable + "\\fR"));
  }
  const std::string path = file("ashlar.1", page);
  if (has_program("groff")) {
    EXPECT_EQ(run("groff -man -Tutf8 -ww " + path + " >/dev/null"), (std::pair<int, std::string>{0, ""}));
    EXPECT_THAT(run("groff -man -Tascii -P-c -P-b -P-u " + path).second, HasSubstr("--log-format text|json"));
  }
  if (has_program("mandoc")) {
    // The page has no date on purpose: two runs of one build print the same.
    EXPECT_EQ(run("mandoc -T lint -W warning " + path + " | grep -v \"missing date\"").second, "");
  }
}

}  // namespace
}  // namespace ashlar
