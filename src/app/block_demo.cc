// SPDX-License-Identifier: Apache-2.0
#include "app/block_demo.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>

#include "base/error.h"
#include "engine/event_queue.h"
#include "session/interrupt.h"
#include "session/output.h"
#include "session/terminal.h"
#include "text/output/output_text.h"

namespace ashlar {
namespace {

constexpr size_t kShown = 2;  // answers that are shown forming; the others are only measured

int columns_of(const std::string& text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string in_one_line(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n') {
      out += "\u21b5";
    } else {
      out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
    }
  }
  return out;
}

struct BlockAnswer {
  std::vector<BlockPieces> blocks;
  RequestStats stats;
  double seconds = 0;  // from its first step to its end
};

BlockAnswer answer(Session& session, Request request) {
  const auto queue = std::make_shared<EventQueue>();
  request.sink = queue;
  const Result<RequestId> id = session.engine().submit(std::move(request));
  if (!id) throw Error("demo", id.error());
  BlockAnswer out;
  OutputText text(session.tokenizer(), true, {});
  int32_t next = 0;  // position in the block
  for (;;) {
    const Event event = queue->next();
    if (InterruptScope::requested()) session.engine().cancel(id.value());
    if (const auto* end = std::get_if<EndEvent>(&event)) {
      if (end->reason == FinishReason::kError) throw Error("demo", end->error);
      out.stats = end->stats;
      break;
    }
    const auto& chunk = std::get<TokenChunk>(event);
    if (out.blocks.empty() || chunk.at < next) out.blocks.emplace_back();
    for (size_t i = 0; i < chunk.tokens.size(); ++i) {
      out.blocks.back().push_back({text.push({&chunk.tokens[i], 1}).text, chunk.unmask_pass[i]});
    }
    next = chunk.at + static_cast<int32_t>(chunk.tokens.size());
  }
  if (!out.blocks.empty()) out.blocks.back().push_back({text.flush().text, 0});
  out.seconds = static_cast<double>(out.stats.finished_ns - out.stats.admitted_ns) * 1e-9;
  return out;
}

// Rewrites the newest line while a block forms in it.
class Screen {
 public:
  Screen(const BlockDemoOptions& options) : options_(options), width_(terminal_width(STDOUT_FILENO)) {}

  void show(const BlockPieces& block) {
    int columns = 0;
    const std::vector<std::string> frames = block_frames(block, &columns);
    if (columns_of(line_) + columns >= width_) {
      write_output("\n");
      line_.clear();
    }
    std::string text;
    for (const BlockPiece& piece : block) text += piece.text;
    for (const std::string& frame : frames) {
      if (columns >= width_) break;
      std::printf("\r\033[K%s%s", line_.c_str(), styled(frame).c_str());
      flush_output();
      std::this_thread::sleep_for(options_.pause);
    }
    std::printf("\r\033[K%s%s", line_.c_str(), text.c_str());
    flush_output();
    line_ += text;
    line_.erase(0, line_.rfind('\n') + 1);
  }

 private:
  // Shades are dim, so that what is unmasked stands out.
  std::string styled(const std::string& frame) const {
    static const std::string kShade = "\u2591";
    if (!options_.color) return frame;
    std::string out;
    bool dim = false;
    for (size_t i = 0; i < frame.size();) {
      const bool shade = frame.compare(i, kShade.size(), kShade) == 0;
      if (shade != dim) out += shade ? "\033[2m" : "\033[0m";
      dim = shade;
      const size_t n = shade ? kShade.size() : 1;
      out += frame.substr(i, n);
      i += n;
    }
    return dim ? out + "\033[0m" : out;
  }

  const BlockDemoOptions& options_;
  const int width_;
  std::string line_;  // the newest one, as far as it is written
};

void show(const BlockAnswer& answer, const BlockDemoOptions& options) {
  Screen screen(options);
  std::string text;
  for (const BlockPieces& block : answer.blocks) {
    for (const BlockPiece& piece : block) text += piece.text;
    if (options.pause.count() > 0 && !InterruptScope::requested()) screen.show(block);
  }
  if (options.pause.count() == 0) std::printf("%s", text.c_str());
  if (!text.ends_with('\n')) std::printf("\n");
}

struct Speed {
  double tokens = 0, seconds = 0, passes = 0, decided = 0;
  double rate() const { return seconds > 0 ? tokens / seconds : 0; }
};

}  // namespace

std::vector<std::string> block_frames(const BlockPieces& block, int* columns) {
  int32_t last = 0;
  *columns = 0;
  for (const BlockPiece& piece : block) {
    last = std::max(last, piece.pass);
    *columns += columns_of(piece.text);
  }
  std::vector<std::string> frames;
  for (int32_t pass = -1; pass <= last; ++pass) {
    std::string& frame = frames.emplace_back();
    for (const BlockPiece& piece : block) {
      if (piece.pass <= pass) {
        frame += in_one_line(piece.text);
      } else {
        for (int i = columns_of(piece.text); i > 0; --i) frame += "\u2591";
      }
    }
  }
  return frames;
}

Request demo_request(const Session& session, const Prompt& prompt, const SamplingParams& sampling, int32_t max_tokens) {
  Request request;
  request.prompt = !prompt.ids.empty()           ? prompt.ids
                   : session.has_chat_template() ? session.encode_chat(prompt.messages)
                                                 : session.encode_raw(prompt.text);
  request.sampling = sampling;
  request.max_tokens = max_tokens;
  request.stop_ids = session.stop_ids();
  return request;
}

Json demo_blocks(Session& session, const std::vector<Prompt>& prompts, const BlockDemoOptions& options) {
  Speed parallel, single;
  for (size_t i = 0; i < prompts.size() && !InterruptScope::requested(); ++i) {
    Request request = demo_request(session, prompts[i], options.sampling, options.max_tokens);
    answer(session, request);  // caches and clocks warm up
    BlockAnswer best[2];
    for (int32_t round = 0; round < options.rounds; ++round) {
      for (int32_t way = 0; way < 2; ++way) {  // in turns, so that a moment of other load does not decide
        request.width = way;                   // 0: as many tokens a pass as the model is sure of
        BlockAnswer now = answer(session, request);
        if (round == 0 || now.seconds < best[way].seconds) best[way] = std::move(now);
      }
    }
    for (int32_t way = 0; way < 2; ++way) {
      Speed& speed = way == 0 ? parallel : single;
      speed.tokens += best[way].stats.generated_tokens;
      speed.seconds += best[way].seconds;
      speed.passes += best[way].stats.verify_steps;
      speed.decided += best[way].stats.mean_length() * best[way].stats.verify_steps;
    }
    if (i >= kShown || InterruptScope::requested()) continue;
    std::printf("\n%s%s%s\n", options.color ? "\033[1m" : "> ", prompts[i].text.c_str(),
                options.color ? "\033[0m" : "");
    show(best[0], options);
  }
  if (InterruptScope::requested()) return nullptr;
  const double per_forward = parallel.passes > 0 ? parallel.decided / parallel.passes : 0.0;
  const double speed_up = single.rate() > 0 ? parallel.rate() / single.rate() : 0.0;
  std::printf("\ntokens per forward: %.2f, %.0f tokens/s; one token per forward: %.0f tokens/s (%.1fx)\n", per_forward,
              parallel.rate(), single.rate(), speed_up);
  flush_output();
  return {{"prompts", prompts.size()},
          {"tokens_per_forward", per_forward},
          {"tokens_per_second", parallel.rate()},
          {"one_per_forward_tokens_per_second", single.rate()},
          {"speed_up", speed_up}};
}

}  // namespace ashlar
