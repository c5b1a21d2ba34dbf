// The Python module _ashlar: include/ashlar/llm.h in Python's types. What is comfortable is made in python/ashlar.
//
// No Python code ever runs on the engine's thread: events wait in the run's mailbox for a thread that asks, and an
// event loop is woken through a file descriptor. The interpreter's lock is given up wherever something may take time;
// it is never asked for while a run's own lock is held.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <mutex>

#include "ashlar/llm.h"
#include "generate/grammar_constraint.h"
#include "session/memory_plan.h"
#include "text/grammar/compile.h"
#include "text/template/chat_messages.h"

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

std::string said(py::handle value) { return for_message(py::repr(value).cast<std::string>()); }

// A value of Python's as one of ours, or an error in our words.
template <class T>
T as(py::handle value, const std::string& name, const char* expected) {
  try {
    return value.cast<T>();
  } catch (const py::cast_error&) {
    PyErr_Clear();
    throw Error("options", name + " is " + said(value) + "; expected " + expected);
  }
}

template <class T>
T number(py::handle value, const std::string& name, T low, T high) {
  const std::string range =
      std::is_integral_v<T> ? "a whole number from " + std::to_string(low) + " to " + std::to_string(high) : "a number";
  const T out = as<T>(value, name, range.c_str());
  if (out < low || out > high) throw Error("options", name + " is " + said(value) + "; expected " + range);
  return out;
}

constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
constexpr double kAny = std::numeric_limits<double>::infinity();

int64_t memory_of(py::handle value) {
  if (value.is_none()) return 0;
  const char* expected = "bytes, or something like \"512M\" or \"4G\", at least 1M";
  std::optional<int64_t> bytes;
  if (py::isinstance<py::str>(value)) {
    bytes = parse_bytes(value.cast<std::string>());
  } else {
    bytes = as<int64_t>(value, "kv_memory", expected);
  }
  if (!bytes || *bytes < (1 << 20)) throw Error("options", "kv_memory is " + said(value) + "; expected " + expected);
  return *bytes;
}

std::map<std::string, double> values_of(py::handle in) {
  return as<std::map<std::string, double>>(in, "algorithm_options", "a dict of names and numbers");
}

std::optional<BlockOptions> block_options_of(const py::dict& in) {
  const py::object algorithm = in["algorithm"], values = in["algorithm_options"];
  const int32_t size = number<int32_t>(in["block_size"], "block_size", 0, kMaxWidth);
  if (algorithm.is_none() && values.is_none() && size == 0) return std::nullopt;
  BlockOptions out;
  out.block_size = size;
  if (!algorithm.is_none()) out.algorithm.name = as<std::string>(algorithm, "algorithm", "a name");
  if (!values.is_none()) out.algorithm.values = values_of(values);
  return out;
}

NgramUse ngram_use_of(const std::string& name) {
  if (name == "auto") return NgramUse::kWherePaying;
  if (name == "always") return NgramUse::kAlways;
  if (name == "never") return NgramUse::kNever;
  throw Error("options", "ngram_drafts is '" + name + "'; expected auto, always or never");
}

// `in` has every key of Engine's keyword arguments.
LlmOptions options_of(const std::string& model, const std::string& drafter, const py::dict& in) {
  LlmOptions session;
  session.model = model;
  session.drafter = drafter;
  session.device = as<std::string>(in["device"], "device", "a name");
  session.device_options.threads = number<int32_t>(in["threads"], "threads", 0, 1024);
  if (!in["isa"].is_none()) session.device_options.isa = as<std::string>(in["isa"], "isa", "a name");
  const std::string dtype = as<std::string>(in["kv_dtype"], "kv_dtype", "bf16 or f32");
  if (dtype != "bf16" && dtype != "f32") throw Error("options", "kv_dtype is '" + dtype + "'; expected bf16 or f32");
  session.device_options.kv_dtype = dtype == "f32" ? DType::kF32 : DType::kBF16;
  session.max_context = number<int32_t>(in["max_context"], "max_context", 0, 1 << 24);
  session.engine.kv_bytes = memory_of(in["kv_memory"]);
  session.engine.max_sequences = number<int32_t>(in["max_sequences"], "max_sequences", 1, 256);
  session.engine.prefill_chunk = number<int32_t>(in["prefill_chunk"], "prefill_chunk", 1, 1 << 16);
  session.engine.prefix_cache = as<bool>(in["prefix_cache"], "prefix_cache", "True or False");
  session.engine.depth = number<int32_t>(in["depth"], "depth", 1, 2);
  session.dflash.width = number<int32_t>(in["width"], "width", 0, kMaxWidth);
  if (session.dflash.width == 1) throw Error("options", "width is 1; expected 0 (chosen pass by pass) or 2 and more");
  session.dflash.window = number<int32_t>(in["draft_window"], "draft_window", 0, 1 << 24);
  session.dflash.branches = number<int32_t>(in["branches"], "branches", 0, kMaxWidth - 1);
  session.ngram = ngram_use_of(as<std::string>(in["ngram_drafts"], "ngram_drafts", "auto, always or never"));
  session.dflash.passes = number<int32_t>(in["passes"], "passes", 1, kMaxWidth);
  const std::string schedule = as<std::string>(in["schedule"], "schedule", "cosine, linear or sqrt");
  const auto parsed = parse_denoise_schedule(schedule);
  if (!parsed) throw Error("options", "schedule is '" + schedule + "'; expected cosine, linear or sqrt");
  session.dflash.schedule = *parsed;
  session.block = block_options_of(in);
  return session;
}

using ConstraintMaker = std::function<std::shared_ptr<TokenConstraint>()>;

class Core {
 public:
  Core(const std::string& model, const std::string& drafter, const py::dict& in) {
    LlmOptions options = options_of(model, drafter, in);
    const Unlocked unlocked;
    llm_ = std::make_shared<Llm>(std::move(options));
  }

  std::shared_ptr<Llm> llm() const {
    if (!llm_) throw Error("engine", "the engine is closed");
    return llm_;
  }
  void close() {
    std::shared_ptr<Llm> last = std::move(llm_);
    const Unlocked unlocked;
    last.reset();
  }

  std::vector<int32_t> stop_ids_of(const LlmParams& params) const {
    std::vector<int32_t> ends = params.stop_ids;
    const std::vector<int32_t>& own = llm()->session().stop_ids();
    ends.insert(ends.end(), own.begin(), own.end());
    return ends;
  }

  // Several answers share a compiled grammar.
  ConstraintMaker constrain(const grammar::Grammar& grammar, std::vector<int32_t> ends) {
    const std::shared_ptr<Llm> llm = this->llm();
    if (!trie_) trie_ = std::make_shared<const grammar::TokenTrie>(llm->session().tokenizer());
    auto shared = std::make_shared<grammar::TokenGrammar>(grammar, trie_, std::move(ends));
    if (!workers_) workers_ = std::make_shared<MaskWorkers>();
    return [shared, llm, workers = workers_] {
      return std::make_shared<GrammarConstraint>(grammar::GrammarMatcher(shared), &llm->session().tokenizer(), workers);
    };
  }

 private:
  std::shared_ptr<Llm> llm_;
  // Made when the first constraint needs them.
  std::shared_ptr<const grammar::TokenTrie> trie_;
  std::shared_ptr<MaskWorkers> workers_;  // masks that take long hold up no other answer
};

ConstraintMaker constraint_of(Core& core, const py::object& in, const LlmParams& params) {
  std::optional<grammar::Grammar> grammar;
  const auto field = [&in](const char* name) -> py::object { return in.attr(name); };
  int given = 0;
  for (const char* name : {"json_schema", "regex", "grammar", "choice"}) given += field(name).is_none() ? 0 : 1;
  if (given > 1) throw Error("options", "only one of json_schema, regex, grammar and choice can hold at a time");
  if (const py::object schema = field("json_schema"); !schema.is_none()) {
    const py::object text =
        py::isinstance<py::str>(schema) ? schema : py::module_::import("json").attr("dumps")(schema);
    grammar = grammar::compile_json_schema(parse_json(text.cast<std::string>(), "json_schema"));
  } else if (const py::object regex = field("regex"); !regex.is_none()) {
    grammar = grammar::compile_regex(as<std::string>(regex, "regex", "a string"));
  } else if (const py::object rules = field("grammar"); !rules.is_none()) {
    grammar = grammar::compile_ebnf(as<std::string>(rules, "grammar", "a string"));
  } else if (const py::object choice = field("choice"); !choice.is_none()) {
    grammar = grammar::compile_choice(as<std::vector<std::string>>(choice, "choice", "a list of strings"));
  }
  if (!grammar) return {};
  return core.constrain(*grammar, core.stop_ids_of(params));
}

// An object with the fields of ashlar.SamplingParams. The engine checks the ranges that it knows.
LlmParams params_of(Core& core, const py::object& in) {
  LlmParams out;
  const auto field = [&in](const char* name) -> py::object { return in.attr(name); };
  const auto real = [&field](const char* name) { return number<double>(field(name), name, -kAny, kAny); };
  const auto whole = [&field](const char* name, int32_t low) { return number<int32_t>(field(name), name, low, kMost); };
  SamplingParams& sampling = out.sampling;
  sampling.temperature = real("temperature");
  sampling.top_k = whole("top_k", 0);
  sampling.top_p = real("top_p");
  sampling.min_p = real("min_p");
  sampling.repetition_penalty = real("repetition_penalty");
  sampling.presence_penalty = real("presence_penalty");
  sampling.frequency_penalty = real("frequency_penalty");
  if (const py::object bias = field("logit_bias"); !bias.is_none()) {
    for (const auto& [id, value] :
         as<std::map<int32_t, float>>(bias, "logit_bias", "a dict of token ids and numbers")) {
      sampling.logit_bias.emplace_back(id, value);
    }
  }
  sampling.seed = as<uint64_t>(field("seed"), "seed", "a whole number from 0 to 2^64 - 1");
  const std::string scheme = as<std::string>(field("scheme"), "scheme", "coupled or rejection");
  if (scheme != "coupled" && scheme != "rejection") {
    throw Error("options", "scheme is '" + scheme + "'; expected coupled or rejection");
  }
  sampling.scheme = scheme == "rejection" ? SamplingScheme::kRejection : SamplingScheme::kCoupled;
  if (const py::object top = field("logprobs"); !top.is_none()) {
    sampling.top_logprobs = number<int32_t>(top, "logprobs", 0, kMaxTopLogprobs);
  }
  if (const py::object most = field("max_tokens"); !most.is_none()) {
    out.max_tokens = number<int32_t>(most, "max_tokens", 1, kMost);
  }
  if (const py::object stop = field("stop"); py::isinstance<py::str>(stop)) {
    out.stop = {as<std::string>(stop, "stop", "a string")};
  } else if (!stop.is_none()) {
    out.stop = as<std::vector<std::string>>(stop, "stop", "a string or a list of strings");
  }
  if (const py::object ids = field("stop_token_ids"); !ids.is_none()) {
    out.stop_ids = as<std::vector<int32_t>>(ids, "stop_token_ids", "a list of token ids");
  }
  out.ignore_eos = as<bool>(field("ignore_eos"), "ignore_eos", "True or False");
  out.skip_special_tokens = as<bool>(field("skip_special_tokens"), "skip_special_tokens", "True or False");
  out.width = whole("width", 0);
  if (const py::object algorithm = field("algorithm"); !algorithm.is_none()) {
    out.choice.algorithm = as<std::string>(algorithm, "algorithm", "a name");
  }
  if (const py::object values = field("algorithm_options"); !values.is_none()) out.choice.values = values_of(values);
  out.constraint = constraint_of(core, in, out);
  return out;
}

// Of python/ashlar/prompts.py: text as bytes, a list of ids, or (messages, tools, variables) in JSON.
LlmPrompt prompt_of(py::handle in) {
  if (py::isinstance<py::bytes>(in)) return in.cast<std::string>();
  if (py::isinstance<py::tuple>(in)) {
    const auto [messages, tools, variables] = in.cast<std::tuple<std::string, std::string, std::string>>();
    return LlmChat{text::plain_messages(parse_json(messages, "messages")), parse_json(tools, "tools"),
                   parse_json(variables, "variables")};
  }
  return as<std::vector<int32_t>>(in, "the prompt", "a list of token ids");
}

// A file descriptor that can be read from when something has come.
class Bell {
 public:
  Bell() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (fd_ < 0) throw Error("engine", "no file descriptor is left for a stream; close some, or raise ulimit -n");
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

py::object logprobs_of(const std::vector<int32_t>& tokens, const std::vector<TokenLogprobs>& logprobs) {
  if (logprobs.empty()) return py::none();
  py::list out;
  for (size_t i = 0; i < logprobs.size(); ++i) {
    py::list top;
    for (int32_t k = 0; k < logprobs[i].n_top; ++k) {
      top.append(py::make_tuple(logprobs[i].top_ids[k], logprobs[i].top_values[k]));
    }
    out.append(py::make_tuple(tokens[i], logprobs[i].token, std::move(top)));
  }
  return out;
}

py::object passes_of(const std::vector<int16_t>& passes) {
  return passes.empty() ? py::none() : py::object(py::cast(passes));
}

py::dict figures_of(const RequestStats& stats) {
  const auto seconds = [](int64_t from, int64_t to) {
    return from == 0 || to <= from ? 0.0 : static_cast<double>(to - from) * 1e-9;
  };
  const double decoding = seconds(stats.first_token_ns, stats.finished_ns);
  py::dict out;
  out["prompt_tokens"] = stats.prompt_tokens;
  out["cached_tokens"] = stats.cached_tokens;
  out["generated_tokens"] = stats.generated_tokens;
  out["forwards"] = stats.verify_steps;
  out["tokens_per_forward"] = stats.mean_length();
  out["lengths"] = stats.lengths;
  out["drafted"] = stats.drafted;
  out["accepted"] = stats.accepted;
  out["ngram_accepted"] = stats.ngram_accepted;
  out["preemptions"] = stats.preemptions;
  out["queue_seconds"] = seconds(stats.submitted_ns, stats.admitted_ns);
  out["first_token_seconds"] = seconds(stats.submitted_ns, stats.first_token_ns);
  out["total_seconds"] = seconds(stats.submitted_ns, stats.finished_ns);
  out["tokens_per_second"] = decoding > 0 ? (stats.generated_tokens - 1) / decoding : 0.0;
  return out;
}

py::dict counters_of(const EngineCounters& counters) {
  py::dict out;
  const auto put = [&out](const char* name, auto value) { out[name] = value; };
  put("steps", counters.steps);
  put("prefill_tokens", counters.prefill_tokens);
  put("cached_tokens", counters.cached_tokens);
  put("generated_tokens", counters.generated_tokens);
  put("forwards", counters.verify_spans);
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
    for (const py::handle one : params) wishes.push_back(params_of(core, py::reinterpret_borrow<py::object>(one)));
    const std::shared_ptr<Llm> llm = core.llm();
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
                          figures_of(answer.stats));
  }

  int fileno() const {
    if (!bell_) throw Error("engine", "this run has no file descriptor");
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
  py::register_exception<ashlar::Error>(module, "Error", PyExc_RuntimeError);

  py::class_<Core>(module, "Core")
      .def(py::init<const std::string&, const std::string&, const py::dict&>(), py::arg("model"), py::arg("drafter"),
           py::arg("options"))
      .def("close", &Core::close)
      .def("describe", [](const Core& core) { return core.llm()->session().describe(); })
      .def("notes", [](const Core& core) { return core.llm()->session().notes(); })
      .def("decoder", [](const Core& core) { return core.llm()->session().engine().decoder_name(); })
      .def("max_positions", [](const Core& core) { return core.llm()->session().engine().max_positions(); })
      .def("vocab_size", [](const Core& core) { return core.llm()->session().engine().vocab(); })
      .def("stop_ids", [](const Core& core) { return core.llm()->session().stop_ids(); })
      .def("counters", [](const Core& core) { return ashlar::counters_of(core.llm()->session().engine().counters()); })
      .def("encode",
           [](const Core& core, py::handle prompt) {
             const std::shared_ptr<ashlar::Llm> llm = core.llm();
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
