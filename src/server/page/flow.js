// SPDX-License-Identifier: Apache-2.0
// Writes a streamed text into an element, as markdown or as it stands: runs of drafted, unmasked and plain text. A block that is
// complete is never drawn again, lines of code and rows of tables are added one by one, and what is drawn does not depend on
// how the text was cut as it came. Everything goes in as text nodes.

import { blockNode, blockNodes, CodeLines, codeShell, Rows, tableShell } from './markdown/blocks.js';
import { begins, blockAt, closesFence, isBlank, linesOf, mayBeFence } from './markdown/lines.js';
import { node, update } from './markdown/tree.js';

const kClasses = ['', 'drafted even', 'drafted odd', 'unmasked even', 'unmasked odd'];

/** The last children of an element that may yet change. */
class Tail {
  constructor(dom, made) {
    this.dom = dom;
    this.made = made;
    this.open = [];
  }
  /** Puts `complete` and then `open` in their place; only the latter may be changed by the next call. */
  draw(complete, open) {
    update(this.dom, this.open, [...complete, ...open], this.made);
    this.open = open;
  }
}

export class Flow {
  /** `markdown`: whether the text is markdown; if not, it is shown as it stands. */
  constructor(root, { markdown = true } = {}) {
    this.root = root;
    this.markdown = markdown;
    this.clear();
  }

  clear() {
    this.root.replaceChildren();
    this.text = '';
    this.runs = []; // {from, attributes}: each to where the next begins
    this.key = '';
    this.at = 0; // what is before it has been drawn for good
    this.fresh = []; // unmasked runs since takeFresh()
    this.shownTo = 0;
    this.made = (one) => {
      if (one.at >= this.shownTo && one.attributes['data-pass']) this.fresh.push(one.dom);
    };
    this.blocks = new Tail(this.root, this.made);
    this.growing = null; // {tail, each, ends, hides}: the code or the table that lines are added to
    this.cut = (from, to) => this.runsOf(from, to);
  }

  /** `kind` 0: plain; 1 and 2: drafted, alternating by `block`; 3 and 4: unmasked by `pass` over their block. */
  write(text, kind, block, pass = 0) {
    // Empty lines at the start of an answer say nothing.
    if (this.text === '') text = text.replace(/^\n+/, '');
    if (text === '') return;
    const key = kind + '/' + (kind === 0 ? '' : block + '/' + pass);
    if (key !== this.key) {
      const attributes = kind === 0 ? null : { class: kClasses[kind] };
      if (pass > 0) Object.assign(attributes, { 'data-block': block, 'data-pass': pass, title: `Unmasked in pass ${pass} over its block` });
      this.runs.push({ from: this.text.length, attributes });
      this.key = key;
    }
    this.text += text;
  }

  /** The end of the text: what was held back until it was clear is shown. */
  end() {
    this.draw(true);
  }

  /** Draws what was written; the unmasked runs that are new since the last call. */
  takeFresh() {
    this.draw(false);
    const fresh = this.fresh;
    this.fresh = [];
    return fresh;
  }

  runsOf(from, to) {
    let low = 0;
    for (let high = this.runs.length; high - low > 1;) {
      const middle = (low + high) >> 1;
      if (this.runs[middle].from <= from) low = middle;
      else high = middle;
    }
    const found = [];
    for (let at = from; at < to; ++low) {
      const end = Math.min(to, this.runs[low + 1]?.from ?? to);
      found.push([at, end, this.runs[low].attributes]);
      at = end;
    }
    return found;
  }

  draw(closed) {
    if (!this.markdown && !this.growing && this.text !== '') this.growPlain();
    while (this.growing ? this.drawLines(closed) : this.drawBlocks(closed));
    this.shownTo = this.text.length;
  }

  growPlain() {
    const body = node('div', { class: 'prose' });
    this.blocks.draw([body], []);
    this.growing = { tail: new Tail(body.dom, this.made), each: new CodeLines({ info: '', indent: 0 }, this.cut), ends: () => false,
      hides: () => false };
  }

  growCode(complete, fence) {
    const { shell, body } = codeShell(fence);
    this.blocks.draw([...complete, shell], []);
    this.growing = {
      tail: new Tail(body.dom, this.made),
      each: new CodeLines(fence, this.cut),
      ends: (lines, i) => closesFence(lines[i], fence) && 'with it',
      hides: (line) => fence.mark.startsWith(line.text.trim()) || closesFence(line, fence),
    };
  }

  growTable(complete, head, alignments) {
    const { shell, body } = tableShell(head, alignments, this.cut);
    this.blocks.draw([...complete, shell], []);
    this.growing = {
      tail: new Tail(body.dom, this.made),
      each: new Rows(alignments, this.cut),
      ends: (lines, i) => (isBlank(lines[i]) || begins(lines, i, true)) && 'before it',
      hides: (line) => isBlank(line) || begins([line], 0, true),
    };
  }

  /** Adds lines to what grows. True if that ended, and something else may follow. */
  drawLines(closed) {
    const { tail, each, ends, hides } = this.growing;
    const lines = linesOf(this.text, this.at);
    const complete = [];
    let open = [];
    for (let i = 0; i < lines.length; ++i) {
      const line = lines[i];
      if (!line.whole && !closed) {
        if (!hides(line)) open = each.copy().line(line);
        break;
      }
      const how = ends(lines, i);
      this.at = how === 'before it' ? line.at : lines[i + 1]?.at ?? this.text.length;
      if (how) {
        tail.draw(complete, []);
        this.growing = null;
        return true;
      }
      complete.push(...each.line(line));
    }
    tail.draw(complete, open);
    return false;
  }

  /** Draws the blocks from `at` on. True if the last of them is one that lines are added to. */
  drawBlocks(closed) {
    const lines = linesOf(this.text, this.at);
    const whole = closed ? lines : lines.filter((line) => line.whole);
    const complete = [];
    let i = 0;
    while (i < whole.length) {
      const block = blockAt(whole, i);
      if (block.kind === 'code') {
        this.at = lines[i + 1]?.at ?? this.text.length;
        this.growCode(complete, block.fence);
        return true;
      }
      if (block.kind === 'table') {
        this.at = lines[i + 2]?.at ?? this.text.length;
        this.growTable(complete, whole[i], block.alignments);
        return true;
      }
      if (block.end === whole.length && !closed) break;
      if (block.kind !== 'blank') complete.push(blockNode(block, whole.slice(i, block.end), this.cut));
      i = block.end;
    }
    this.at = lines[i]?.at ?? this.text.length;
    const rest = lines.slice(i);
    if (rest.length > whole.length - i && mayBeFence(rest.at(-1))) rest.pop();
    this.blocks.draw(complete, blockNodes(rest, this.cut, 0));
    return false;
  }
}
