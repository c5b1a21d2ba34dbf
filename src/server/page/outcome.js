// SPDX-License-Identifier: Apache-2.0
// What side by side says of its turns: how fast, by the median of all of them, and whether the texts were the same.

import { count } from './dom.js';

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// Fewer turns than this say how fast they were and no more: the next ones may well say the opposite. Where as many agree, each
// by kClear at the least, one machine does not take back what another said a minute ago. Where they do not, something else ran: it
// only ever takes time, so that the fastest turns of both say more than any pair, but they have to be kFar apart.
const kTurns = 3;
const kClear = 1.1;
const kFar = 1.25;

/**
 * The speed in words. `turns`: tokens a second of each, {plain, drafted}, NaN where it was too short; `mean`: tokens a pass of the
 * drafted run; `kind`: 'drafts', 'blocks' or 'plain' (no drafter).
 */
export function speedWords(turns, mean, kind) {
  if (kind === 'plain') return 'Both ran token by token';
  const known = turns.filter((turn) => Number.isFinite(turn.drafted / turn.plain));
  if (known.length === 0) return 'Too short to compare speeds';
  const ratios = known.map((turn) => turn.drafted / turn.plain);
  const middle = median(ratios);
  const [low, high] = [Math.min(...ratios), Math.max(...ratios)];
  const spread = `${low.toFixed(2)} to ${high.toFixed(2)}`;
  const of = known.length === 1 ? '' : ` (median of ${known.length} turns, ${spread})`;
  const how = kind === 'blocks' ? 'in parallel' : 'with drafting';
  // As it is shown: a mean of 1.004 is one token a pass to a reader.
  if (kind === 'drafts' && mean.toFixed(2) === '1.00') return `No drafts were worth checking: ${middle.toFixed(2)}× the speed${of}`;
  if (known.length < kTurns) return `${middle.toFixed(2)}× the speed ${how}${of || ' in one turn'}; ${kTurns} or more can say whether that holds`;
  if (low >= kClear) return `${middle.toFixed(2)}× as fast ${how}${of}`;
  if (high <= 1 / kClear) return `${middle.toFixed(2)}× the speed ${how}${of}: slower here`;
  const best = Math.max(...known.map((turn) => turn.drafted)) / Math.max(...known.map((turn) => turn.plain));
  const fastest = ` (fastest turns of ${known.length}; turn by turn ${middle.toFixed(2)}, ${spread}: something else ran here)`;
  if (best >= kFar) return `${best.toFixed(2)}× as fast ${how}${fastest}`;
  if (best <= 1 / kFar) return `${best.toFixed(2)}× the speed ${how}${fastest}: slower here`;
  return `No clear difference ${how}: ${middle.toFixed(2)}×${of}`;
}

/** Where two texts part, or -1. */
function firstDifference(a, b) {
  const end = Math.max(a.length, b.length);
  for (let i = 0; i < end; ++i) {
    if (a[i] !== b[i]) return i;
  }
  return -1;
}

const textsOf = (answer) => [answer.reasoning, answer.content, ...answer.calls.map((call) => call?.name + '\n' + call?.arguments)];

/** Whether two answers are the same, and else the character of the first difference, or -1 where they only ended differently. */
export function compared(a, b) {
  const [texts, others] = [textsOf(a), textsOf(b)];
  const at = texts.map((text, i) => firstDifference(text, others[i] ?? '')).find((place) => place >= 0) ?? -1;
  return { same: at < 0 && texts.length === others.length && a.finish === b.finish, at };
}

/** Tokens that are unmasked together do not see each other: a lower threshold pays for speed with other words. */
export function textWords({ same, at }, kind) {
  if (kind === 'blocks') {
    if (same) return 'The same text, character for character';
    return at >= 0 ? `Another text from character ${count(at + 1)} on: tokens unmasked together are chosen without each other`
      : 'The same text, ended differently';
  }
  if (same) return 'Identical: the same text, character for character';
  return at >= 0 ? `Different from character ${count(at + 1)} on. This must not happen: please report it with the seed`
    : 'They ended differently. This must not happen: please report it with the seed';
}
