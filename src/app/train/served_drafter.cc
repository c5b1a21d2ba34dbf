// SPDX-License-Identifier: Apache-2.0
#include "app/train/served_drafter.h"

#include <algorithm>

#include "io/durable_file.h"
#include "io/json.h"
#include "session/progress.h"
#include "train/run/train_run.h"

namespace ashlar {
namespace {

constexpr double kMinRecorded = 0.01;  // what acceptance.json may say

DecoderSpec spec_of(const std::filesystem::path& drafter, int32_t block) {
  DecoderSpec spec;
  spec.method = method_of_drafter(drafter);
  spec.drafter = drafter;
  spec.dflash.width = std::min(block, kMaxWidth);
  spec.dflash.branches = 0;       // what training expects are chains
  spec.ngram = NgramUse::kNever;  // and drafts of the drafter alone
  return spec;
}

}  // namespace

ServedEvaluation evaluate_served(Session& session, const std::filesystem::path& drafter, int32_t block,
                                 const DocumentSet& documents, const std::vector<size_t>& held_out, int32_t max_tokens,
                                 const std::string& title, const std::function<bool()>& stop) {
  ServedEvaluation served;
  if (stop && stop()) return served;
  {
    Progress progress(title, static_cast<int64_t>(held_out.size()));
    served = evaluate_as_served(
        session.start(spec_of(drafter, block)), documents, held_out, session.stop_ids(), max_tokens,
        [&](int64_t done) { progress.update(done); }, stop);
  }
  session.stop();
  return served;
}

void write_record(const std::filesystem::path& folder, const AcceptanceTally& served) {
  const std::vector<double> positions = served.unconditional();
  if (positions.empty() || positions.front() < kMinRecorded) return;
  const Json record = {{"first_position", std::min(1.0, positions.front())}};
  write_durably(folder / TrainRun::kRecord, record.dump() + "\n");
}

}  // namespace ashlar
