// SPDX-License-Identifier: Apache-2.0
// The Python module _ashlar: include/ashlar/llm.h in Python's types. What is comfortable is made in python/ashlar.
//
// No Python code ever runs on the engine's thread: events wait in the run's mailbox for a thread that asks, and an
// event loop is woken through a file descriptor. The interpreter's lock is given up wherever something may take time;
// it is never asked for while a run's own lock is held.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "arguments.h"

namespace py = pybind11;

namespace ashlar {
namespace {

// Gives the interpreter's lock up. Taking it back may end the thread: Python does that to daemon threads when the
// program ends, by unwinding, which pybind11's own class answers by aborting.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() noexcept(false) { PyEval_RestoreThread(state_); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

class Core {
 public:
  Core(const std::string& model, const std::string& drafter, const py::dict& in) {
    const LlmOptions options = options_of(model, drafter, in);
    const Unlocked unlocked;
    llm_ = std::make_shared<const Llm>(options);
  }

  std::shared_ptr<const Llm> llm() const {
    if (!llm_) throw LlmError("[engine] the engine is closed");
    return llm_;
  }
  void close() {
    std::shared_ptr<const Llm> last = std::move(llm_);
    const Unlocked unlocked;
    last.reset();
  }

 private:
  std::shared_ptr<const Llm> llm_;
};

// A file descriptor that can be read from when something has come.
class Bell {
 public:
  Bell() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ < 0) throw LlmError("[engine] no file descriptor is left for a stream; close some, or raise ulimit -n");
  }
  ~Bell() { close(fd_); }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;
  int fd() const { return fd_; }
  // Neither can fail in a way that matters: the count is full, or it is zero.
  void ring() const { [[maybe_unused]] const int ignored = eventfd_write(fd_, 1); }
  void silence() const {
    eventfd_t count = 0;
    [[maybe_unused]] const int ignored = eventfd_read(fd_, &count);
  }

 private:
  int fd_;
};

py::object logprobs_of(const std::vector<int32_t>& tokens, const std::vector<LlmLogprob>& logprobs) {
  if (logprobs.empty()) return py::none();
  py::list out;
  for (size_t i = 0; i < logprobs.size(); ++i) {
    out.append(py::make_tuple(tokens[i], logprobs[i].token, logprobs[i].top));
  }
  return out;
}

py::object passes_of(const std::vector<int16_t>& passes) {
  return passes.empty() ? py::none() : py::object(py::cast(passes));
}

py::dict figures_of(const LlmFigures& figures) {
  py::dict out;
  const auto put = [&out](const char* name, const auto& value) { out[name] = value; };
  put("prompt_tokens", figures.prompt_tokens);
  put("cached_tokens", figures.cached_tokens);
  put("generated_tokens", figures.generated_tokens);
  put("forwards", figures.forwards);
  put("tokens_per_forward", figures.tokens_per_forward);
  put("lengths", figures.lengths);
  put("drafted", figures.drafted);
  put("accepted", figures.accepted);
  put("ngram_accepted", figures.ngram_accepted);
  put("preemptions", figures.preemptions);
  put("queue_seconds", figures.queue_seconds);
  put("first_token_seconds", figures.first_token_seconds);
  put("total_seconds", figures.total_seconds);
  put("tokens_per_second", figures.tokens_per_second);
  return out;
}

py::dict counters_of(const LlmCounters& counters) {
  py::dict out;
  const auto put = [&out](const char* name, auto value) { out[name] = value; };
  put("steps", counters.steps);
  put("prefill_tokens", counters.prefill_tokens);
  put("cached_tokens", counters.cached_tokens);
  put("generated_tokens", counters.generated_tokens);
  put("forwards", counters.forwards);
  put("drafted", counters.drafted);
  put("accepted", counters.accepted);
  put("ngram_accepted", counters.ngram_accepted);
  put("recalled", counters.ngram_accepted);  // its name in the version before
  put("preemptions", counters.preemptions);
  put("requests_finished", counters.requests_finished);
  put("requests_cancelled", counters.requests_cancelled);
  put("requests_failed", counters.requests_failed);
  put("running", counters.running);
  put("waiting", counters.waiting);
  put("pages_total", counters.pages_total);
  put("pages_free", counters.pages_free);
  put("pages_cached", counters.pages_cached);
  put("pages_held", counters.pages_held);
  return out;
}

// A run that any thread may ask, one after the other.
class Run {
 public:
  Run(Core& core, const py::list& prompts, const py::list& params, bool with_bell) {
    std::vector<LlmPrompt> ours;
    for (const py::handle prompt : prompts) ours.push_back(prompt_of(prompt));
    std::vector<LlmParams> wishes;
    for (const py::handle one : params) wishes.push_back(params_of(py::reinterpret_borrow<py::object>(one)));
    const std::shared_ptr<const Llm> llm = core.llm();
    std::function<void()> notify;
    if (with_bell) {
      bell_ = std::make_shared<Bell>();
      notify = [bell = bell_] { bell->ring(); };
    }
    const Unlocked unlocked;
    run_ = llm->start(ours, wishes, std::move(notify));
  }

  // (index, text, tokens, logprobs, unmask_pass, n_drafted, last) of each piece that has come.
  py::list next(double timeout) {
    std::vector<LlmChunk> chunks;
    {
      const Unlocked unlocked;
      const std::lock_guard lock(mutex_);
      if (bell_) bell_->silence();
      chunks = run_->next(milliseconds_of(timeout));
    }
    py::list out;
    for (LlmChunk& chunk : chunks) {
      out.append(py::make_tuple(chunk.index, py::str(chunk.text), chunk.tokens,
                                logprobs_of(chunk.tokens, chunk.logprobs), passes_of(chunk.unmask_pass),
                                chunk.n_drafted, chunk.last));
    }
    return out;
  }

  // The same for those who want whole answers only: whether they are there.
  bool wait(double timeout) {
    const Unlocked unlocked;
    const std::lock_guard lock(mutex_);
    run_->next(milliseconds_of(timeout));
    return run_->done();
  }

  bool done() {
    const Unlocked unlocked;
    const std::lock_guard lock(mutex_);
    return run_->done();
  }

  void cancel() {
    const Unlocked unlocked;
    const std::lock_guard lock(mutex_);
    run_->cancel();
  }

  // (text, tokens, logprobs, unmask_pass, finish, stop_string, error, figures)
  py::tuple answer(size_t index) {
    LlmAnswer answer;
    {
      const Unlocked unlocked;
      const std::lock_guard lock(mutex_);
      answer = run_->answers().at(index);
    }
    return py::make_tuple(py::str(answer.text), answer.tokens, logprobs_of(answer.tokens, answer.logprobs),
                          passes_of(answer.unmask_pass), answer.finish, answer.stop_string, answer.error,
                          figures_of(answer.figures));
  }

  int fileno() const {
    if (!bell_) throw LlmError("[engine] this run has no file descriptor");
    return bell_->fd();
  }

 private:
  static std::chrono::milliseconds milliseconds_of(double seconds) {
    return std::chrono::milliseconds(static_cast<int64_t>(std::clamp(seconds, 0.0, 3600.0) * 1000));
  }

  std::mutex mutex_;
  std::shared_ptr<Bell> bell_;
  std::unique_ptr<LlmRun> run_;
};

}  // namespace
}  // namespace ashlar

PYBIND11_MODULE(_ashlar, module) {
  using ashlar::Core;
  using ashlar::Run;
  module.doc() = "The engine of the package ashlar; see ashlar.Engine.";
  module.attr("__version__") = ASHLAR_VERSION;
  py::register_exception<ashlar::LlmError>(module, "Error", PyExc_RuntimeError);

  py::class_<Core>(module, "Core")
      .def(py::init<const std::string&, const std::string&, const py::dict&>(), py::arg("model"), py::arg("drafter"),
           py::arg("options"))
      .def("close", &Core::close)
      .def("describe", [](const Core& core) { return core.llm()->describe(); })
      .def("notes", [](const Core& core) { return core.llm()->notes(); })
      .def("decoder", [](const Core& core) { return core.llm()->decoder(); })
      .def("max_positions", [](const Core& core) { return core.llm()->max_positions(); })
      .def("vocab_size", [](const Core& core) { return core.llm()->vocab(); })
      .def("stop_ids", [](const Core& core) { return core.llm()->stop_ids(); })
      .def("counters", [](const Core& core) { return ashlar::counters_of(core.llm()->counters()); })
      .def("encode",
           [](const Core& core, py::handle prompt) {
             const std::shared_ptr<const ashlar::Llm> llm = core.llm();
             const ashlar::LlmPrompt ours = ashlar::prompt_of(prompt);
             const ashlar::Unlocked unlocked;
             return llm->encode(ours);
           })
      .def("decode", [](const Core& core, py::handle ids, bool skip_special_tokens) {
        return core.llm()->decode(ashlar::as<std::vector<int32_t>>(ids, "ids", "a list of token ids"),
                                  skip_special_tokens);
      });

  py::class_<Run>(module, "Run")
      .def(py::init<Core&, const py::list&, const py::list&, bool>(), py::arg("core"), py::arg("prompts"),
           py::arg("params"), py::arg("with_bell"))
      .def("next", &Run::next, py::arg("timeout"))
      .def("wait", &Run::wait, py::arg("timeout"))
      .def("done", &Run::done)
      .def("cancel", &Run::cancel)
      .def("answer", &Run::answer, py::arg("index"))
      .def("fileno", &Run::fileno);
}
