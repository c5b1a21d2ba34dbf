// SPDX-License-Identifier: Apache-2.0
#pragma once
// LlmRun: requests of one call, their events made into text and figures.

#include "ashlar/llm.h"
#include "llm/params.h"
#include "session/mailbox.h"
#include "text/output/output_text.h"

namespace ashlar {

class LlmRun::Impl {
 public:
  struct Job {
    std::vector<int32_t> prompt;
    std::shared_ptr<const RequestForm> form;
  };

  /// Submits the first jobs. Throws Error if one of them is not acceptable; those before it are cancelled.
  Impl(std::shared_ptr<Session> session, std::vector<Job> jobs, std::function<void()> notify);
  ~Impl() { cancel(); }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::vector<LlmChunk> next(std::chrono::milliseconds timeout);
  bool done() const { return ended_ == jobs_.size(); }
  void cancel();
  const std::vector<LlmAnswer>& answers() const { return answers_; }

 private:
  static constexpr size_t kMaxOutstanding = 512;  // the rest waits here, where waiting costs nothing

  void submit_more();
  Request request_of(size_t index);
  void take_tokens(size_t index, TokenChunk& in, std::vector<LlmChunk>& out);
  void finish(size_t index, EndEvent& end, std::vector<LlmChunk>& out);
  void take_text(size_t index, const OutputText::Delta& delta);

  std::shared_ptr<Session> session_;  // first: whatever is left of the others refers to it
  std::vector<Job> jobs_;
  std::vector<LlmAnswer> answers_;
  std::vector<RequestId> ids_;
  std::vector<OutputText> texts_;
  std::shared_ptr<Mailbox> mailbox_;
  std::list<Mailbox::Item> items_;
  size_t next_ = 0;  // first prompt not submitted
  size_t ended_ = 0;
  bool cancelled_ = false;
};

}  // namespace ashlar
