// SPDX-License-Identifier: Apache-2.0
#include "app/serve/drafter_exchange.h"

#include <utility>

#include "base/error.h"
#include "session/drafter_check.h"

namespace ashlar {

DrafterExchange::DrafterExchange(Session& session, std::filesystem::path learnt)
    : session_(session),
      learnt_(std::move(learnt)),
      spec_(session.spec()),
      positions_(session.engine().max_positions()) {}

std::string DrafterExchange::drafter() const {
  const ModelChoice& choice = session_.choice();
  return choice.drafts_itself && spec_.drafter == *choice.drafter ? kMtp : spec_.drafter.string();
}

std::string DrafterExchange::describe() const {
  if (!drafts_) return session_.describe("");
  return drafter() == kMtp ? session_.describe(kMtp) : session_.describe(folder_name(spec_.drafter));
}

Engine& DrafterExchange::change() {
  session_.stop();
  DecoderSpec spec = spec_;
  spec.drafter = learnt_;
  spec.method = method_of_drafter(learnt_);
  // Its record is of the traffic, and the self-test's texts may be unlike that: little is no fault.
  if (session_.options().self_test) refuse_if_blind(check_drafter(session_, spec, 0));
  Engine& engine = session_.start(spec);
  // Requests are checked against what the server said at its start.
  if (engine.max_positions() < positions_) {
    const std::string found = std::to_string(engine.max_positions());
    session_.stop();
    throw Error("drafter", learnt_.string() + ": leaves room for " + found + " tokens; expected " +
                               std::to_string(positions_) + ", as with the one before");
  }
  spec_ = std::move(spec);
  drafts_ = true;
  return engine;
}

Engine& DrafterExchange::change_back(bool undone) {
  session_.stop();
  try {
    if (undone || spec_.drafter != learnt_) {
      Engine& engine = session_.start(spec_);
      drafts_ = true;
      return engine;
    }
  } catch (const DeviceLost&) {
    throw;
  } catch (const std::exception&) {  // tokens are the same without
  }
  DecoderSpec plain = spec_;
  plain.method.clear();
  plain.drafter.clear();
  drafts_ = false;
  return session_.start(plain);
}

}  // namespace ashlar
