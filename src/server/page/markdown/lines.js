// SPDX-License-Identifier: Apache-2.0
// Which lines of a text belong together: paragraphs, headings, lists, quotes, code and tables. A line is {text, at, newline}:
// `at` is its place in the whole text, however much of its start was taken off.

const kMaxLine = 8192; // a longer line is several
const kMaxBlock = 32_768; // a longer block ends: it is drawn anew each time it grows

const kHeading = /^ {0,3}#{1,6}(?:[ \t]|$)/;
const kRule = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const kQuote = /^ {0,3}>/;
const kItem = /^([ \t]*)([-*+]|\d{1,9}[.)])([ \t]+|$)/;
const kFence = /^([ \t]*)(`{3,}(?=[^`]*$)|~{3,})(.*)$/;
const kDelimiters = /^\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$/; // without the space around it

export const isBlank = ({ text }) => text.trim() === '';

/** Lines of `text` from `from` on. The last one may have no end yet; one that is cut for its length has none either. */
export function linesOf(text, from) {
  const lines = [];
  for (let at = from; at < text.length;) {
    const newline = text.indexOf('\n', at);
    const end = newline < 0 ? text.length : newline;
    for (; end - at > kMaxLine; at += kMaxLine) lines.push({ text: text.slice(at, at + kMaxLine), at, newline: false, whole: true });
    lines.push({ text: text.slice(at, end), at, newline: newline >= 0, whole: newline >= 0 });
    at = end + 1;
  }
  return lines;
}

export function indentOf(text) {
  let columns = 0;
  for (const c of text) {
    if (c === ' ') columns += 1;
    else if (c === '\t') columns += 4;
    else break;
  }
  return columns;
}

/** The line without its first `columns` of white space at most, or without its first `skip` characters. */
export function strip({ text, at, newline }, columns, skip = 0) {
  let i = skip;
  for (let left = columns; left > 0 && i < text.length; ++i) {
    if (text[i] === ' ') left -= 1;
    else if (text[i] === '\t') left -= 4;
    else break;
  }
  return { text: text.slice(i), at: at + i, newline };
}

export function fenceOf({ text }) {
  const found = kFence.exec(text);
  return found && { indent: indentOf(found[1]), mark: found[2], info: found[3].trim() };
}
export function closesFence({ text }, { mark, indent }) {
  const found = text.trim();
  return indentOf(text) <= indent + 3 && found.length >= mark.length && found[0] === mark[0] && found === mark[0].repeat(found.length);
}
/** Whether a line without an end may yet become a fence, so that nothing is shown of it. */
export const mayBeFence = ({ text }) => /^[ \t]*(?:`{1,2}|~{1,2}|`{3,}[^`]*|~{3,}.*)$/.test(text);

export function itemOf({ text }) {
  const found = kRule.test(text) ? null : kItem.exec(text);
  if (!found) return null;
  const [, space, mark, gap] = found;
  const ordered = mark.length > 1;
  return { indent: indentOf(space), skip: space.length + mark.length + Math.min(gap.length, 1), kind: ordered ? mark.at(-1) : mark,
    ordered, number: ordered ? Number(mark.slice(0, -1)) : 0, empty: found[0].length === text.length };
}

const kMaxColumns = 64;

/** Cells of a row of a table: [from, to] in its text, without the space around them. A | in code or after \ is none between. */
export function cellsOf(text) {
  const cells = [];
  let from = /^[ \t]*\|?/.exec(text)[0].length;
  const put = (end) => {
    let [a, b] = [from, end];
    while (a < b && /\s/.test(text[a])) a += 1;
    while (b > a && /\s/.test(text[b - 1])) b -= 1;
    cells.push([a, b]);
    from = end + 1;
  };
  let inCode = false;
  for (let i = from; i < text.length; ++i) {
    if (text[i] === '\\') i += 1;
    else if (text[i] === '`') inCode = !inCode && text.includes('`', i + 1);
    else if (text[i] === '|' && !inCode && cells.length < kMaxColumns - 1) put(i);
  }
  if (text.slice(from).trim() !== '') put(text.length);
  return cells;
}

/** The alignments of a table that begins with these two lines ('', 'left', 'center' or 'right' each), or null. */
export function tableOf(head, delimiters) {
  if (!head || !delimiters || !head.text.includes('|') || !kDelimiters.test(delimiters.text.trim())) return null;
  const marks = cellsOf(delimiters.text).map(([a, b]) => delimiters.text.slice(a, b));
  if (marks.length !== cellsOf(head.text).length) return null;
  return marks.map((mark) => (mark.endsWith(':') ? (mark.startsWith(':') ? 'center' : 'right') : mark.startsWith(':') ? 'left' : ''));
}

/** Whether line `i` begins something, also within a paragraph; within a table no other one does. */
export function begins(lines, i, inTable = false) {
  const line = lines[i];
  if (kHeading.test(line.text) || kRule.test(line.text) || kQuote.test(line.text) || fenceOf(line)) return true;
  const item = itemOf(line);
  if (item && !item.empty && (!item.ordered || item.number === 1)) return true;
  return !inTable && tableOf(line, lines[i + 1]) !== null;
}

function endOfList(lines, i) {
  const first = itemOf(lines[i]);
  const belongs = (line) => {
    if (indentOf(line.text) >= first.indent + 2) return true;
    return itemOf(line)?.kind === first.kind;
  };
  for (let j = i + 1; j < lines.length; ++j) {
    if (isBlank(lines[j])) {
      const next = endWhile(lines, j, (k) => isBlank(lines[k]));
      if (next === lines.length) return next;
      if (!belongs(lines[next])) return j;
      j = next;
    } else if (!belongs(lines[j]) && (begins(lines, j) || itemOf(lines[j]))) {
      return j;
    }
  }
  return lines.length;
}

function endWhile(lines, i, goesOn) {
  let j = i + 1;
  while (j < lines.length && goesOn(j)) j += 1;
  return j;
}

/** The block that begins with line `i`: its kind, and the line after its last. */
export function blockAt(lines, i) {
  const line = lines[i];
  const fence = fenceOf(line);
  if (isBlank(line)) return { kind: 'blank', end: i + 1 };
  if (fence) {
    const close = endWhile(lines, i, (j) => !closesFence(lines[j], fence));
    return { kind: 'code', fence, closed: close < lines.length, end: Math.min(close + 1, lines.length) };
  }
  if (kHeading.test(line.text)) return { kind: 'heading', end: i + 1 };
  if (kRule.test(line.text)) return { kind: 'rule', end: i + 1 };
  if (kQuote.test(line.text)) return limited(lines, i, 'quote', endWhile(lines, i, (j) => kQuote.test(lines[j].text)));
  if (itemOf(line)) return limited(lines, i, 'list', endOfList(lines, i));
  const alignments = tableOf(line, lines[i + 1]);
  if (alignments) return { kind: 'table', alignments, end: endWhile(lines, i + 1, (j) => !isBlank(lines[j]) && !begins(lines, j, true)) };
  return limited(lines, i, 'paragraph', endWhile(lines, i, (j) => !isBlank(lines[j]) && !begins(lines, j)));
}

function limited(lines, i, kind, end) {
  let j = i + 1;
  while (j < end && lines[j].at - lines[i].at < kMaxBlock) j += 1;
  return { kind, end: j };
}
