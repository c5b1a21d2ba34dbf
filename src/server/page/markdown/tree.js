// SPDX-License-Identifier: Apache-2.0
// From a tree of plain objects to elements: what is there already stays, so that a growing answer neither flickers nor loses
// its selection. Text becomes text nodes, and only these tags and attributes ever reach the page.

import { copyButton } from '../dom.js';

const kTags = new Set(['a', 'blockquote', 'br', 'code', 'del', 'div', 'em', 'h3', 'h4', 'h5', 'h6', 'hr', 'li', 'ol', 'p', 'pre', 'span',
  'strong', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul']);
const kAttributes = new Set(['class', 'href', 'rel', 'target', 'start', 'title', 'tabindex', 'aria-label', 'role', 'data-block',
  'data-pass', 'scope']);

/** An element to be: `kids` are such objects too. */
export const node = (tag, attributes = {}, kids = []) => ({ tag, attributes, kids, dom: null });
export const textNode = (text) => ({ tag: '', text, dom: null });
/** A button that copies the code it stands with. */
export const copyNode = () => ({ tag: 'copy', kids: [], dom: null });

function same(a, b) {
  if (a.tag !== b.tag) return false;
  if (a.tag === '' || a.tag === 'copy') return true;
  const names = Object.keys(b.attributes);
  return names.length === Object.keys(a.attributes).length && names.every((name) => a.attributes[name] === b.attributes[name]);
}

function make(one, made) {
  if (one.tag === '') {
    one.dom = document.createTextNode(one.text);
    return one.dom;
  }
  if (one.tag === 'copy') {
    one.dom = copyButton(() => one.dom.closest('.code').querySelector('code').textContent, { 'aria-label': 'Copy this code' });
    return one.dom;
  }
  if (!kTags.has(one.tag)) throw new Error('no such tag: ' + one.tag);
  one.dom = document.createElement(one.tag);
  for (const [name, value] of Object.entries(one.attributes)) {
    if (!kAttributes.has(name)) throw new Error('no such attribute: ' + name);
    one.dom.setAttribute(name, String(value));
  }
  made(one);
  one.dom.append(...one.kids.map((kid) => make(kid, made)));
  return one.dom;
}

function keep(old, now, made) {
  now.dom = old.dom;
  if (now.tag !== '') return update(now.dom, old.kids, now.kids, made);
  if (now.text === old.text) return;
  if (now.text.startsWith(old.text)) now.dom.appendData(now.text.slice(old.text.length));
  else now.dom.data = now.text;
}

/** Makes the last children of `parent`, which are `old`, into `now`. `made` is called for each element that is new. */
export function update(parent, old, now, made) {
  now.forEach((one, i) => {
    if (i >= old.length) parent.append(make(one, made));
    else if (same(old[i], one)) keep(old[i], one, made);
    else old[i].dom.replaceWith(make(one, made));
  });
  for (const gone of old.slice(now.length)) gone.dom.remove();
}
