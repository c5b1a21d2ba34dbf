// SPDX-License-Identifier: Apache-2.0
// Elements, storage and numbers for the other modules. Text enters the page as text nodes only, never as markup.

const kSvg = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function') node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

/** el('p', {class: 'note', click: f}, 'text', child): functions become listeners, strings become text. */
export const el = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(kSvg, tag), attributes, children);
/** Words for servers that draft, for models that fill blocks, and for servers without a drafter: the style sheet shows one. */
export const either = (drafts, blocks, plain = drafts) => () =>
  el('span', {}, el('span', { class: 'for-drafts' }, drafts), el('span', { class: 'for-blocks' }, blocks),
    el('span', { class: 'for-plain' }, plain));
/** Positions of a block; 0 where tokens come one after another. */
export const blockSize = () => Number(document.documentElement.dataset.blocks ?? 0);
/** Whether every pass of the model writes one token: there is no drafter, and no blocks are filled. */
export const isPlain = () => document.documentElement.dataset.plain !== undefined;
export const byId = (id) => document.getElementById(id);

/** Sets text only where it changes, so that readers and selections are left alone. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function button(label, action, attributes = {}) {
  return el('button', { type: 'button', class: 'quiet', click: action, ...attributes }, label);
}

/** JSON in a storage that may be full, switched off or filled by an older page. */
function store(area) {
  return {
    load(name, fallback) {
      try {
        const text = window[area].getItem('ashlar.' + name);
        return text === null ? fallback : JSON.parse(text);
      } catch {
        return fallback;
      }
    },
    drop(name) {
      try {
        window[area].removeItem('ashlar.' + name);
      } catch {
        // switched off: there is nothing to drop
      }
    },
    names() {
      try {
        return Object.keys(window[area]).filter((key) => key.startsWith('ashlar.')).map((key) => key.slice(7));
      } catch {
        return [];
      }
    },
    /** False if it could not be kept. */
    save(name, value) {
      try {
        window[area].setItem('ashlar.' + name, JSON.stringify(value));
        return true;
      } catch {
        return false;
      }
    },
  };
}
export const kept = store('localStorage');
export const keptForTab = store('sessionStorage');

const grouped = new Intl.NumberFormat('en');
export const count = (n) => grouped.format(n ?? 0);
export const fixed = (value, digits) => (Number.isFinite(value) ? value.toFixed(digits) : '–');
export const percent = (part, whole) => (whole > 0 ? Math.round((100 * part) / whole) + ' %' : '–');
export const speed = (value) => (Number.isFinite(value) ? (value < 100 ? value.toFixed(1) : count(Math.round(value))) : '–');
/** Milliseconds as 42 ms or 1.31 s. */
export const duration = (ms) => (Number.isFinite(ms) ? (ms < 1000 ? Math.round(ms) + ' ms' : (ms / 1000).toFixed(2) + ' s') : '–');

/** A seed that a double holds exactly. */
export const randomSeed = () => crypto.getRandomValues(new Uint32Array(1))[0];

/** Says something to screen readers, once. */
export function announce(text) {
  setText(byId('announcer'), '');
  setTimeout(() => setText(byId('announcer'), text), 50);
}

/** Copies, also where the page is served without TLS and the clipboard API is missing. */
async function toClipboard(text) {
  if (navigator.clipboard) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // not allowed: the old way may be
    }
  }
  const area = el('textarea', { class: 'offscreen', readonly: true, 'aria-hidden': 'true', tabindex: '-1' });
  area.value = text;
  const host = document.querySelector('dialog[open]') ?? document.body;
  const focused = document.activeElement;
  host.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  focused?.focus();
  return done;
}

/** A button that copies what `text` returns and says so in its place, without changing its width. */
export function copyButton(text, attributes = {}) {
  const label = el('span', {}, 'Copy');
  const node = button('', async () => {
    setText(label, (await toClipboard(text())) ? 'Copied' : 'No copy');
    announce(label.textContent);
    setTimeout(() => setText(label, 'Copy'), 1500);
  }, { ...attributes, class: 'quiet copy' });
  node.append(label);
  return node;
}
