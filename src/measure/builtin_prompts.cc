// SPDX-License-Identifier: Apache-2.0
#include "measure/prompt_file.h"

namespace ashlar {
namespace {

struct Text {
  const char* category;
  const char* prompt;
};

// Kinds of text differ in how far ahead they can be guessed: counting and copying far, stories and opinions hardly at
// all. Half of them are short tasks that a model of ten million parameters can do.
constexpr Text kTexts[] = {
    {"regular", "Count from 1 to 40, one number a line."},
    {"regular", "List the days of the week and the months of the year in order."},
    {"regular", "Write the multiplication table of 7 up to 7 x 12."},
    {"copy", "Repeat this sentence five times: The lighthouse keeper painted the door green before the storm."},
    {"copy", "Repeat the word \"lantern\" eight times."},
    {"maths", "Tom has 14 apples and buys 9 more. Then he gives 5 of them to a friend. How many apples does he have?"},
    {"maths",
     "A box holds 12 pencils. Mira buys 7 boxes and gives away 15 pencils. How many are left? Show your steps."},
    {"maths", "Lena earns $12 an hour and works 7 hours a day. How much does she earn in 5 days?"},
    {"maths", "A tank holds 240 litres and loses 6 litres a minute. After how many minutes is it empty?"},
    {"logic", "Anna is taller than Paul. Paul is taller than Mark. Who is the shortest?"},
    {"logic", "Nina went to the kitchen. Omar went to the garden. Nina picked up the bread. Where is Nina?"},
    {"words", "Define the word \"harbour\"."},
    {"words", "What does \"glacier\" mean?"},
    {"words", "Give a synonym for \"quick\" and use it in a sentence."},
    {"code", "Write a Python function that returns the sum of the squares of a list of numbers."},
    {"code", "Write a Python function is_palindrome(text) with a docstring and two examples."},
    {"code", "Write a C++ function that reverses a string in place."},
    {"code", "Give me a shell command that lists the files of a folder by size."},
    {"facts", "What is photosynthesis? Answer in three sentences."},
    {"facts", "Explain why the sky is blue to a ten-year-old."},
    {"list", "Give me a shopping list for a vegetable soup for four people."},
    {"list", "Name ten animals that live in the sea."},
    {"writing", "Write a short story about a clockmaker who finds a letter in an old clock."},
    {"writing", "Write a polite email that asks a neighbour to water the plants for two weeks."},
};

}  // namespace

std::vector<EvalPrompt> builtin_prompts() {
  std::vector<EvalPrompt> prompts;
  for (const Text& text : kTexts) {
    EvalPrompt& prompt = prompts.emplace_back();
    prompt.name = "built-in " + std::to_string(prompts.size());
    prompt.category = text.category;
    prompt.messages = Json::array({Json{{"role", "user"}, {"content", text.prompt}}});
  }
  return prompts;
}

}  // namespace ashlar
