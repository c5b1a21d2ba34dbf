// SPDX-License-Identifier: Apache-2.0
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
/// cache; where the model is a drafter that is here, also the model that it is for.
std::vector<MissingModel> missing_models(const SessionOptions& options);

/// Fetches the missing ones. Ctrl-C ends it with Error("hub"), and so does a repository that has not all that is
/// needed.
void pull_missing(const SessionOptions& options);

/// Says on stderr, if there is need to, that some files were checked by their lengths only.
void warn_of_unchecked(const hub::PullResult& result);

/// Which published drafter belongs to a model and is not here, in words; empty: none is known, or it is here.
std::string offer_of_drafter(const hub::RepoRef& model);

/// What the repository itself lacks, in words, after it was pulled; empty: nothing.
std::string warning_about_pulled(const hub::RepoRef& ref, hub::Role role);

}  // namespace ashlar
