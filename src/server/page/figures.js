// The panel of figures: acceptance of this session's answers, and what the server says about itself.

import { acceptanceTable, drawAcceptance } from './charts.js';
import { enterKey, fetchStats } from './api.js';
import { byId, count, fixed, keptForTab, percent, setText, speed } from './dom.js';

const kPollMs = 1000;
const kRetryMs = 4000; // while the server does not answer

const empty = () => ({ drafted: [], accepted: [], steps: 0, tokens: 0 });
let session = empty();
let newest = empty();

function redraw() {
  drawAcceptance(byId('acceptance'), newest, session);
  acceptanceTable(byId('acceptance-rows'), newest, session);
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  setText(byId('session-accepted'), percent(sum(session.accepted), sum(session.drafted)));
  setText(byId('newest-accepted'), percent(sum(newest.accepted), sum(newest.drafted)));
  setText(byId('session-mean'), session.steps > 0 ? fixed(session.tokens / session.steps, 2) : '–');
  setText(byId('newest-mean'), newest.steps > 0 ? fixed(newest.tokens / newest.steps, 2) : '–');
}

/** Takes in metrics.speculative_decoding of a finished answer that was drafted. */
export function addAcceptance(metrics) {
  if (!metrics || !(metrics.drafted > 0)) return;
  newest = {
    drafted: metrics.drafted_per_position ?? [],
    accepted: metrics.accepted_per_position ?? [],
    steps: metrics.verify_steps,
    tokens: metrics.mean_length * metrics.verify_steps,
  };
  for (const name of ['drafted', 'accepted']) {
    newest[name].forEach((n, i) => (session[name][i] = (session[name][i] ?? 0) + n));
  }
  session.steps += newest.steps;
  session.tokens += newest.tokens;
  keptForTab.save('acceptance', { session, newest });
  redraw();
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
  before = { now, tokens: stats.generated_tokens };
  setText(byId('model'), stats.model);
  byId('model').title = `${stats.description} · ${stats.decoder}`;
  setText(byId('stat-description'), stats.description || stats.model);
  setText(byId('stat-decoder'), stats.max_width > 1 ? `${stats.decoder}, width up to ${stats.max_width}` : stats.decoder);
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
  if (saved) ({ session, newest } = saved);
  byId('reset-acceptance').addEventListener('click', () => {
    session = empty();
    newest = empty();
    keptForTab.save('acceptance', { session, newest });
    redraw();
  });
  byId('enter-key').addEventListener('click', enterKey);
  document.addEventListener('keychange', poll);
  new ResizeObserver(redraw).observe(byId('acceptance'));
  document.addEventListener('visibilitychange', () => {
    before = null;
    poll();
  });
  redraw();
  poll();
}
