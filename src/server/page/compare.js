// Side by side: one prompt and seed with and without drafting, as a race whose texts must be the same; or with one
// token a pass and with as many as a model that fills blocks is sure of, where they need not be. Without a drafter both
// run the same way, and there is no speed to speak of.

import { Answer } from './answer.js';
import { streamChat } from './api.js';
import { announce, blockSize, byId, count, duration, either, el, fixed, isPlain, kept, randomSeed, setText, speed } from './dom.js';
import { addFigures } from './figures.js';
import { Flow } from './flow.js';
import { form } from './forming.js';
import { requestBody, showWrong } from './settings.js';

// Painting takes the cores that the race is run on.
const kDrawMs = 80;
const kNumbers = [['rate', 'tokens/s'], ['first', 'first token'], ['mean', either('mean length', 'tokens a pass')], ['time', 'decode time']];
const kText = (answer) => [answer.reasoning, answer.content, ...answer.calls.map((call) => call?.name + '\n' + call?.arguments)];

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
    this.flows = { r: new Flow(this.reasoningBody, { fences: false }), c: new Flow(this.body) };
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
    setText(this.numbers.time, duration(answer.lastAt - answer.firstAt || NaN));
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
  plain.progress(then, goal, `${count(then)} of ${count(plain.answer.tokens)} by then`);
}

function draw() {
  plain.draw();
  drafted.draw();
  drawRace();
  if (running) setTimeout(draw, kDrawMs);
}

/** Where two texts part, or -1. */
function firstDifference(a, b) {
  const end = Math.max(a.length, b.length);
  for (let i = 0; i < end; ++i) {
    if (a[i] !== b[i]) return i;
  }
  return -1;
}

/** Tokens that are unmasked together do not see each other: a lower threshold pays for speed with other words. */
function wordsOfBlocks(same, at) {
  if (same) return 'The same text, character for character';
  return at >= 0 ? `Another text from character ${count(at + 1)} on: tokens unmasked together are chosen without each other`
    : 'The same text, ended differently';
}

function outcome() {
  const box = byId('outcome');
  const [a, b] = [plain.answer, drafted.answer];
  const parts = kText(a).map((text, i) => firstDifference(text, kText(b)[i] ?? ''));
  const at = parts.find((place) => place >= 0) ?? -1;
  const same = at < 0 && kText(a).length === kText(b).length && a.finish === b.finish;
  const times = b.rate() / a.rate();
  const blocks = blockSize() > 0;
  const how = blocks ? 'in parallel' : 'with drafting';
  const faster = isPlain() ? 'Both ran token by token' : !Number.isFinite(times) ? 'Too short to compare speeds'
    : times >= 1 ? `${times.toFixed(2)}× as fast ${how}` : `${times.toFixed(2)}× the speed ${how}: slower here`;
  const words = blocks ? wordsOfBlocks(same, at) : same ? 'Identical: the same text, character for character'
    : at >= 0 ? `Different from character ${count(at + 1)} on. This must not happen: please report it with the seed`
      : 'They ended differently. This must not happen: please report it with the seed';
  box.dataset.same = String(same);
  box.replaceChildren(el('strong', {}, faster), el('span', { class: same ? 'same' : blocks ? 'apart' : 'differs' }, words));
  announce(`${faster}. ${words}.`);
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

async function start() {
  const prompt = byId('compare-prompt').value.trim();
  if (running || prompt === '') return;
  const body = requestBody([{ role: 'user', content: prompt }]);
  if (body === null) return showWrong();
  limit = body.max_tokens ?? 512;
  kept.save('compare', { prompt, together: byId('order-together').checked });
  plain.reset();
  drafted.reset();
  delete byId('outcome').dataset.same;
  byId('outcome').replaceChildren(el('span', {}, `Seed ${body.seed}`));
  const controller = new AbortController();
  setRunning(controller);
  setTimeout(draw, kDrawMs);
  try {
    if (byId('order-together').checked) {
      await Promise.all([plain.run(body, controller.signal), drafted.run(body, controller.signal)]);
    } else {
      drafted.say('Starts when the first has finished.');
      await plain.run(body, controller.signal);
      drafted.note.hidden = true;
      await drafted.run(body, controller.signal);
    }
    setRunning(null);
    draw();
    outcome();
  } catch (error) {
    controller.abort();
    setRunning(null);
    drafted.note.hidden = true;
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
