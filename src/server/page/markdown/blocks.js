// SPDX-License-Identifier: Apache-2.0
// From lines to the tree of what is drawn (tree.js). Text keeps its place in the source, by which runs of tokens are tinted.

import { Highlighter } from './highlight.js';
import { parseInline } from './inline.js';
import { blockAt, cellsOf, isBlank, itemOf, strip } from './lines.js';
import { copyNode, node, textNode } from './tree.js';

const kMaxDepth = 8; // of lists and quotes within each other; deeper ones are text

/**
 * Draws [from, to) of the source, which reads `text`. `cut(from, to)` gives its runs: [from, to, attributes or null];
 * `extra` is a class for all of them.
 */
function pieces(cut, text, from, to, extra = '') {
  return cut(from, to).map(([a, b, attributes]) => {
    const words = textNode(text.slice(a - from, b - from));
    if (!attributes && !extra) return words;
    const names = [attributes?.class, extra].filter(Boolean).join(' ');
    return { ...node('span', { ...attributes, class: names }, [words]), at: a };
  });
}

/** What stands in lines, as one text: places in it become places in the source. */
class Joined {
  constructor(lines) {
    this.parts = []; // {start, at, length}: of the joined text, of the source
    let text = '';
    lines.forEach((line, i) => {
      const words = line.newline && i + 1 < lines.length ? line.text + '\n' : line.text;
      const last = this.parts.at(-1);
      if (last && last.at + last.length === line.at) last.length += words.length;
      else this.parts.push({ start: text.length, at: line.at, length: words.length });
      text += words;
    });
    this.text = text;
  }

  /** [a, b) of the joined text, drawn. Asked for from left to right only takes one walk. */
  draw(cut, a, b, extra) {
    let low = 0;
    for (let high = this.parts.length; high - low > 1;) {
      const middle = (low + high) >> 1;
      if (this.parts[middle].start <= a) low = middle;
      else high = middle;
    }
    const drawn = [];
    for (let i = low; i < this.parts.length && this.parts[i].start < b; ++i) {
      const { start, at, length } = this.parts[i];
      const [from, to] = [Math.max(a, start), Math.min(b, start + length)];
      if (from < to) drawn.push(...pieces(cut, this.text.slice(from, to), at + from - start, at + to - start, extra));
    }
    return drawn;
  }
}

function inlineNodes(kids, joined, cut) {
  return kids.flatMap((one) => {
    switch (one.tag) {
      case '': return joined.draw(cut, one.a, one.b);
      case 'br': return [node('br')];
      case 'image': return [textNode('Image: ')];
      case 'code': return [node('code', {}, joined.draw(cut, one.a, one.b))];
      case 'maths': return [node('span', { class: 'maths' }, joined.draw(cut, one.a, one.b))];
      case 'a': {
        const attributes = { href: one.href, rel: 'noopener noreferrer', target: '_blank', title: one.href };
        return [node('a', attributes, inlineNodes(one.kids, joined, cut))];
      }
      default: return [node(one.tag, {}, inlineNodes(one.kids, joined, cut))];
    }
  });
}

function inlineOf(lines, cut) {
  const joined = new Joined(lines);
  return inlineNodes(parseInline(joined.text), joined, cut);
}

function headingNode(line, cut) {
  const [all, marks] = /^ {0,3}(#{1,6})[ \t]*/.exec(line.text);
  let text = line.text.slice(all.length).trimEnd();
  let end = text.length;
  while (text[end - 1] === '#') end -= 1;
  if (end === 0 || /\s/.test(text[end - 1])) text = text.slice(0, end).trimEnd();
  const words = { text, at: line.at + all.length, newline: false };
  // The page has headings of its own above these.
  return node('h' + Math.min(6, marks.length + 2), {}, inlineOf([words], cut));
}

/** The first item, and the lines of each without what stands before them. */
function itemsOf(lines) {
  const first = itemOf(lines[0]);
  const items = [];
  let inner = 0;
  for (const line of lines) {
    const item = itemOf(line);
    if (item && item.kind === first.kind && item.indent < first.indent + 2) {
      inner = item.indent + (item.ordered ? 3 : 2);
      items.push([strip(line, 3, item.skip)]);
    } else {
      items.at(-1).push(strip(line, inner));
    }
  }
  return { first, items };
}

/** An item of a list. One that begins with [ ] or [x] is a task: a box that is empty or ticked, and nothing to press. */
function itemNode(lines, cut, depth) {
  const task = /^\[([ xX])\][ \t]+(?=\S)/.exec(lines[0].text);
  if (!task) return node('li', {}, blockNodes(lines, cut, depth + 1));
  const done = task[1] !== ' ';
  const box = node('span', { class: 'box', role: 'img', 'aria-label': done ? 'Done: ' : 'To do: ' }, [textNode(done ? '\u2611 ' : '\u2610 ')]);
  const kids = blockNodes([strip(lines[0], 0, task[0].length), ...lines.slice(1)], cut, depth + 1);
  // The box stands in the line of the item's first words.
  if (kids[0]?.tag === 'p') kids[0].kids.unshift(box);
  else kids.unshift(box);
  return node('li', { class: 'task' }, kids);
}

function listNode(lines, cut, depth) {
  const { first, items } = itemsOf(lines);
  const loose = items.some((item, i) => {
    const last = item.findLastIndex((line) => !isBlank(line));
    return item.slice(1, i + 1 < items.length ? item.length : last + 1).some(isBlank);
  });
  const attributes = first.ordered && first.number !== 1 ? { start: first.number } : {};
  if (loose) attributes.class = 'loose';
  return node(first.ordered ? 'ol' : 'ul', attributes, items.map((item) => itemNode(item, cut, depth)));
}

function rowNode(line, alignments, cut, tag) {
  const cells = cellsOf(line.text);
  // No text of a row is dropped: what is beyond the last column belongs to it.
  if (cells.length > alignments.length) cells[alignments.length - 1][1] = cells.at(-1)[1];
  return node('tr', {}, alignments.map((alignment, i) => {
    const [a, b] = cells[i] ?? [0, 0];
    const attributes = { ...(tag === 'th' ? { scope: 'col' } : {}), ...(alignment ? { class: 'to-' + alignment } : {}) };
    return node(tag, attributes, inlineOf([{ text: line.text.slice(a, b), at: line.at + a, newline: false }], cut));
  }));
}

/** The rows of a table after its first two lines, one after the other. */
export class Rows {
  constructor(alignments, cut) {
    this.alignments = alignments;
    this.cut = cut;
  }
  line(line) {
    return [rowNode(line, this.alignments, this.cut, 'td')];
  }
  copy() {
    return this;
  }
}

/** The table without its rows, and where they go. */
export function tableShell(head, alignments, cut) {
  const body = node('tbody');
  const thead = node('thead', {}, [rowNode(head, alignments, cut, 'th')]);
  const attributes = { class: 'scrolled', tabindex: '0', role: 'region', 'aria-label': 'Table' };
  return { shell: node('div', attributes, [node('table', {}, [thead, body])]), body };
}

/** Lines of code, one after the other. */
export class CodeLines {
  constructor({ info, indent }, cut, highlighter = new Highlighter(info)) {
    this.indent = indent;
    this.cut = cut;
    this.highlighter = highlighter;
  }
  line(line) {
    const { text, at, newline } = strip(line, this.indent);
    const drawn = this.highlighter.line(text).flatMap(([a, b, kind]) => pieces(this.cut, text.slice(a, b), at + a, at + b, kind));
    return newline ? [...drawn, textNode('\n')] : drawn;
  }
  copy() {
    return new CodeLines(this, this.cut, this.highlighter.copy());
  }
}

export function codeShell({ info }) {
  const body = node('code');
  const head = node('div', { class: 'code-head' }, [node('span', { class: 'language' }, [textNode(info.slice(0, 200) || 'code')]), copyNode()]);
  return { shell: node('div', { class: 'code' }, [head, node('pre', { tabindex: '0', 'aria-label': 'Code' }, [body])]), body };
}

function codeNode(lines, fence, closed, cut) {
  const { shell, body } = codeShell(fence);
  const each = new CodeLines(fence, cut);
  body.kids = lines.slice(1, closed ? -1 : lines.length).flatMap((line) => each.line(line));
  return shell;
}

function tableNode(lines, alignments, cut) {
  const { shell, body } = tableShell(lines[0], alignments, cut);
  const rows = new Rows(alignments, cut);
  body.kids = lines.slice(2).flatMap((line) => rows.line(line));
  return shell;
}

/** One block, as blockAt (lines.js) found it, with its lines; not a blank one. */
export function blockNode({ kind, fence, closed, alignments }, lines, cut, depth = 0) {
  switch (kind) {
    case 'heading': return headingNode(lines[0], cut);
    case 'rule': return node('hr');
    case 'code': return codeNode(lines, fence, closed, cut);
    case 'table': return tableNode(lines, alignments, cut);
    case 'quote': return node('blockquote', {}, blockNodes(lines.map((line) => strip(line, 1, line.text.indexOf('>') + 1)), cut, depth + 1));
    case 'list': return listNode(lines, cut, depth);
    default: return node('p', {}, inlineOf(lines, cut));
  }
}

export function blockNodes(lines, cut, depth) {
  if (depth > kMaxDepth) return lines.every(isBlank) ? [] : [node('p', {}, inlineOf(lines, cut))];
  const nodes = [];
  for (let i = 0; i < lines.length;) {
    const block = blockAt(lines, i);
    if (block.kind !== 'blank') nodes.push(blockNode(block, lines.slice(i, block.end), cut, depth));
    i = block.end;
  }
  return nodes;
}
