#pragma once
// Fetching models where a person waits for them.

#include "app/session.h"
#include "hub/pull.h"

namespace ashlar {

/// hub::pull with a progress bar on a terminal; options.progress is taken.
hub::PullResult pull_with_bar(const hub::RepoRef& ref, hub::PullOptions options);

/// Model and drafter as far as they are names of the hub's that are neither folders nor bundled nor in the cache.
std::vector<std::string> missing_models(const SessionOptions& options);

/// Fetches the missing ones. Ctrl-C ends it with Error("hub").
void pull_missing(const SessionOptions& options);

}  // namespace ashlar
