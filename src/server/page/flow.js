// Writes a streamed text into an element: runs of drafted and plain text, and fenced code in blocks of its own.
// Everything goes in as text nodes.

import { el } from './dom.js';

const kClasses = ['', 'drafted even', 'drafted odd'];

export class Flow {
  /** `fences`: whether lines of ``` start and end a code block. */
  constructor(root, { fences = true } = {}) {
    this.root = root;
    this.fences = fences;
    this.clear();
  }

  clear() {
    this.root.replaceChildren();
    this.code = false;
    this.lineStart = true;
    this.ticks = []; // kinds of the backticks at the start of a line, held back until it is clear what they are
    this.info = null; // what follows the backticks of a fence, while its line lasts
    this.target = null; // where text goes: a paragraph or the code of a block
    this.span = null; // the last run in it
    this.spanKey = '';
  }

  /** `kind` 0: plain; 1 and 2: drafted, alternating; `block` tells neighbours of one kind apart. */
  write(text, kind, block) {
    if (!this.fences) return this.put(text, kind, block);
    let plain = '';
    const flush = () => {
      if (plain !== '') this.put(plain, kind, block);
      plain = '';
    };
    for (const c of text) {
      if (this.info !== null) {
        if (c === '\n') this.switchBlock();
        else this.info += c;
        continue;
      }
      if (this.lineStart && c === '`') {
        flush();
        this.ticks.push({ kind, block });
        if (this.ticks.length === 3) {
          this.ticks = [];
          this.info = '';
        }
        continue;
      }
      this.release();
      plain += c;
      this.lineStart = c === '\n';
    }
    flush();
  }

  /** The end of the text: what was held back is shown. */
  end() {
    this.release();
  }

  release() {
    if (this.ticks.length === 0) return;
    const ticks = this.ticks;
    this.ticks = [];
    this.lineStart = false;
    for (const { kind, block } of ticks) this.put('`', kind, block);
  }

  switchBlock() {
    this.code = !this.code;
    this.target = null;
    if (this.code) {
      const code = el('code');
      const language = this.info.trim().slice(0, 24);
      this.root.append(el('div', { class: 'code' }, language ? el('span', { class: 'language' }, language) : null,
        el('pre', { tabindex: '0', 'aria-label': 'Code' }, code)));
      this.target = code;
    }
    this.info = null;
    this.lineStart = true;
    this.spanKey = '';
  }

  put(text, kind, block) {
    if (this.target === null) {
      this.target = el('div', { class: 'prose' });
      this.root.append(this.target);
      this.spanKey = '';
      if (this.root.childElementCount > 1) text = text.replace(/^\n+/, ''); // the line after a code block
    }
    if (text === '') return;
    const key = kind + '/' + (kind === 0 ? '' : block);
    if (key === this.spanKey) {
      this.span.appendData(text);
      return;
    }
    this.span = document.createTextNode(text);
    this.spanKey = key;
    this.target.append(kind === 0 ? this.span : el('span', { class: kClasses[kind] }, this.span));
  }
}
