// SPDX-License-Identifier: Apache-2.0
// How the page draws answers, outside a browser: run_markdown puts the page's modules next to this file and runs it with node.
//     node markdown_test.mjs GOLDENS

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { depthOf, Element, serialise } from './fake_dom.mjs';
import { Flow } from './page/flow.js';
import { isLink } from './page/markdown/inline.js';

const kGoldens = JSON.parse(readFileSync(process.env.ASHLAR_MARKDOWN_GOLDENS, 'utf8')).cases;

/** Writes `parts`, [text, kind, block, pass] each, with a drawing after every part. */
function drawn(parts, options) {
  const root = new Element('div');
  const flow = new Flow(root, options);
  for (const part of parts) {
    flow.write(...part);
    flow.takeFresh();
  }
  flow.end();
  return root;
}
const ofText = (text) => drawn([[text, 0, 0]]);

/** As the goldens are: no paragraphs, which tight lists lack there, nothing around code, and no attributes but these. */
function plainForm(root) {
  const has = (one, name) => (one.attributes.get('class') ?? '').split(' ').includes(name);
  const html = serialise(root, {
    skip: (one) => has(one, 'code-head'),
    bare: (one) => ['div', 'span'].includes(one.tag),
  });
  return html.replace(/<p>/g, '').replace(/<\/p>/g, '\n').replace(/\n\n+/g, '\n').replace(/<a href="([^"]*)"[^>]*>/g, '<a href="$1">').replace(/<pre [^>]*>/g, '<pre>').replace(/ scope="col"/g, '')
    .replace(/<([uo]l)([^>]*) class="loose">/g, '<$1$2>').replace(/\s*\n\s*(?=<|$)|(?<=>)\n\s*/g, '')
    .replace(/<(tbody)><\/tbody>/g, '');
}

test('is what markdown-it makes of the same text', () => {
  for (const [text, html] of kGoldens) assert.equal(plainForm(ofText(text)), html, text);
});

/** Numbers of a sequence that is the same each time. */
function numbers(seed) {
  let state = seed;
  return (n) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >> 8) % n;
  };
}
const kBits = ['[ ] ', '- [x] ', '*', '**', '_', '`', '```', '```py\n', '~~', '[', '](', 'https://a.example', ')', '\n', '\n', '\n\n', '- ', '  ', '1. ', '2) ',
  '> ', '# ', '|', '|-|-|\n', '---', '$', '\\', '\\(', '<br>', 'word', ' ', 'two words', 'π', '"', '0.5', 'def f(): # x', '"""', '/*', '&'];
const textOf = (next, n) => Array.from({ length: n }, () => kBits[next(kBits.length)]).join('');

test('does not depend on how the text was cut as it came', () => {
  for (let seed = 1; seed <= 800; ++seed) {
    const next = numbers(seed);
    const text = textOf(next, 60);
    const parts = [];
    for (let at = 0; at < text.length;) {
      const length = 1 + next(9);
      parts.push([text.slice(at, at + length), next(3), at, 0]);
      at += length;
    }
    // The runs are the same, drawn at once or after each of them.
    const root = new Element('div');
    const flow = new Flow(root);
    for (const part of parts) flow.write(...part);
    flow.end();
    assert.equal(serialise(drawn(parts)), serialise(root), `seed ${seed}: ${JSON.stringify(text)}`);
  }
});

test('keeps what is drawn already', () => {
  const root = new Element('div');
  const flow = new Flow(root);
  const write = (text) => {
    flow.write(text, 0, 0);
    flow.takeFresh();
  };
  write('First.\n\n- an item');
  const [paragraph, list] = root.children;
  const item = list.children[0];
  write(' that grows\n- another\n\n```js\nlet a;\n');
  assert.equal(root.children[0], paragraph);
  assert.equal(root.children[1].children[0], item);
  const code = root.children[2].children[1].children[0];
  const first = code.children[0];
  for (let i = 0; i < 100; ++i) write(`let b${i};\n`);
  assert.equal(code.children[0], first);
  assert.match(code.textContent, /^let a;\nlet b0;\n[^]*let b99;\n$/);
});

test('reports each unmasked run once, when it is first drawn', () => {
  const root = new Element('div');
  const flow = new Flow(root);
  const seen = [];
  for (const [text, block, pass] of [['**a', 1, 1], ['b', 1, 2], ['** c', 2, 1], ['\n\n- d', 3, 1]]) {
    flow.write(text, 3, block, pass);
    seen.push(...flow.takeFresh().map((one) => one.textContent));
  }
  assert.deepEqual(seen, ['**a', 'b', ' c', 'd']);
  assert.match(serialise(root), /<strong><span class="unmasked even" data-block="1" data-pass="1"[^>]*>a<\/span>/);
});

test('draws tasks as boxes of text, ticked or not', () => {
  const root = ofText('- [ ] buy **milk**\n- [x] sleep\n- [X](https://a.example) [y]\n- [ ]\n- [x]word\n\n1. [x] first\n\n   more\n\n- [ ] <img src=x onerror=alert(1)>\n- [x] # big');
  const items = serialise(root).match(/<li[^]*?(?=<\/li>)/g);
  assert.deepEqual(items.map((item) => /<li class="task"/.test(item)), [true, true, false, false, false, true, true, true]);
  assert.deepEqual(items.map((item) => /aria-label="([^"]*)"/.exec(item)?.[1]), ['To do: ', 'Done: ', undefined, undefined, undefined, 'Done: ', 'To do: ', 'Done: ']);
  assert.match(root.textContent, /\u2610 buy milk\s*\u2611 sleep/);
  assert.doesNotMatch(serialise(root), /<(input|img)/);
});

test('leaves text that is no markdown as it stands', () => {
  const text = '# no *heading*\n\n```\n- [x](https://a.example)';
  const root = drawn([[text.slice(0, 9), 1, 1], [text.slice(9), 0, 0]], { markdown: false });
  assert.equal(root.textContent, text);
  assert.doesNotMatch(serialise(root), /<(h|em|a|li|pre)/);
});

test('links to nothing that runs or leads within the machine', () => {
  const bad = ['javascript:alert(1)', 'JaVaScRiPt:alert(1)', ' javascript:alert(1)', 'java\nscript:alert(1)', 'data:text/html,<script>', 'vbscript:x',
    'file:///etc/passwd', 'blob:https://a/b', '//a.example', '/stats', 'https://', 'https://a b', 'https:alert(1)', '\u0001https://a.example',
    'javascript://https://a.example/%0aalert(1)', 'https://a.example/' + 'x'.repeat(3000)];
  for (const address of bad) {
    assert.equal(isLink(address), false, address);
    for (const text of [`[a](${address})`, `[a](<${address}>)`, `<${address}>`, `![a](${address})`]) {
      for (const [, href] of serialise(ofText(text)).matchAll(/href="([^"]*)"/g)) assert.ok(isLink(href), text);
    }
  }
  for (const address of ['https://a.example/?b=c#d', 'http://localhost:8080', 'mailto:a@b.example', 'HTTPS://A.EXAMPLE']) assert.ok(isLink(address), address);
  const html = serialise(ofText('![a picture](https://a.example/b.png)'));
  assert.match(html, /<a href="https:\/\/a.example\/b.png" rel="noopener noreferrer" target="_blank"/);
  assert.doesNotMatch(html, /<img/);
});

// Each takes a second at most; what is quadratic takes minutes.
const kHostile = {
  script: '<script>alert(1)</script><img src=x onerror=alert(2)><svg/onload=alert(3)>\n'.repeat(1000),
  quotes: '>'.repeat(10_000) + ' deep',
  quoteLines: Array.from({ length: 300 }, (_, i) => '> '.repeat(i) + 'x').join('\n'),
  lists: Array.from({ length: 2000 }, (_, i) => ' '.repeat((2 * i) % 400) + '- x').join('\n'),
  listLine: '- '.repeat(10_000) + 'x',
  stars: '*a '.repeat(10_000) + 'a* '.repeat(10_000),
  starRun: '*'.repeat(10_000) + 'a' + '*'.repeat(10_000),
  mixed: '*_'.repeat(6000) + 'a' + '_*'.repeat(6000),
  brackets: '['.repeat(10_000) + 'a' + '](https://a.example)'.repeat(10_000),
  openLinks: '[a]('.repeat(10_000),
  openAngles: '[a](<'.repeat(10_000),
  openTitles: '[a](b "'.repeat(10_000),
  backticks: Array.from({ length: 400 }, (_, i) => '`'.repeat(i + 1)).join(' '),
  dollars: '$a '.repeat(20_000),
  backslashes: '\\('.repeat(10_000),
  angles: '<https://'.repeat(10_000),
  addresses: 'https://a.example/(((' .repeat(5000) + ')'.repeat(10_000),
  fence: '```\n' + 'x\n'.repeat(50_000),
  fences: '```\n'.repeat(10_000),
  longLine: 'x'.repeat(500_000),
  longCode: '```js\n' + '"\\'.repeat(100_000),
  comment: '```c\n' + '/* '.repeat(50_000),
  table: '|a|b|\n|-|-|\n' + '|1|2|\n'.repeat(20_000),
  wideTable: '|'.repeat(5000) + '\n' + '|-'.repeat(5000) + '|\n' + '|x'.repeat(5000),
  header: 'a|b\n'.repeat(10_000),
  delimiters: ('|' + ' '.repeat(4000) + '\n' + ' '.repeat(4000) + 'x\n').repeat(20),
  blank: '\n'.repeat(50_000) + '- x' + '\n'.repeat(50_000) + 'y',
  spaces: ('# ' + ' '.repeat(8000) + 'x\n').repeat(20),
  rules: ('- '.repeat(4000) + 'x\n').repeat(10),
  controls: '\u0000\u202e\ufeff\ud800 x '.repeat(5000),
};

test('stays quick, flat and harmless whatever the text', () => {
  for (const [name, text] of Object.entries(kHostile)) {
    const before = process.cpuUsage();
    const parts = [];
    for (let at = 0; at < text.length; at += 1024) parts.push([text.slice(at, at + 1024), (at / 1024) % 3, at, 0]);
    const root = drawn(parts);
    const { user } = process.cpuUsage(before);
    const depth = depthOf(root);
    assert.ok(depth < 100, `${name} nests ${depth} deep`);
    const html = serialise(root);
    assert.doesNotMatch(html, /<(script|img|svg|iframe|object|style|form|input)/i, name);
    assert.doesNotMatch(html, /<[^>]* (on\w+|style|src|srcdoc)=/i, name);
    assert.ok(user < 10e6, `${name} took ${(user / 1e6).toFixed(1)} s`);
    if (process.env.ASHLAR_TIMES) console.log(name, (user / 1e6).toFixed(2), 's', depth);
  }
});

test('drops no text', () => {
  const words = (text) => text.match(/[a-z0-9]{2,}/g)?.join(' ') ?? '';
  for (const text of ['|aa|bb|\n|-|-|\n|cc|dd|ee|ff|\n|gg|', '- '.repeat(40) + 'zz', '> '.repeat(40) + 'zz', '```\nxx', '~~~', '#### ',
    'aa ![bb](https://cc.example)', '[aa](javascript:bb)', '| aa\n|-|\n| bb', '> aa\nbb\n- cc\ndd']) {
    const got = words(serialise(ofText(text)).replace(/<[^>]*>/g, ' ').replace('Copy', ''));
    for (const word of words(text.replace(/https:[^)]*/, '')).split(' ')) assert.ok(got.includes(word), `${word} of ${JSON.stringify(text)} is gone: ${got}`);
  }
});
