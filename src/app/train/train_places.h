// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a session's model is trained for, and how many steps fit into a time there.

#include "session/session.h"
#include "train/data/document_set.h"
#include "train/replicas/train_devices.h"
#include "train/run/train_options.h"
#include "train/run/trained_drafter.h"

namespace ashlar {

/// Most tokens of a document.
int32_t longest_of(const TrainOptions& options, const Session& session);

/// The session's device and those after it.
TrainDevices open_devices(Session& session, int32_t gpus);

/// By the time of a few steps: of a run that is thrown away, so that what is trained does not depend on the clock but
/// by their number.
double seconds_a_step(const TrainDevices& devices, const DocumentSet& documents, const TrainedDrafter& drafter,
                      TrainOptions options);

}  // namespace ashlar
