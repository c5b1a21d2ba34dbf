// SPDX-License-Identifier: Apache-2.0
// Shows one answer: texts with their tints, reasoning, calls, figures, errors. Writes in strokes, not token by token:
// painting takes the cores that the model needs.

import { copyButton, count, duration, el, either, fixed, setText, speed } from './dom.js';
import { Flow } from './flow.js';
import { form, moves, replay } from './forming.js';

const kDrawMs = 40;
const kFigures = [
  ['rate', 'tokens/s', 'Tokens a second, from the first token on'],
  ['mean', either('mean length', 'tokens a pass'), 'Tokens a pass of the model, on average'],
  ['first', 'first token', 'Time to the first token'],
  ['tokens', 'tokens', 'Tokens of the answer'],
  ['prompt', 'prompt tokens', 'Tokens of the prompt, and how many came from the cache'],
];

export class AnswerView {
  /** `onDraw` is called after text was added. */
  constructor({ onDraw = () => {} } = {}) {
    this.onDraw = onDraw;
    this.queue = [];
    this.timer = 0;
    this.drawnAt = 0;
    const reasoningBody = el('div', { class: 'flow' });
    const contentBody = el('div', { class: 'flow' });
    this.flows = { r: new Flow(reasoningBody, { markdown: false }), c: new Flow(contentBody) };
    this.reasoning = el('details', { class: 'reasoning', hidden: true }, el('summary', {}, 'Reasoning'), reasoningBody);
    this.calls = el('div', { class: 'calls' });
    this.note = el('p', { class: 'note', hidden: true });
    this.paused = el('p', { class: 'note for-drafts not-plain', hidden: true }, 'Drafting paused: rows cost too much on this machine.');
    this.failure = el('div', { class: 'failure', hidden: true });
    this.numbers = {};
    const list = el('dl', { class: 'numbers' });
    for (const [name, label, title] of kFigures) {
      this.numbers[name] = el('dd', {}, '–');
      const shown = name === 'mean' ? 'not-plain' : null; // one by one there is no mean to show
      list.append(el('div', { title, class: shown }, this.numbers[name], el('dt', {}, typeof label === 'function' ? label() : label)));
    }
    this.actions = el('div', { class: 'actions' });
    this.foot = el('footer', {}, list, this.actions);
    this.root = el('article', { class: 'message answer', 'aria-label': 'Answer' },
      this.reasoning, contentBody, this.calls, this.note, this.paused, this.failure, this.foot);
  }

  /** Shows a run with the next drawing. */
  add(...run) {
    this.queue.push(run);
    this.timer ||= setTimeout(() => this.flush(), kDrawMs);
  }

  flush() {
    clearTimeout(this.timer);
    this.timer = 0;
    for (const [part, ...run] of this.queue) {
      if (part === 'r') this.reasoning.hidden = false;
      this.flows[part].write(...run);
    }
    this.queue = [];
    // What comes next will take about as long as this took.
    const now = performance.now();
    for (const flow of Object.values(this.flows)) form(flow.takeFresh(), this.drawnAt === 0 ? 0 : now - this.drawnAt);
    this.drawnAt = now;
    this.onDraw();
  }

  /** Shows once more, slowly, how the blocks filled. */
  replay() {
    replay([...this.root.querySelectorAll('.unmasked')]);
  }
  canReplay() {
    return moves() && this.root.querySelector('.unmasked') !== null;
  }

  live(answer) {
    this.showNumbers({ rate: answer.rate(), first: answer.firstTokenMs(), tokens: answer.tokens });
  }

  showNumbers(figures) {
    const { numbers } = this;
    setText(numbers.rate, speed(figures.rate ?? NaN));
    setText(numbers.mean, fixed(figures.mean ?? NaN, 2));
    setText(numbers.first, duration(figures.first ?? NaN));
    setText(numbers.tokens, figures.tokens === undefined ? '–' : count(figures.tokens));
    const cached = figures.cached > 0 ? ` (${count(figures.cached)} cached)` : '';
    setText(numbers.prompt, figures.prompt === undefined ? '–' : count(figures.prompt) + cached);
  }

  /** Draws a record, as Answer.toRecord makes it. */
  restore(record) {
    this.flows.r.clear();
    this.flows.c.clear();
    const at = { r: 0, c: 0 };
    const texts = { r: record.reasoning ?? '', c: record.content ?? '' };
    for (const [part, length, ...run] of record.runs ?? []) {
      if (part === 'r') this.reasoning.hidden = false;
      this.flows[part].write(texts[part].slice(at[part], at[part] + length), ...run);
      at[part] += length;
    }
    for (const flow of Object.values(this.flows)) flow.takeFresh();
    this.finish(record);
  }

  /** The end of a stream, whole or not. */
  finish(record) {
    this.flush();
    this.flows.r.end();
    this.flows.c.end();
    this.showCalls(record.calls ?? []);
    this.showNumbers(record.figures ?? {});
    const notes = {
      stopped: 'Stopped by you.',
      length: 'Cut off: the limit on tokens was reached.',
      empty: 'The model ended its answer without a word.',
    };
    const nothing = !record.content && !record.reasoning && !(record.calls?.length > 0);
    const why = record.state === 'stopped' ? 'stopped' : record.finish === 'length' ? 'length' : nothing ? 'empty' : '';
    this.note.hidden = why === '' || record.state === 'failed';
    setText(this.note, notes[why] ?? '');
    this.paused.hidden = record.figures?.paused !== true;
  }

  showCalls(calls) {
    this.calls.replaceChildren(...calls.filter(Boolean).map((call) => {
      let shown = call.arguments;
      try {
        shown = JSON.stringify(JSON.parse(call.arguments), null, 2);
      } catch {
        // what the model wrote is no JSON: shown as it is
      }
      return el('div', { class: 'code' }, el('div', { class: 'code-head' }, el('span', { class: 'language' }, 'Call of ' + (call.name || 'a tool'))),
        el('pre', { tabindex: '0', 'aria-label': 'Arguments' }, el('code', {}, shown)));
    }));
  }

  showError(message, retry) {
    this.flush();
    this.failure.hidden = false;
    this.root.classList.toggle('nothing', this.root.querySelector('.flow:not(:empty)') === null);
    this.failure.replaceChildren(el('p', {}, message), el('button', { type: 'button', class: 'plain', click: retry }, 'Try again'));
  }

  offer(...buttons) {
    this.actions.replaceChildren(...buttons);
  }
  copy(text) {
    return copyButton(text, { 'aria-label': 'Copy the answer' });
  }
}
