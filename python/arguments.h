// SPDX-License-Identifier: Apache-2.0
#pragma once
// What Python hands over as what include/ashlar/llm.h takes: the kind of each value is checked here, its range there.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "ashlar/llm.h"

namespace ashlar {

/// Throws the error that `name` has another value than expected.
[[noreturn]] void refuse(pybind11::handle value, const std::string& name, const std::string& expected);

/// A value of Python's as one of ours, or an error in our words.
template <class T>
T as(pybind11::handle value, const std::string& name, const std::string& expected) {
  try {
    return value.cast<T>();
  } catch (const pybind11::cast_error&) {
    PyErr_Clear();
    refuse(value, name, expected);
  }
}

/// `in` has every key of Engine's keyword arguments.
LlmOptions options_of(const std::string& model, const std::string& drafter, const pybind11::dict& in);
/// `in`: an object with the fields of ashlar.SamplingParams.
LlmParams params_of(const pybind11::object& in);
/// `in`: of python/ashlar/prompts.py: text as bytes, a list of ids, or (messages, tools, variables) in JSON.
LlmPrompt prompt_of(pybind11::handle in);

}  // namespace ashlar
