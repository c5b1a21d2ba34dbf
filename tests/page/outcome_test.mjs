// SPDX-License-Identifier: Apache-2.0
// What side by side says, outside a browser (run_markdown).

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { compared, median, speedWords, textWords } from './page/outcome.js';

test('the median is the middle, or between the two in the middle', () => {
  for (const [values, middle] of [[[3], 3], [[3, 1, 2], 2], [[4, 1, 10, 2], 3], [[10, 9, 1], 9]]) assert.equal(median(values), middle);
});

test('speeds are said by their median and spread', () => {
  for (const [ratios, mean, kind, words] of [
    [[1.5], 2.2, 'drafts', '1.50× the speed with drafting in one turn; 3 or more can say whether that holds'],
    [[1.5, 1.25, 4], 2.2, 'drafts', '1.50× as fast with drafting (median of 3 turns, 1.25 to 4.00)'],
    [[0.5, 0.7, 0.6], 2.2, 'drafts', '0.60× the speed with drafting (median of 3 turns, 0.50 to 0.70): slower here'],
    [[0.9, 1.1, 1.05], 1.3, 'drafts', 'No clear difference with drafting: 1.05× (median of 3 turns, 0.90 to 1.10)'],
    [[1.02, 1.05, 1.04], 1.3, 'drafts', 'No clear difference with drafting: 1.04× (median of 3 turns, 1.02 to 1.05)'],
    [[1.02], 1.004, 'drafts', 'No drafts were worth checking: 1.02× the speed'],
    [[2, NaN, 3], 4, 'blocks', '2.50× the speed in parallel (median of 2 turns, 2.00 to 3.00); 3 or more can say whether that holds'],
    [[NaN, NaN], 1, 'drafts', 'Too short to compare speeds'],
    [[1.5, 2], 1, 'plain', 'Both ran token by token'],
  ]) assert.equal(speedWords(ratios.map((ratio) => ({ plain: 100, drafted: 100 * ratio })), mean, kind), words);
});

test('where something else takes time, the fastest turns decide', () => {
  const words = (...turns) => speedWords(turns.map(([plain, drafted]) => ({ plain, drafted })), 2, 'drafts');
  assert.equal(words([100, 180], [90, 60], [60, 170]),
    '1.80× as fast with drafting (fastest turns of 3; turn by turn 1.80, 0.67 to 2.83: something else ran here)');
  assert.match(words([100, 50], [20, 40], [90, 60]), /^0.60× the speed with drafting \(fastest turns of 3; .*slower here$/);
  assert.match(words([100, 120], [100, 90], [99, 110]), /^No clear difference/);
});

test('ten comparisons of one prompt agree', () => {
  let state = 7; // a generator of its own: the same turns every time
  const random = () => (state = (state * 48271) % 2147483647) / 2147483647;
  const noise = () => Math.exp(0.12 * (random() + random() + random() + random() - 2)) ** 0.7; // turns differ by some 7 %
  const claims = (truth, busy) => Array.from({ length: 10 }, () => {
    const delay = () => (random() < busy ? 1 + 3 * random() : 1); // by other processes
    const words = speedWords(Array.from({ length: 5 }, () => ({ plain: 100 * noise() / delay(), drafted: 100 * truth * noise() / delay() })), 2, 'drafts');
    return /as fast/.test(words) ? 'faster' : /slower/.test(words) ? 'slower' : 'none';
  });
  for (const busy of [0, 0.2]) {
    assert.deepEqual(new Set(claims(1.8, busy)), new Set(['faster']));
    assert.deepEqual(new Set(claims(0.5, busy)), new Set(['slower']));
    for (const truth of [0.97, 1, 1.03]) assert.deepEqual(new Set(claims(truth, busy)), new Set(['none']), `${truth} ${busy}`);
  }
});

test('a difference is found wherever it is', () => {
  const answer = (content, more = {}) => ({ reasoning: '', content, calls: [], finish: 'stop', ...more });
  const at = (a, b) => compared(answer(...a), answer(...b));
  assert.deepEqual(at(['abc'], ['abc']), { same: true, at: -1 });
  assert.deepEqual(at(['abc'], ['abd']), { same: false, at: 2 });
  assert.deepEqual(at(['abc'], ['ab']), { same: false, at: 2 });
  assert.deepEqual(at(['abc'], ['abc', { finish: 'length' }]), { same: false, at: -1 });
  assert.deepEqual(at(['abc', { reasoning: 'x' }], ['abc', { reasoning: 'y' }]), { same: false, at: 0 });
  assert.equal(at(['a', { calls: [{ name: 'f', arguments: '1' }] }], ['a']).same, false);
  assert.match(textWords({ same: false, at: 2 }, 'drafts'), /from character 3 on.*must not happen/);
  assert.doesNotMatch(textWords({ same: false, at: 2 }, 'blocks'), /must not happen/);
});
