// SPDX-License-Identifier: Apache-2.0
// As much of a document as drawing an answer needs, for tests outside a browser.

class Node {
  parent = null;
  get siblings() {
    return this.parent.children;
  }
  remove() {
    this.siblings.splice(this.siblings.indexOf(this), 1);
    this.parent = null;
  }
  replaceWith(other) {
    other.parent = this.parent;
    this.siblings[this.siblings.indexOf(this)] = other;
    this.parent = null;
  }
}

class Text extends Node {
  constructor(data) {
    super();
    this.data = data;
  }
  appendData(text) {
    this.data += text;
  }
  get textContent() {
    return this.data;
  }
}

export class Element extends Node {
  constructor(tag) {
    super();
    this.tag = tag;
    this.attributes = new Map();
    this.children = [];
  }
  setAttribute(name, value) {
    this.attributes.set(name, value);
  }
  addEventListener() {}
  append(...nodes) {
    for (const one of nodes) {
      const node = typeof one === 'string' ? new Text(one) : one;
      node.parent = this;
      this.children.push(node);
    }
  }
  replaceChildren(...nodes) {
    this.children = [];
    this.append(...nodes);
  }
  get textContent() {
    return this.children.map((one) => one.textContent).join('');
  }
}

globalThis.document = { createElement: (tag) => new Element(tag), createTextNode: (text) => new Text(text) };

const kEscapes = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' };
const escaped = (text) => text.replace(/[&<>"]/g, (c) => kEscapes[c]);

/** HTML of an element's content. `skip(element)`: leaves it out, with what is in it; `bare(element)`: without its tags. */
export function serialise(element, { skip = () => false, bare = () => false } = {}) {
  return element.children.map((one) => {
    if (one instanceof Text) return escaped(one.data);
    if (skip(one)) return '';
    const inner = serialise(one, { skip, bare });
    if (bare(one)) return inner;
    const attributes = [...one.attributes].map(([name, value]) => ` ${name}="${escaped(value)}"`).join('');
    return `<${one.tag}${attributes}>${inner}${['br', 'hr'].includes(one.tag) ? '' : `</${one.tag}>`}`;
  }).join('');
}

/** How deep elements stand in each other. Without recursion: that is what it is to find out. */
export function depthOf(element) {
  let deepest = 0;
  for (const open = [[element, 0]]; open.length > 0;) {
    const [one, depth] = open.pop();
    deepest = Math.max(deepest, depth);
    for (const child of one.children ?? []) open.push([child, depth + 1]);
  }
  return deepest;
}
