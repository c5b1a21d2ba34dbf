// SPDX-License-Identifier: Apache-2.0
#pragma once
// Another drafter for a model that is served, which stays loaded: the engine is made anew.

#include <filesystem>

#include "session/session.h"

namespace ashlar {

/// One thread at a time; nothing else uses the session's engine meanwhile.
class DrafterExchange {
 public:
  /// `learnt`: the folder that calibrations write. The session serves with its own drafter.
  DrafterExchange(Session& session, std::filesystem::path learnt);

  /// What a calibration starts from: as --drafter says it.
  std::string drafter() const;

  /// Ends the session's engine and starts one with the drafter of the folder. Throws what keeps it from serving; there
  /// is no engine then. DeviceLost, as of change_back(): there will be none in this process.
  Engine& change();
  /// Starts one with the drafter that served last. `undone`: where that came from the folder, it is there again, not
  /// the one that change() read. Without drafts if it is not to be had. Throws if there is no engine to be had at all.
  Engine& change_back(bool undone);
  /// What the engine is: Session::describe() with its drafter.
  std::string describe() const;
  /// Whether it has the drafter that it should.
  bool drafts() const { return drafts_; }

 private:
  Session& session_;
  const std::filesystem::path learnt_;
  DecoderSpec spec_;  // of the last engine that served with a drafter
  const int32_t positions_;
  bool drafts_ = true;
};

}  // namespace ashlar
