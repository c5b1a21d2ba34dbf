// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a training run shows: a plan before, a line that is renewed while it goes on, a table at the end.

#include <string>

#include "measure/evaluation/acceptance.h"
#include "train/run/train_run.h"

namespace ashlar {

/// "step 120 of 2000  loss 3.214  acceptance 1.92  2310 tokens/s  12:03 left".
std::string step_line(const StepFigures& figures, double tokens_per_second, double seconds_left);

/// "12:03", "1:02:45".
std::string duration_text(double seconds);

/// On a terminal one line that is renewed; elsewhere a line now and then: the first steps, then every half minute.
class TrainView : public TrainListener {
 public:
  TrainView();
  ~TrainView() override;

  void on_step(const StepFigures& figures) override;
  void on_checkpoint(int64_t step) override;
  void on_warning(const std::string& what) override;
  /// Erases the line.
  void hide();

 private:
  bool terminal_;
  bool shown_ = false;
  int64_t printed_ns_ = 0;
  int64_t lines_ = 0;
  double seconds_ = 0;  // of the steps seen here
  int64_t tokens_ = 0;
  int64_t steps_ = 0;
};

/// What an evaluation found.
struct EvaluationFigures {
  TrainReport documents;    ///< teacher-forced, on held-out documents
  TrainReport answers;      ///< teacher-forced, on the target's own answers
  SteppedAcceptance steps;  ///< the same in the steps of serving
  AcceptanceTally served;
  size_t n_documents = 0;
};

/// The three figures one below the other, and what their differences mean.
std::string evaluation_text(const EvaluationFigures& figures);
Json evaluation_json(const EvaluationFigures& figures);

}  // namespace ashlar
