// SPDX-License-Identifier: Apache-2.0
// One answer as it comes in: its texts, which runs of them were drafted or unmasked together, and its times.

// Tokens that came in fewer arrivals than this say nothing about speed: a busy browser reads late, and all at once.
const kArrivals = 4;
const kPasses = 8; // fewer without a draft may be chance

export class Answer {
  constructor(now) {
    this.content = '';
    this.reasoning = '';
    this.calls = []; // {id, name, arguments}
    this.runs = []; // [part, characters, kind, block, pass], part 'c' or 'r'; pass 0: not by blocks
    this.finish = '';
    this.usage = null;
    this.speculation = null;
    this.decodeMs = NaN; // by the server's clock, which no busy browser delays
    this.passes = null; // figures of a model that fills blocks
    this.tokens = 0;
    this.firstTokens = 0;
    this.startedAt = now;
    this.firstAt = null;
    this.lastAt = null;
    this.arrivals = 0;
    this.timeline = []; // [milliseconds since the first token, tokens]
    this.block = 0;
    this.next = 0; // in a block: the position after the newest token
    this.pass = 0;
    this.kind = 0;
  }

  /** Takes a chunk in; `show(part, text, kind, block, pass)` is called for each new run. */
  take(chunk, now, show) {
    if (chunk.usage) this.usage = chunk.usage;
    if (chunk.metrics?.speculative_decoding) this.speculation = chunk.metrics.speculative_decoding;
    if (chunk.metrics?.decode_seconds > 0) this.decodeMs = chunk.metrics.decode_seconds * 1000;
    if (chunk.metrics?.dllm) this.passes = chunk.metrics.dllm;
    const choice = chunk.choices?.[0];
    if (!choice) return;
    if (choice.finish_reason) this.finish = choice.finish_reason;
    const delta = choice.delta ?? {};
    this.count(chunk.block, now);
    // A part without tokens of its own, such as the rest of a word, belongs to the run before.
    if (delta.reasoning_content) this.add('r', delta.reasoning_content, show);
    if (delta.content) this.add('c', delta.content, show);
    for (const call of delta.tool_calls ?? []) this.addCall(call);
  }

  count(block, now) {
    if (!block || block.tokens === 0) return;
    const drafted = block.drafted > 0;
    if (block.step !== undefined) {
      if (this.block === 0 || block.at < this.next) this.block += 1;
      this.next = block.at + block.tokens;
      this.pass = block.step + 1;
      this.kind = 3 + (this.block % 2);
    } else {
      if (drafted) this.block += 1;
      this.kind = drafted ? 1 + (this.block % 2) : 0;
    }
    this.tokens += block.tokens;
    if (now !== this.lastAt) this.arrivals += 1;
    this.lastAt = now;
    if (this.firstAt === null) {
      this.firstAt = now;
      this.firstTokens = block.tokens;
    }
    this.timeline.push([now - this.firstAt, this.tokens]);
  }

  add(part, text, show) {
    if (part === 'r') this.reasoning += text;
    else this.content += text;
    const last = this.runs.at(-1);
    if (last && last[0] === part && last[2] === this.kind && (this.kind === 0 || (last[3] === this.block && last[4] === this.pass))) {
      last[1] += text.length;
    } else {
      this.runs.push([part, text.length, this.kind, this.block, this.pass]);
    }
    show(part, text, this.kind, this.block, this.pass);
  }

  addCall(part) {
    const index = part.index ?? 0;
    const call = (this.calls[index] ??= { id: '', name: '', arguments: '' });
    call.id ||= part.id ?? '';
    call.name += part.function?.name ?? '';
    call.arguments += part.function?.arguments ?? '';
  }

  /** Tokens a second from the first token on, by the server's clock once it said; NaN while there are too few. */
  rate() {
    if (this.decodeMs > 0 && this.usage) {
      const tokens = this.usage.completion_tokens - (this.passes ? 0 : 1); // the prompt's passes bring the first, but not of a block
      return tokens > 0 ? (tokens * 1000) / this.decodeMs : NaN;
    }
    const ms = this.lastAt - this.firstAt;
    return ms > 0 && this.arrivals >= kArrivals ? ((this.tokens - this.firstTokens) * 1000) / ms : NaN;
  }
  decodeTimeMs() {
    return this.decodeMs > 0 ? this.decodeMs : this.lastAt - this.firstAt || NaN;
  }
  firstTokenMs() {
    return this.firstAt === null ? NaN : this.firstAt - this.startedAt;
  }
  /** Tokens a verify step, its own token included; or tokens that a pass decided. */
  meanLength() {
    if (this.passes) return this.passes.forwards > 0 ? this.passes.tokens_per_forward : NaN;
    return this.speculation && this.speculation.verify_steps > 0 ? this.speculation.mean_length : NaN;
  }
  /** Tokens there were `ms` after the first. */
  tokensAt(ms) {
    let low = 0;
    let high = this.timeline.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.timeline[middle][0] <= ms) low = middle + 1;
      else high = middle;
    }
    return low === 0 ? 0 : this.timeline[low - 1][1];
  }

  /** Whether the server could have drafted, and in passes enough to say so never did: drafts would not have paid. */
  draftedNothing() {
    return !this.passes && this.speculation !== null && this.speculation.drafted === 0 && this.speculation.verify_steps >= kPasses;
  }

  /** What a reload needs. `drafts`: whether the request let the server draft. */
  toRecord(state, drafts = true) {
    return {
      role: 'assistant',
      content: this.content,
      reasoning: this.reasoning,
      calls: this.calls,
      runs: this.runs,
      finish: this.finish,
      state,
      figures: {
        rate: this.rate(),
        mean: this.meanLength(),
        paused: drafts && this.draftedNothing(),
        first: this.firstTokenMs(),
        tokens: this.usage?.completion_tokens ?? this.tokens,
        prompt: this.usage?.prompt_tokens,
        cached: this.usage?.prompt_tokens_details?.cached_tokens,
      },
    };
  }
}
