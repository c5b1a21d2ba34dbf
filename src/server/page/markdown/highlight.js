// SPDX-License-Identifier: Apache-2.0
// Colours for code, line by line: comments, strings, numbers and the words of common languages. It knows no grammar, and
// what it takes for something else is only coloured so.

const kWords = {
  python: 'and as assert async await break class continue def del elif else except False finally for from global if import in is '
    + 'lambda match None nonlocal not or pass raise return self True try while with yield',
  script: 'as async await break case catch class const continue default delete do else enum export extends false finally for '
    + 'from function if implements import in instanceof interface let new null of return static super switch this throw true '
    + 'try type typeof undefined var void while yield',
  c: 'alignas auto bool break case catch char class const constexpr continue default delete do double else enum explicit extern '
    + 'false final float for fn friend func go goto if impl import inline int interface let long loop match mod mut namespace new '
    + 'nil noexcept nullptr null operator override package private protected pub public return self short signed sizeof static '
    + 'string struct switch template this throw trait true try type typedef typename union unsigned use using virtual void '
    + 'volatile while',
  shell: 'case do done elif else esac exit export fi for function if in local return set source then unset until while',
  sql: 'add all alter and as asc begin between by case commit create delete desc distinct drop else end exists foreign from full '
    + 'group having in index inner insert into is join key left like limit not null on or order outer primary references right '
    + 'select set table then union update values view when where with',
  data: 'true false null yes no on off',
};

const kNumber = '(?<number>\\b\\d[\\w.]*)';
const kWord = '(?<word>[A-Za-z_]\\w*)';
const kString = '(?<string>"(?:[^"\\\\]|\\\\.)*"?|\'(?:[^\'\\\\]|\\\\.)*\'?)';

/** `blocks`: what opens something that may end some lines later, what closes it, and its class. */
function family(words, comment, { blocks = [], string = kString, anyCase = false, extra = '' } = {}) {
  const openers = blocks.map(([open]) => open.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'));
  const parts = [openers.length > 0 ? `(?<block>${openers.join('|')})` : '', comment ? `(?<comment>${comment}.*)` : '', extra, string,
    kNumber, kWord];
  return { words: new Set(words.split(' ')), anyCase, pattern: new RegExp(parts.filter(Boolean).join('|'), 'g'),
    blocks: new Map(blocks.map(([open, close, kind]) => [open, { close, kind }])) };
}

const kBraces = [['/*', '*/', 'comment']];
const kFamilies = {
  python: family(kWords.python, '#', { blocks: [['"""', '"""', 'string'], ["'''", "'''", 'string']] }),
  script: family(kWords.script, '//', { blocks: [...kBraces, ['`', '`', 'string']] }),
  c: family(kWords.c, '//', { blocks: kBraces, extra: '(?<keyword>^[ \\t]*#[ \\t]*\\w+)' }),
  shell: family(kWords.shell, '(?<![\\w$])#', { extra: '(?<name>\\$\\w+|\\$\\{[^}]*\\}?)' }),
  sql: family(kWords.sql, '--', { blocks: kBraces, anyCase: true }),
  data: family(kWords.data, '#', { extra: '(?<name>^[ \\t]*[-\\w."]+(?=[ \\t]*[:=]))' }),
  json: family('true false null', '', { extra: '(?<name>"(?:[^"\\\\]|\\\\.)*"(?=[ \\t]*:))' }),
  markup: family('', '', { blocks: [['<!--', '-->', 'comment']], extra: '(?<keyword></?[A-Za-z][\\w:-]*|/?>)' }),
};
const kLanguages = {
  python: 'python py python3 pycon', script: 'javascript js jsx mjs typescript ts tsx', shell: 'bash sh shell zsh console fish',
  c: 'c h cpp c++ cc cxx hpp cuda cu rust rs go golang java kotlin kt swift cs csharp c# scala dart zig php', sql: 'sql sqlite mysql',
  data: 'yaml yml toml ini conf dockerfile makefile cmake', json: 'json jsonl json5', markup: 'html xml svg xhtml vue',
};
const kByName = new Map(Object.entries(kLanguages).flatMap(([name, all]) => all.split(' ').map((one) => [one, kFamilies[name]])));

export class Highlighter {
  /** `info`: what follows the fence. A language that is not known stays without colours. */
  constructor(info) {
    this.family = kByName.get(info.trim().split(/[\s,{]/)[0].toLowerCase());
    this.inside = null; // {close, kind} of what began in a line before
  }

  copy() {
    const other = new Highlighter('');
    other.family = this.family;
    other.inside = this.inside;
    return other;
  }

  /** The pieces of the next line: [from, to, class], all of it in their order; '' has no colour. */
  line(text) {
    if (!this.family) return text === '' ? [] : [[0, text.length, '']];
    const pieces = [];
    let at = 0;
    const put = (to, kind) => {
      if (to <= at) return;
      if (pieces.length > 0 && pieces.at(-1)[2] === kind) pieces.at(-1)[1] = to;
      else pieces.push([at, to, kind]);
      at = to;
    };
    const finish = (from) => {
      const { close, kind } = this.inside;
      const end = text.indexOf(close, from);
      put(end < 0 ? text.length : end + close.length, 'hl-' + kind);
      if (end >= 0) this.inside = null;
    };
    if (this.inside) finish(0);
    const { pattern, blocks, words, anyCase } = this.family;
    while (at < text.length) {
      pattern.lastIndex = at;
      const found = pattern.exec(text);
      if (!found) break;
      put(found.index, '');
      const [kind] = Object.entries(found.groups).find(([, value]) => value !== undefined);
      if (kind === 'block') {
        this.inside = blocks.get(found[0]);
        finish(at + found[0].length);
        continue;
      }
      const known = words.has(anyCase ? found[0].toLowerCase() : found[0]);
      put(found.index + found[0].length, kind === 'word' ? (known ? 'hl-keyword' : '') : 'hl-' + kind);
    }
    put(text.length, '');
    return pieces;
  }
}
