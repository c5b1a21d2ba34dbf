// SPDX-License-Identifier: Apache-2.0
// A block forming: its texts appear in the order in which passes of the model unmasked them, not from left to right.

const kPassMs = 90;
const kMinMs = 160; // what fills faster than this cannot be seen
const kMaxMs = 1200;
const kMaxReplayMs = 15_000;

const still = matchMedia('(prefers-reduced-motion: reduce)');
export const moves = () => !still.matches;

/** Lets runs (elements with data-block and data-pass) appear within `ms`, block after block and pass after pass. */
export function form(runs, ms, most = kMaxMs) {
  if (runs.length === 0 || !moves()) return;
  const passes = new Map(); // by block, in order
  for (const { dataset } of runs) passes.set(dataset.block, Math.max(passes.get(dataset.block) ?? 0, Number(dataset.pass)));
  const before = new Map();
  let total = 0;
  for (const [block, n] of passes) {
    before.set(block, total);
    total += n;
  }
  const each = Math.min(Math.max(ms, kMinMs), most) / total;
  for (const run of runs) {
    run.classList.remove('forming');
    run.style.animationDelay = ((before.get(run.dataset.block) + Number(run.dataset.pass) - 1) * each).toFixed(0) + 'ms';
  }
  runs[0].getBoundingClientRect(); // an animation that is to start anew must have been gone
  for (const run of runs) {
    run.classList.add('forming');
    run.addEventListener('animationend', () => run.classList.remove('forming'), { once: true });
  }
}

/** The same, slowly enough to be followed. */
export const replay = (runs) => form(runs, runs.length * kPassMs, kMaxReplayMs);
