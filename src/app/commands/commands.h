// SPDX-License-Identifier: Apache-2.0
#pragma once
// One function a subcommand: it adds the command with its flags and its callback, and program.cc calls it. A callback
// prints its own output, throws Error for outside data that is wrong (exit code 1) or CLI::ValidationError for a flag
// (exit code 2), and CLI::RuntimeError(code) to end with another exit code.

#include <CLI/CLI.hpp>

namespace ashlar {

CLI::App* add_run_command(CLI::App& app);
CLI::App* add_chat_command(CLI::App& app);
CLI::App* add_pull_command(CLI::App& app);
CLI::App* add_list_command(CLI::App& app);
CLI::App* add_rm_command(CLI::App& app);
CLI::App* add_inspect_command(CLI::App& app);
CLI::App* add_eval_command(CLI::App& app);
/// A subcommand of eval.
void add_eval_dllm_command(CLI::App& eval);
/// A subcommand of eval.
void add_eval_logits_command(CLI::App& eval);
/// A subcommand of eval.
void add_eval_perplexity_command(CLI::App& eval);
CLI::App* add_bench_command(CLI::App& app);
/// A subcommand of bench, which runs by itself if none is named.
CLI::App* add_bench_serve_command(CLI::App& bench);
CLI::App* add_synth_command(CLI::App& app);
CLI::App* add_train_command(CLI::App& app);
/// Subcommands of train, which runs by itself if none is named.
void add_train_parts(CLI::App& train);
CLI::App* add_calibrate_command(CLI::App& app);
CLI::App* add_demo_command(CLI::App& app);
CLI::App* add_serve_command(CLI::App& app);
CLI::App* add_health_command(CLI::App& app);
CLI::App* add_doctor_command(CLI::App& app);
// These two print what is made from the whole tree of commands (app/program.h).
CLI::App* add_completion_command(CLI::App& app);
CLI::App* add_man_command(CLI::App& app);

}  // namespace ashlar
