// SPDX-License-Identifier: Apache-2.0
#include "app/train/train_places.h"

#include <algorithm>

#include "device/device_name.h"
#include "session/progress.h"
#include "train/run/step_timing.h"
#include "train/run/train_run.h"

namespace ashlar {

int32_t longest_of(const TrainOptions& options, const Session& session) {
  return std::min(options.max_length, session.model().max_positions());
}

TrainDevices open_devices(Session& session, int32_t gpus) {
  const SessionOptions& asked = session.options();
  return {session.model(), devices_from(asked.device, gpus), asked.device_options};
}

double seconds_a_step(const TrainDevices& devices, const DocumentSet& documents, const TrainedDrafter& drafter,
                      TrainOptions options) {
  options.steps = kMaxTimedBatches + 1;
  options.keeps_hidden_states = false;  // a dry run writes nothing
  const Activity activity("timing a few steps");
  TrainRun run(devices.places(), documents, drafter, options);
  return usual_seconds([&](int64_t batch) {
    run.go_to(batch);
    return run.step().seconds;
  });
}

}  // namespace ashlar
