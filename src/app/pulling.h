#pragma once
// Fetching models where a person waits for them.

#include "hub/pull.h"
#include "session/session.h"

namespace ashlar {

/// hub::pull with a progress bar on a terminal; options.progress is taken.
hub::PullResult pull_with_bar(const hub::RepoRef& ref, hub::PullOptions options);

/// A model or drafter that would have to be fetched.
struct MissingModel {
  hub::RepoRef ref;
  hub::Role role = hub::Role::kModel;
  hub::CachedSnapshot here;  ///< not whole
};

/// Model and drafter as far as they are names of the hub's that are neither folders nor bundled nor wholly in the
/// cache.
std::vector<MissingModel> missing_models(const SessionOptions& options);

/// Fetches the missing ones. Ctrl-C ends it with Error("hub"), and so does a repository that has not all that is
/// needed.
void pull_missing(const SessionOptions& options);

/// What the repository itself lacks, in words, after it was pulled; empty: nothing.
std::string warning_about_pulled(const hub::RepoRef& ref, hub::Role role);

}  // namespace ashlar
