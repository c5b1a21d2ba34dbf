// Writes a streamed text into an element: runs of drafted, unmasked and plain text, and fenced code in blocks of its own.
// Everything goes in as text nodes.

import { el } from './dom.js';

const kClasses = ['', 'drafted even', 'drafted odd', 'unmasked even', 'unmasked odd'];

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
    this.held = []; // line ends, and backticks at the start of a line, until it is clear whether a fence follows
    this.ticks = 0; // backticks among them
    this.info = null; // what follows the backticks of a fence, while its line lasts
    this.target = null; // where text goes: a paragraph or the code of a block
    this.span = null; // the last run in it
    this.spanKey = '';
    this.fresh = []; // unmasked runs since takeFresh()
  }

  /** `kind` 0: plain; 1 and 2: drafted, alternating by `block`; 3 and 4: unmasked by `pass` over their block. */
  write(text, kind, block, pass = 0) {
    if (!this.fences) return this.put(text, kind, block, pass);
    let plain = '';
    const flush = () => {
      if (plain !== '') this.put(plain, kind, block, pass);
      plain = '';
    };
    for (const c of text) {
      if (this.info !== null) {
        if (c === '\n') this.switchBlock();
        else this.info += c;
        continue;
      }
      const tick = this.lineStart && c === '`';
      if (!tick && c !== '\n') {
        this.release();
        plain += c;
        this.lineStart = false;
        continue;
      }
      flush();
      if (c === '\n' && this.ticks > 0) this.release();
      this.held.push({ c, kind, block, pass });
      this.lineStart = true;
      if (tick && ++this.ticks === 3) {
        this.info = '';
        this.held = [];
        this.ticks = 0;
      }
    }
    flush();
  }

  /** The end of the text: backticks that were held back are shown. */
  end() {
    if (this.ticks > 0) this.release();
    if (this.info && !this.code) this.put('```' + this.info, 0, 0, 0);
    this.info = null;
  }

  release() {
    const held = this.held;
    this.held = [];
    this.ticks = 0;
    for (const { c, kind, block, pass } of held) this.put(c, kind, block, pass);
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

  /** Unmasked runs that were written since the last call. */
  takeFresh() {
    const fresh = this.fresh;
    this.fresh = [];
    return fresh;
  }

  put(text, kind, block, pass) {
    if (this.target === null) {
      this.target = el('div', { class: 'prose' });
      this.root.append(this.target);
      this.spanKey = '';
    }
    // No empty lines at the start and after a code block, whose margins are space enough.
    if (!this.code && !this.target.hasChildNodes()) text = text.replace(/^\n+/, '');
    if (text === '') return;
    const key = kind + '/' + (kind === 0 ? '' : block + '/' + pass);
    if (key === this.spanKey) {
      this.span.appendData(text);
      return;
    }
    this.span = document.createTextNode(text);
    this.spanKey = key;
    if (kind === 0) return this.target.append(this.span);
    const run = el('span', { class: kClasses[kind] }, this.span);
    if (pass > 0) {
      run.dataset.block = block;
      run.dataset.pass = pass;
      run.title = `Unmasked in pass ${pass} over its block`;
      this.fresh.push(run);
    }
    this.target.append(run);
  }
}
