// SPDX-License-Identifier: Apache-2.0
// The API key: what can be one, where this tab keeps it, and the dialog that asks for it.

import { byId, keptForTab, setText } from './dom.js';

// What a paste brings along: blanks, and characters that cannot be seen, such as a zero-width space or a byte order mark.
const kUnseen = /[\p{White_Space}\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}]/u;
const kMaxLetters = 8192; // a server's room for all headers is 16 KiB

function trimmed(text) {
  const letters = [...text];
  const seen = (c) => !kUnseen.test(c);
  return letters.slice(letters.findIndex(seen), letters.findLastIndex(seen) + 1).join('');
}

/** Why `key` can be none, or ''. The rule is the server's; a header with anything else could not even be sent. */
function problemWith(key) {
  if (key === '') return 'nothing of it can be seen.';
  if (key.length > kMaxLetters) return `it has ${key.length} characters; expected at most ${kMaxLetters}.`;
  const letters = [...key];
  const at = letters.findIndex((c) => c <= ' ' || c > '~');
  if (at < 0) return '';
  const code = 'U+' + letters[at].codePointAt(0).toString(16).toUpperCase().padStart(4, '0');
  const what = letters[at] === ' ' ? 'a space' : kUnseen.test(letters[at]) ? `invisible (${code})` : `“${letters[at]}” (${code})`;
  return `character ${at + 1} is ${what}. A key is one word of visible ASCII characters.`;
}

const kUnknown = 'The key that was sent is not one the server knows.';
let key = null; // until it is first looked up
let keyError = ''; // about the newest key, should another be asked for

/** The key to send, or ''. One that was kept but cannot be sent is dropped: no request would ever get through. */
export function currentKey() {
  if (key !== null) return key;
  key = String(keptForTab.load('key', ''));
  if (key === '') return key;
  const problem = problemWith(key);
  keyError = kUnknown;
  if (problem !== '') {
    keyError = 'The key that this tab had is dropped. It was not a valid key: ' + problem;
    key = '';
    keptForTab.drop('key');
  }
  return key;
}
export const hasKey = () => currentKey() !== '';

function setKey(value) {
  key = value;
  keyError = kUnknown;
  keptForTab.save('key', key);
  document.dispatchEvent(new Event('keychange'));
}

function say(problem) {
  setText(byId('key-wrong'), problem);
  byId('key').removeAttribute('aria-invalid');
}

function refuse(problem) {
  say('Not a valid key: ' + problem);
  byId('key').setAttribute('aria-invalid', 'true');
  byId('key').focus();
  byId('key').select(); // what is pasted next takes its place
}

let answer = null;
let asked = null;

/** Lets the user enter a key; false if there is none. Requests that ask at the same time share one question. */
export function askForKey() {
  asked ??= new Promise((resolve) => {
    answer = resolve;
    say(keyError);
    byId('key-dialog').showModal();
  }).finally(() => (asked = null));
  return asked;
}

export function startKeyDialog() {
  const dialog = byId('key-dialog');
  const finish = (given) => {
    if (dialog.open) dialog.close();
    byId('key').value = '';
    answer?.(given);
    answer = null;
  };
  byId('key-form').addEventListener('submit', (event) => {
    event.preventDefault();
    const entered = trimmed(byId('key').value);
    const problem = problemWith(entered);
    if (problem !== '') return refuse(problem);
    setKey(entered);
    finish(true);
  });
  byId('key').addEventListener('input', () => say(''));
  byId('key-cancel').addEventListener('click', () => finish(false));
  dialog.addEventListener('close', () => finish(false));
}
