// SPDX-License-Identifier: Apache-2.0
// Side by side: one prompt and seed with and without drafting, as a race whose texts must be the same; or with one
// token a pass and with as many as a model that fills blocks is sure of, where they need not be. Without a drafter both
// run the same way, and there is no speed to speak of. Several turns say how far speeds spread; who begins alternates.

import { Answer } from './answer.js';
import { streamChat } from './api.js';
import { announce, blockSize, byId, count, duration, either, el, fixed, isPlain, kept, randomSeed, setText, speed } from './dom.js';
import { addFigures } from './figures.js';
import { Flow } from './flow.js';
import { form } from './forming.js';
import { compared, speedWords, textWords } from './outcome.js';
import { requestBody, showWrong } from './settings.js';

// Painting takes the cores that the race is run on.
const kDrawMs = 80;
const kNumbers = [['rate', 'tokens/s'], ['first', 'first token'], ['mean', either('mean length', 'tokens a pass')], ['time', 'decode time']];
const kMaxTurns = 20;

class Lane {
  constructor(name, title, speculative) {
    this.speculative = speculative;
    this.bar = byId('race-' + name);
    this.tokens = byId('race-' + name + '-tokens');
    this.numbers = {};
    const list = el('dl', { class: 'numbers' });
    for (const [key, label] of kNumbers) {
      this.numbers[key] = el('dd', {}, '–');
      list.append(el('div', { class: key === 'mean' ? 'not-plain' : null }, this.numbers[key], el('dt', {}, typeof label === 'function' ? label() : label)));
    }
    this.reasoningBody = el('div', { class: 'flow' });
    this.body = el('div', { class: 'flow' });
    this.reasoning = el('details', { class: 'reasoning', hidden: true }, el('summary', {}, 'Reasoning'), this.reasoningBody);
    this.calls = el('pre', { class: 'lane-calls', hidden: true });
    this.note = el('p', { class: 'note', hidden: true });
    byId('lane-' + name).replaceChildren(el('h3', { id: `lane-${name}-title` }, title()), list, this.reasoning, this.body, this.calls, this.note);
    this.flows = { r: new Flow(this.reasoningBody, { markdown: false }), c: new Flow(this.body) };
    this.reset();
  }

  reset() {
    this.answer = null;
    this.done = false;
    this.queue = [];
    this.flows.r.clear();
    this.flows.c.clear();
    this.reasoning.hidden = true;
    this.calls.hidden = true;
    this.note.hidden = true;
    for (const node of Object.values(this.numbers)) setText(node, '–');
    this.progress(0, 1, '');
  }

  progress(tokens, of, text) {
    this.bar.style.width = Math.min(100, (100 * tokens) / Math.max(1, of)).toFixed(2) + '%';
    setText(this.tokens, text);
  }

  async run(body, signal) {
    this.answer = new Answer(performance.now());
    // A salt of its own: neither run finds the other's prompt in the cache.
    const own = { ...body, cache_salt: 'compare-' + randomSeed() };
    if (this.speculative) delete own.speculative;
    else own.speculative = false;
    await streamChat(own, signal, (chunk, now) => this.answer.take(chunk, now, (...run) => this.queue.push(run)));
    this.done = true;
    if (this.speculative) addFigures(this.answer);
  }

  draw() {
    const { answer } = this;
    if (!answer) return;
    for (const [part, ...run] of this.queue) {
      if (part === 'r') this.reasoning.hidden = false;
      this.flows[part].write(...run);
    }
    this.queue = [];
    for (const flow of Object.values(this.flows)) form(flow.takeFresh(), kDrawMs);
    if (this.done) {
      this.flows.r.end();
      this.flows.c.end();
      const calls = answer.calls.filter(Boolean).map((call) => `${call.name}(${call.arguments})`).join('\n');
      this.calls.hidden = calls === '';
      setText(this.calls, calls);
    }
    setText(this.numbers.rate, speed(answer.rate()));
    setText(this.numbers.first, duration(answer.firstTokenMs()));
    setText(this.numbers.mean, fixed(answer.meanLength(), 2));
    setText(this.numbers.time, duration(answer.decodeTimeMs()));
  }

  say(text) {
    this.note.hidden = false;
    setText(this.note, text);
  }
}

let plain;
let drafted;
let running = null;
let limit = 512;

/** Bars on one clock, from the first token on; one that has run already is run again from its record. */
function drawRace() {
  const goal = plain.done ? plain.answer.tokens : drafted.done ? drafted.answer.tokens : limit;
  const clock = drafted.answer?.firstAt ? (drafted.done ? drafted.answer.lastAt : performance.now()) - drafted.answer.firstAt : null;
  const tokens = drafted.answer?.tokens ?? 0;
  drafted.progress(tokens, goal, drafted.answer ? `${count(tokens)} tokens` : '');
  if (!plain.answer) return;
  if (!plain.done || drafted.answer === null) {
    const all = plain.answer.tokens;
    return plain.progress(all, goal, `${count(all)} tokens`);
  }
  const then = clock === null ? 0 : plain.answer.tokensAt(clock);
  plain.progress(then, goal, `had ${count(then)} of ${count(plain.answer.tokens)} then`);
}

function draw() {
  plain.draw();
  drafted.draw();
  drawRace();
  if (running) setTimeout(draw, kDrawMs);
}

function outcome(turns) {
  const box = byId('outcome');
  const kind = blockSize() > 0 ? 'blocks' : isPlain() ? 'plain' : 'drafts';
  const { same, at } = turns.find((turn) => !turn.same) ?? turns[0];
  const speeds = speedWords(turns, turns.at(-1).mean, kind);
  const words = textWords({ same, at }, kind);
  box.dataset.same = String(same);
  const [, claim, spread, rest] = /^(.*?)(?: \((.*)\))?([^()]*)$/.exec(speeds);
  box.replaceChildren(el('strong', {}, claim + rest), el('span', { class: 'spread', hidden: spread === undefined }, spread ?? ''), el('span', { class: same ? 'same' : kind === 'blocks' ? 'apart' : 'differs' }, words));
  announce(`${speeds}. ${words}.`);
}

function fail(error) {
  const box = byId('outcome');
  delete box.dataset.same;
  if (error.name === 'AbortError') {
    box.replaceChildren(el('span', {}, 'Stopped.'));
    return announce('Stopped');
  }
  box.replaceChildren(el('span', { class: 'differs' }, error.message), el('button', { type: 'button', class: 'plain', click: start }, 'Try again'));
  announce(error.message);
}

function setRunning(controller) {
  running = controller;
  byId('compare-run').hidden = controller !== null;
  byId('compare-stop').hidden = controller === null;
}

/** One turn: both runs. What it says of them. */
async function runTurn(body, signal, turn) {
  plain.reset();
  drafted.reset();
  if (byId('order-together').checked) {
    await Promise.all([plain.run(body, signal), drafted.run(body, signal)]);
  } else {
    const [first, second] = turn % 2 === 0 ? [plain, drafted] : [drafted, plain];
    second.say('Starts when the first has finished.');
    await first.run(body, signal);
    second.note.hidden = true;
    await second.run(body, signal);
  }
  return {
    plain: plain.answer.rate(),
    drafted: drafted.answer.rate(),
    mean: drafted.answer.meanLength(),
    ...compared(plain.answer, drafted.answer),
  };
}

async function start() {
  const prompt = byId('compare-prompt').value.trim();
  if (running || prompt === '') return;
  const body = requestBody([{ role: 'user', content: prompt }]);
  if (body === null) return showWrong();
  limit = body.max_tokens ?? 512;
  const n = Math.min(kMaxTurns, Math.max(1, Math.trunc(Number(byId('compare-turns').value)) || 1));
  byId('compare-turns').value = n;
  kept.save('compare', { prompt, turns: n, together: byId('order-together').checked });
  delete byId('outcome').dataset.same;
  const controller = new AbortController();
  setRunning(controller);
  setTimeout(draw, kDrawMs);
  const turns = [];
  try {
    while (turns.length < n) {
      byId('outcome').replaceChildren(el('span', {}, `Seed ${body.seed}` + (n > 1 ? `, turn ${turns.length + 1} of ${n}` : '')));
      turns.push(await runTurn(body, controller.signal, turns.length));
    }
    setRunning(null);
    draw();
    outcome(turns);
  } catch (error) {
    controller.abort();
    setRunning(null);
    for (const lane of [plain, drafted]) lane.note.hidden = true;
    draw();
    fail(error);
  }
  if (document.activeElement === document.body) byId('compare-run').focus();
}

/** Esc: true if there was something to stop. */
export function escapeCompare() {
  running?.abort();
  return running !== null;
}

export function startCompare() {
  plain = new Lane('plain', either('Plain', 'One token a pass'), false);
  drafted = new Lane('drafted', either('Drafted', 'In parallel', 'Plain again'), true);
  const saved = kept.load('compare', {});
  if (saved.prompt) byId('compare-prompt').value = saved.prompt;
  if (saved.turns) byId('compare-turns').value = saved.turns;
  byId(saved.together ? 'order-together' : 'order-after').checked = true;
  byId('compare-form').addEventListener('submit', (event) => {
    event.preventDefault();
    start();
  });
  byId('compare-prompt').addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    start();
  });
  byId('compare-stop').addEventListener('click', () => running?.abort());
}
