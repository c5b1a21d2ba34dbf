// SPDX-License-Identifier: Apache-2.0
// Emphasis, code, links and maths within a paragraph: from a string to a tree of places in it. One walk with a stack of what
// is open, which has a limit, so that no text takes long or nests deeply. What is not understood stays as it is written.

const kMaxOpen = 16; // emphasis and brackets that are open at once; more are text
const kMaxAddress = 2048;
const kMaxMaths = 1000;
const kMaxParentheses = 8; // within an address

const kSpecial = /[\\`$<[\]*_~]|!\[|https?:\/\//gi;
const kPunctuation = /[\p{P}\p{S}]/u;
const kAddress = /^(?:https?:\/\/|mailto:)[^\s\p{Cc}]+$/iu;
const kAutolink = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2048})>/iy;
const kBareAddress = /https?:\/\/[^\s<>"'`|]{1,2048}/iy;
const kLineBreak = /<br[ \t]*\/?>/iy;

/** Whether the page links to it: no other scheme than these leads out of it, and none runs anything. */
export const isLink = (address) => address.length <= kMaxAddress && kAddress.test(address);

const isSpace = (c) => c === undefined || /\s/.test(c);
const isPunctuation = (c) => c !== undefined && kPunctuation.test(c);

class Inline {
  constructor(s) {
    this.s = s;
    this.frames = [{ c: '', n: 0, a: 0, kids: [] }]; // what is open, outermost first: its delimiters [a, a + n) and what follows
    this.unclosed = new Set(); // lengths of runs of backticks that no later run closes
    this.found = new Map(); // where the ends of maths are
  }

  get top() {
    return this.frames.at(-1);
  }

  text(a, b, kids = this.top.kids) {
    if (a === b) return;
    const last = kids.at(-1);
    if (last && last.tag === '' && last.b === a) last.b = b;
    else kids.push({ tag: '', a, b });
  }

  /** The innermost one was not closed: its delimiters are text. */
  give() {
    const { a, n, kids } = this.frames.pop();
    this.text(a, a + n);
    for (const kid of kids) {
      if (kid.tag === '') this.text(kid.a, kid.b);
      else this.top.kids.push(kid);
    }
  }

  code(i) {
    let n = 1;
    while (this.s[i + n] === '`') n += 1;
    if (!this.unclosed.has(n)) {
      const runs = /`+/g;
      runs.lastIndex = i + n;
      for (let run = runs.exec(this.s); run; run = runs.exec(this.s)) {
        if (run[0].length !== n) continue;
        let [a, b] = [i + n, run.index];
        if (b - a > 2 && this.s[a] === ' ' && this.s[b - 1] === ' ' && this.s.slice(a, b).trim() !== '') [a, b] = [a + 1, b - 1];
        this.top.kids.push({ tag: 'code', a, b });
        return run.index + n;
      }
      this.unclosed.add(n);
    }
    this.text(i, i + n);
    return i + n;
  }

  /** Where `text` stands next from `from` on, or -1. What was found or not found is not looked for again. */
  next(text, from) {
    let at = this.found.get(text) ?? -2;
    if (at !== -1 && at < from) {
      at = this.s.indexOf(text, from);
      this.found.set(text, at);
    }
    return at;
  }

  /** Maths as it is written: neither its stars nor its underscores are emphasis. 0 if there is none. */
  maths(i, open, close) {
    const a = i + open.length;
    const b = this.next(close, a);
    if (b <= a || b - a > kMaxMaths) return 0;
    // Prices are none: $5 and $6.
    if (open === '$' && (isSpace(this.s[a]) || isSpace(this.s[b - 1]) || /[0-9]/.test(this.s[b + 1] ?? ''))) return 0;
    this.top.kids.push({ tag: 'maths', a: i, b: b + close.length });
    return b + close.length;
  }

  backslash(i) {
    const next = this.s[i + 1];
    if (next === '(' || next === '[') {
      const end = this.maths(i, '\\' + next, next === '(' ? '\\)' : '\\]');
      if (end > 0) return end;
    }
    if (next !== undefined && /[!-/:-@[-`{-~\n]/.test(next)) {
      this.text(i + 1, i + 2);
      return i + 2;
    }
    this.text(i, i + 1);
    return i + 1;
  }

  dollar(i) {
    const end = this.s[i + 1] === '$' ? this.maths(i, '$$', '$$') : this.maths(i, '$', '$');
    if (end > 0) return end;
    this.text(i, i + 1);
    return i + 1;
  }

  angle(i) {
    kAutolink.lastIndex = i;
    const link = kAutolink.exec(this.s);
    if (link && isLink(link[1]) && !this.inBracket()) {
      this.top.kids.push({ tag: 'a', href: link[1], kids: [{ tag: '', a: i + 1, b: kAutolink.lastIndex - 1 }] });
      return kAutolink.lastIndex;
    }
    kLineBreak.lastIndex = i;
    if (kLineBreak.test(this.s)) {
      this.top.kids.push({ tag: 'br' });
      return kLineBreak.lastIndex;
    }
    this.text(i, i + 1);
    return i + 1;
  }

  inBracket() {
    return this.frames.some(({ c }) => c === '[');
  }

  bare(i) {
    kBareAddress.lastIndex = i;
    const found = kBareAddress.exec(this.s);
    if (!found || this.inBracket() || /[\p{L}\p{N}]/u.test(this.s[i - 1] ?? '')) {
      this.text(i, i + 4);
      return i + 4;
    }
    // What ends a sentence, closes a bracket or an emphasis around it is not part of it.
    let end = i + found[0].length;
    let open = found[0].split('(').length - found[0].split(')').length;
    while (/[.,:;!?*_~\])]/.test(this.s[end - 1])) {
      if (this.s[end - 1] === ')') {
        if (open >= 0) break;
        open += 1;
      }
      end -= 1;
    }
    const href = this.s.slice(i, end);
    if (isLink(href)) this.top.kids.push({ tag: 'a', href, kids: [{ tag: '', a: i, b: end }] });
    else this.text(i, end);
    return end;
  }

  /** (address "title") from `i` on: [address, end], or null. */
  target(i) {
    if (this.s[i] !== '(') return null;
    const at = (pattern, from) => {
      pattern.lastIndex = from;
      return pattern.exec(this.s);
    };
    let from = at(/\s{0,9}/y, i + 1)[0].length + i + 1;
    const pointed = at(/<([^<>\n]{0,2048})>/y, from);
    let address;
    if (pointed) {
      address = pointed[1];
      from += pointed[0].length;
    } else {
      let open = 0;
      let end = from;
      for (; end < from + kMaxAddress && end < this.s.length && !/\s/.test(this.s[end]); ++end) {
        if (this.s[end] === '(' && ++open > kMaxParentheses) return null;
        if (this.s[end] === ')' && --open < 0) break;
      }
      address = this.s.slice(from, end);
      from = end;
    }
    const rest = at(/(?:\s{1,9}(?:"[^"\n]{0,500}"|'[^'\n]{0,500}'))?\s{0,9}\)/y, from);
    return rest ? [address, from + rest[0].length] : null;
  }

  closeBracket(i) {
    const at = this.frames.findLastIndex(({ c }) => c === '[');
    if (at < 0) {
      this.text(i, i + 1);
      return i + 1;
    }
    while (this.frames.length - 1 > at) this.give();
    const { a, n, kids, inLink } = this.top;
    const target = inLink ? null : this.target(i + 1);
    if (!target || !isLink(target[0]) || kids.length === 0) {
      this.give();
      // An address that leads nowhere from here is shown with its label, as it was written.
      const end = target ? target[1] : i + 1;
      this.text(i, end);
      return end;
    }
    this.frames.pop();
    // An image would be fetched from elsewhere, which this page never does: it becomes a link.
    const label = n === 2 ? [{ tag: 'image' }, ...kids] : kids;
    this.top.kids.push({ tag: 'a', href: target[0], kids: label, a });
    for (const frame of this.frames) if (frame.c === '[') frame.inLink = true; // a link has no links around it
    return target[1];
  }

  emphasis(i) {
    const c = this.s[i];
    let end = i + 1;
    while (this.s[end] === c) end += 1;
    let n = end - i;
    if (c === '~' ? n !== 2 : n > 3) {
      this.text(i, end);
      return end;
    }
    const [before, after] = [this.s[i - 1], this.s[end]];
    const left = !isSpace(after) && (!isPunctuation(after) || isSpace(before) || isPunctuation(before));
    const right = !isSpace(before) && (!isPunctuation(before) || isSpace(after) || isPunctuation(after));
    const opens = left && (c !== '_' || !right || isPunctuation(before));
    const closes = right && (c !== '_' || !left || isPunctuation(after));
    while (closes && n > 0) {
      const floor = this.frames.findLastIndex((frame) => frame.c === '[');
      const at = this.frames.findLastIndex((frame, k) => k > floor && frame.c === c
        && !((frame.both || opens) && (frame.n + n) % 3 === 0 && (frame.n % 3 !== 0 || n % 3 !== 0)));
      if (at < 0) break;
      while (this.frames.length - 1 > at) this.give();
      const frame = this.top;
      const use = Math.min(2, frame.n, n);
      const node = { tag: use === 1 ? 'em' : c === '~' ? 'del' : 'strong', kids: frame.kids };
      frame.n -= use;
      n -= use;
      if (frame.n > 0) {
        frame.kids = [node];
        continue;
      }
      this.frames.pop();
      this.top.kids.push(node);
    }
    if (n > 0 && opens && this.frames.length < kMaxOpen) this.frames.push({ c, n, a: end - n, kids: [], both: closes });
    else this.text(end - n, end);
    return end;
  }

  bracket(i, n) {
    if (this.frames.length < kMaxOpen) this.frames.push({ c: '[', n, a: i, kids: [] });
    else this.text(i, i + n);
    return i + n;
  }

  special(i) {
    switch (this.s[i]) {
      case '\\': return this.backslash(i);
      case '`': return this.code(i);
      case '$': return this.dollar(i);
      case '<': return this.angle(i);
      case '[': return this.bracket(i, 1);
      case '!': return this.bracket(i, 2);
      case ']': return this.closeBracket(i);
      case '*': case '_': case '~': return this.emphasis(i);
      default: return this.bare(i);
    }
  }

  parse() {
    let i = 0;
    while (i < this.s.length) {
      kSpecial.lastIndex = i;
      const next = kSpecial.exec(this.s)?.index ?? this.s.length;
      this.text(i, next);
      i = next < this.s.length ? this.special(next) : next;
    }
    while (this.frames.length > 1) this.give();
    return this.frames[0].kids;
  }
}

/**
 * The nodes of a text: {tag: '', a, b} is [a, b) of it as it stands; 'code' and 'maths' too; 'em', 'strong', 'del' and 'a' (with
 * href) have kids; 'br' and 'image' (the sign of one) have nothing.
 */
export const parseInline = (s) => new Inline(s).parse();
