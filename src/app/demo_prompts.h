// SPDX-License-Identifier: Apache-2.0
#pragma once
// Built-in prompts of `ashlar demo`: kinds of tasks the bundled model was trained on, from regular answers to free
// ones.

namespace ashlar {

inline constexpr const char* kDemoPrompts[] = {
    "Convert this CSV to JSON:\n\nname,city,age\nAnna,Oslo,24\nBen,Rome,17\nClara,Paris,32\nDavid,Lima,19",
    "Solve this problem step by step: Rosa starts with 24 shells. She gives half of her shells to Omar. She buys 3 "
    "boxes with 6 "
    "shells in each box. How many shells does she have now?",
    "Turn this sentence into bullet points: Anna is a 41-year-old teacher who moved to Oslo in 1998.",
    "A machine makes 96 parts in 8 hours. How many parts does it make in 11 hours?",
    "Write a Python function called `word_count` that counts how often the word \"word\" occurs in a text.",
    "Repeat this sentence exactly: The wall was built of grey stone, and the gate was made of oak.",
};

}  // namespace ashlar
