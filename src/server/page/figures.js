// SPDX-License-Identifier: Apache-2.0
// The panel of figures: acceptance of this session's answers, or tokens of their passes, and what the server says about itself.

import { acceptanceTable, drawAcceptance, drawDecided, decidedTable } from './charts.js';
import { fetchStats } from './api.js';
import { blockSize, byId, count, fixed, isPlain, kept, keptForTab, percent, setText, speed } from './dom.js';
import { askForKey } from './key.js';

const kPollMs = 1000;
const kRetryMs = 4000; // while the server does not answer

const empty = () => ({ drafted: [], accepted: [], decided: [], steps: 0, tokens: 0, blocks: 0 });
let session = empty();
let newest = empty();

function redraw() {
  if (blockSize() > 0) {
    drawDecided(byId('acceptance'), newest.decided, session.decided);
    decidedTable(byId('acceptance-rows'), newest.decided, session.decided);
  } else {
    drawAcceptance(byId('acceptance'), newest, session);
    acceptanceTable(byId('acceptance-rows'), newest, session);
  }
  const each = ({ steps, blocks }) => (blocks > 0 ? fixed(steps / blocks, 2) : '–');
  setText(byId('session-passes'), each(session));
  setText(byId('newest-passes'), each(newest));
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  setText(byId('session-accepted'), percent(sum(session.accepted), sum(session.drafted)));
  setText(byId('newest-accepted'), percent(sum(newest.accepted), sum(newest.drafted)));
  setText(byId('session-mean'), session.steps > 0 ? fixed(session.tokens / session.steps, 2) : '–');
  setText(byId('newest-mean'), newest.steps > 0 ? fixed(newest.tokens / newest.steps, 2) : '–');
}

/** Takes in what the server says about an Answer: its drafts, or the passes that filled its blocks. */
export function addFigures({ speculation, passes }) {
  if (passes?.forwards > 0) {
    newest = { ...empty(), decided: passes.decided_per_forward, steps: passes.forwards, blocks: passes.blocks };
    newest.tokens = passes.tokens_per_forward * passes.forwards;
  } else if (speculation?.drafted > 0) {
    newest = { ...empty(), drafted: speculation.drafted_per_position ?? [], accepted: speculation.accepted_per_position ?? [] };
    newest.steps = speculation.verify_steps;
    newest.tokens = speculation.mean_length * speculation.verify_steps;
  } else {
    return;
  }
  for (const name of ['drafted', 'accepted', 'decided']) {
    newest[name].forEach((n, i) => (session[name][i] = (session[name][i] ?? 0) + n));
  }
  for (const name of ['steps', 'tokens', 'blocks']) session[name] += newest[name];
  keptForTab.save('acceptance', { session, newest });
  redraw();
}

/** How the server decodes decides the page's words. Passes that write one token at most are those without a drafter. */
function setDecoding({ block, max_width }) {
  const plain = block === 0 && max_width === 1;
  if (block === blockSize() && plain === isPlain()) return;
  const root = document.documentElement;
  if (block > 0) root.dataset.blocks = block;
  else delete root.dataset.blocks;
  root.toggleAttribute('data-plain', plain);
  kept.save('decoding', { block, max_width });
  document.dispatchEvent(new Event('decodingchange'));
  redraw();
}

/** Tokens a pass: of the time since the last look, or of all time while nothing runs. */
function showPasses(stats, last) {
  const ran = last && stats.verify_spans > last.spans;
  const passes = ran ? stats.verify_spans - last.spans : stats.verify_spans;
  const tokens = ran ? stats.decided - last.decided : stats.decided;
  setText(byId('stat-passes'), passes > 0 ? fixed(tokens / passes, 2) : '–');
  setText(byId('stat-passes-of'), `of ${stats.block}`);
  const share = passes > 0 ? (100 * tokens) / passes / Math.max(1, stats.block) : 0;
  byId('bar-passes').setAttribute('width', Math.min(100, share).toFixed(2));
  setText(byId('stat-blocks'), count(stats.blocks));
}

let before = null; // the last counters, for rates

function showPages(pages) {
  const total = Math.max(1, pages.total);
  for (const name of ['held', 'cached', 'free']) {
    byId('bar-' + name).setAttribute('width', ((100 * pages[name]) / total).toFixed(2));
    setText(byId('pages-' + name), count(pages[name]));
  }
  byId('bar-cached').setAttribute('x', ((100 * pages.held) / total).toFixed(2));
  byId('bar-free').setAttribute('x', ((100 * (pages.held + pages.cached)) / total).toFixed(2));
}

function show(stats) {
  const now = performance.now();
  const seconds = before ? (now - before.now) / 1000 : 0;
  // A server that was started anew counts from zero.
  const made = before ? Math.max(0, stats.generated_tokens - before.tokens) : 0;
  setDecoding(stats);
  showPasses(stats, before);
  before = { now, tokens: stats.generated_tokens, decided: stats.decided, spans: stats.verify_spans };
  setText(byId('model'), stats.model);
  byId('model').title = `${stats.description} · ${stats.decoder}`;
  setText(byId('stat-description'), stats.description || stats.model);
  const shape = stats.block > 0 ? `, blocks of ${stats.block}` : stats.max_width > 1 ? `, width up to ${stats.max_width}` : '';
  setText(byId('stat-decoder'), stats.decoder + shape);
  setText(byId('stat-context'), count(stats.context) + ' tokens');
  setText(byId('stat-version'), stats.version);
  setText(byId('stat-running'), count(stats.running));
  setText(byId('stat-waiting'), count(stats.waiting));
  setText(byId('stat-speed'), seconds > 0 ? speed(made / seconds) : '–');
  setText(byId('stat-hits'), percent(stats.cached_tokens, stats.prompt_tokens));
  setText(byId('stat-hits-of'), `${count(stats.cached_tokens)} of ${count(stats.prompt_tokens)} tokens`);
  setText(byId('stat-generated'), count(stats.generated_tokens));
  setText(byId('stat-accepted'), percent(stats.accepted, stats.drafted));
  setText(byId('stat-mean'), stats.verify_spans > 0 ? fixed((stats.accepted + stats.verify_spans) / stats.verify_spans, 2) : '–');
  showPages(stats.pages);
}

function state(name, text) {
  byId('status').dataset.state = name;
  setText(byId('status-text'), text);
  byId('stats-key').hidden = name !== 'key';
  byId('server-figures').classList.toggle('stale', name !== 'up');
}

let timer = 0;
let asking = false;

async function poll() {
  clearTimeout(timer);
  if (document.hidden || asking) return;
  asking = true;
  let pause = kPollMs;
  try {
    show(await fetchStats());
    state('up', 'Connected');
  } catch (error) {
    before = null;
    pause = kRetryMs;
    if (error.kind === 'key') state('key', 'Key needed');
    else state('down', error.kind === 'network' ? 'No connection' : 'No figures');
  }
  asking = false;
  clearTimeout(timer);
  timer = setTimeout(poll, pause);
}

export function startFigures() {
  const saved = keptForTab.load('acceptance', null);
  if (saved?.session.decided) ({ session, newest } = saved);
  setDecoding(kept.load('decoding', { block: 0, max_width: 0 }));
  byId('reset-acceptance').addEventListener('click', () => {
    session = empty();
    newest = empty();
    keptForTab.save('acceptance', { session, newest });
    redraw();
  });
  byId('enter-key').addEventListener('click', askForKey);
  document.addEventListener('keychange', poll);
  new ResizeObserver(redraw).observe(byId('acceptance'));
  document.addEventListener('visibilitychange', () => {
    before = null;
    poll();
  });
  redraw();
  poll();
}
