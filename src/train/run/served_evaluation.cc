// SPDX-License-Identifier: Apache-2.0
#include "train/run/served_evaluation.h"

#include <algorithm>

#include "measure/completion.h"

namespace ashlar {

ServedEvaluation evaluate_as_served(Engine& engine, const DocumentSet& documents, std::span<const size_t> held_out,
                                    const std::vector<int32_t>& stop_ids, int32_t max_tokens,
                                    const std::function<void(int64_t)>& done, const std::function<bool()>& stop) {
  ServedEvaluation out;
  for (const size_t document : held_out) {
    if (stop && stop()) break;
    const auto length = prompt_length(documents.supervised(document));
    if (!length || static_cast<int64_t>(*length) + 2 > engine.max_positions()) continue;
    std::vector<Request> requests(1);
    Request& request = requests.front();
    const std::span<const int32_t> ids = documents.ids(document);
    request.prompt.assign(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(*length));
    request.max_tokens = std::min(max_tokens, engine.max_positions() - static_cast<int32_t>(*length));
    request.stop_ids = stop_ids;
    EncodedDocument& answered = out.answered.emplace_back(EncodedDocument{request.prompt, {}, 0});
    const Completion answer = std::move(complete(engine, std::move(requests), 1).front());
    answered.supervised.assign(answered.ids.size(), 0);
    answered.ids.insert(answered.ids.end(), answer.tokens.begin(), answer.tokens.end());
    answered.supervised.resize(answered.ids.size(), 1);
    out.acceptance.add(answer.stats);
    if (done) done(static_cast<int64_t>(out.answered.size()));
  }
  return out;
}

}  // namespace ashlar
