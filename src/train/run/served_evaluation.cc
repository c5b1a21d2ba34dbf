// SPDX-License-Identifier: Apache-2.0
#include "train/run/served_evaluation.h"

#include <algorithm>

#include "measure/completion.h"

namespace ashlar {

ServedEvaluation evaluate_as_served(Engine& engine, const DocumentSet& documents, std::span<const size_t> held_out,
                                    const std::vector<int32_t>& stop_ids, int32_t max_tokens,
                                    const std::function<void(int64_t)>& done) {
  std::vector<Request> requests;
  for (const size_t document : held_out) {
    const auto length = prompt_length(documents.supervised(document));
    if (!length || static_cast<int64_t>(*length) + 2 > engine.max_positions()) continue;
    Request& request = requests.emplace_back();
    const std::span<const int32_t> ids = documents.ids(document);
    request.prompt.assign(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(*length));
    request.max_tokens = std::min(max_tokens, engine.max_positions() - static_cast<int32_t>(*length));
    request.stop_ids = stop_ids;
  }
  ServedEvaluation out;
  for (const Request& request : requests) out.answered.push_back({request.prompt, {}, 0});
  const std::vector<Completion> answers = complete(engine, std::move(requests), 1, done);
  for (size_t i = 0; i < answers.size(); ++i) {
    EncodedDocument& document = out.answered[i];
    document.supervised.assign(document.ids.size(), 0);
    document.ids.insert(document.ids.end(), answers[i].tokens.begin(), answers[i].tokens.end());
    document.supervised.resize(document.ids.size(), 1);
    out.acceptance.add(answers[i].stats);
  }
  return out;
}

}  // namespace ashlar
