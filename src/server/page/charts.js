// SPDX-License-Identifier: Apache-2.0
// Acceptance by position or tokens by pass, drawn as SVG in the size it is shown in, so that its letters stay sharp.

import { count, el, percent, svg } from './dom.js';

const kHeight = 170;
const kLeft = 34;
const kTop = 10;
const kBottom = 26;

const share = (counts, i) => (counts.drafted[i] > 0 ? counts.accepted[i] / counts.drafted[i] : null);

/** Positions up to the last one that ever had a draft: the server counts up to its widest. */
const reach = (counts) => counts.drafted.findLastIndex((n) => n > 0) + 1;

function grid(width, plot) {
  const lines = [];
  for (const level of [0, 25, 50, 75, 100]) {
    const y = kTop + plot * (1 - level / 100) + 0.5;
    lines.push(svg('line', { class: level === 0 ? 'axis' : 'grid', x1: kLeft, x2: width, y1: y, y2: y }));
    if (level % 50 === 0) lines.push(svg('text', { class: 'tick', x: kLeft - 6, y: y + 3.5, 'text-anchor': 'end' }, String(level)));
  }
  return lines;
}

function bar(name, x, width, plot, value) {
  if (value === null) return null;
  const height = Math.max(1, plot * value);
  return svg('rect', { class: name, x: x.toFixed(1), y: (kTop + plot - height).toFixed(1), width: width.toFixed(1), height: height.toFixed(1) });
}

/** `newest` and `session` are {drafted: [], accepted: []}. */
export function drawAcceptance(root, newest, session) {
  const positions = Math.max(reach(newest), reach(session));
  drawBars(root, positions, (i) => share(newest, i), (i) => share(session, i), 1, 'No drafts yet');
}

const passes = (counts) => counts.reduce((a, b) => a + b, 0);
/** Passes that decided nothing are rare: their place is there only if they occur. */
const least = (counts) => (counts[0] > 0 ? 0 : 1);

/** Of passes, the share that decided n tokens: counts[n] passes. */
export function drawDecided(root, newest, session) {
  const first = Math.min(least(newest), least(session));
  const of = (counts) => (i) => (counts[i + first] > 0 ? counts[i + first] / passes(counts) : null);
  const most = Math.max(newest.findLastIndex((n) => n > 0), session.findLastIndex((n) => n > 0));
  drawBars(root, Math.max(0, most + 1 - first), of(newest), of(session), first, 'No passes yet');
}

function drawBars(root, positions, newest, session, first, empty) {
  const width = Math.max(200, root.clientWidth);
  const plot = kHeight - kTop - kBottom;
  const picture = svg('svg', { width, height: kHeight, viewBox: `0 0 ${width} ${kHeight}`, 'aria-hidden': 'true' }, ...grid(width, plot));
  const slot = (width - kLeft) / Math.max(1, positions);
  const inner = Math.min(44, slot * 0.72);
  const every = Math.ceil(22 / Math.max(1, slot));
  for (let i = 0; i < positions; ++i) {
    const middle = kLeft + slot * (i + 0.5);
    for (const part of [
      bar('session', middle - inner / 2, inner / 2 - 0.5, plot, session(i)),
      bar('newest', middle + 0.5, inner / 2 - 0.5, plot, newest(i)),
    ]) {
      if (part) picture.append(part);
    }
    if (i % every === 0) picture.append(svg('text', { class: 'tick', x: middle, y: kHeight - 9, 'text-anchor': 'middle' }, String(i + first)));
  }
  if (positions === 0) {
    picture.append(svg('text', { class: 'tick', x: (width + kLeft) / 2, y: kTop + plot * 0.375 + 4, 'text-anchor': 'middle' }, empty));
  }
  root.replaceChildren(picture);
}

/** The same numbers for those who read rather than look. */
export function decidedTable(body, newest, session) {
  const rows = [];
  const cell = (counts, n) => el('td', {}, counts[n] > 0 ? `${percent(counts[n], passes(counts))} (${count(counts[n])})` : '–');
  for (let n = Math.min(least(newest), least(session)); n <= session.findLastIndex((k) => k > 0); ++n) {
    rows.push(el('tr', {}, el('th', { scope: 'row' }, String(n)), cell(session, n), cell(newest, n)));
  }
  body.replaceChildren(...rows);
}

/** The same numbers for those who read rather than look. */
export function acceptanceTable(body, newest, session) {
  const rows = [];
  const cell = (counts, i) => {
    const drafted = counts.drafted[i] ?? 0;
    const text = drafted > 0 ? `${percent(counts.accepted[i], drafted)} of ${count(drafted)}` : '–';
    return el('td', {}, text);
  };
  for (let i = 0; i < reach(session); ++i) {
    rows.push(el('tr', {}, el('th', { scope: 'row' }, String(i + 1)), cell(session, i), cell(newest, i)));
  }
  body.replaceChildren(...rows);
}
