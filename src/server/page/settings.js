// SPDX-License-Identifier: Apache-2.0
// The request's settings: the form, what it holds, and the body and curl command made of it.

import { blockSize, byId, copyButton, kept, randomSeed, setText } from './dom.js';

// name in the API, lowest and highest value, whole numbers only
const kNumbers = [
  ['temperature', 0, 10, false],
  ['top_p', 0, 1, false],
  ['top_k', 0, 1e6, true],
  ['min_p', 0, 1, false],
  ['seed', 0, Number.MAX_SAFE_INTEGER, true],
  ['max_tokens', 1, 1e6, true],
  ['threshold', 0, 1, false],
];
const kDefaults = { max_tokens: '512', format: 'text', speculative: true };
const kFields = [...kNumbers.map(([name]) => name), 'system', 'stop', 'format', 'schema', 'speculative'];

const field = (name) => byId('set-' + name);
let preview = () => [{ role: 'user', content: 'Hello' }];

function read() {
  const values = {};
  for (const name of kFields) values[name] = name === 'speculative' ? field(name).checked : field(name).value;
  return values;
}

function write(values) {
  for (const name of kFields) {
    if (name === 'speculative') field(name).checked = values[name] ?? true;
    else field(name).value = values[name] ?? '';
  }
}

function say(name, problem) {
  setText(byId('wrong-' + name), problem);
  if (problem) field(name).setAttribute('aria-invalid', 'true');
  else field(name).removeAttribute('aria-invalid');
}

function numberOf(text, low, high, whole) {
  const value = Number(text);
  if (!Number.isFinite(value) || (whole && !Number.isSafeInteger(value)) || value < low || value > high) {
    const top = high >= 1e6 ? 'up' : String(high);
    return { problem: `A ${whole ? 'whole number' : 'number'} from ${low} ${top === 'up' ? 'up' : 'to ' + top}` };
  }
  return { value };
}

/** The fields that act, or null if one of them cannot be sent. Marks the wrong ones. */
function sampling() {
  const values = read();
  const body = {};
  let right = true;
  for (const [name, low, high, whole] of kNumbers) {
    const text = values[name].trim();
    const { value, problem } = text === '' ? {} : numberOf(text, low, high, whole);
    say(name, problem ?? '');
    if (problem) right = false;
    else if (value === undefined) continue;
    else if (name !== 'threshold') body[name] = value;
    else if (blockSize() > 0) body.dllm = { threshold: value };
  }
  const stops = values.stop.split('\n').filter((line) => line !== '');
  say('stop', stops.length > 16 ? 'At most 16 lines' : '');
  if (stops.length > 16) right = false;
  else if (stops.length > 0) body.stop = stops;
  say('schema', '');
  if (values.format === 'json_object') body.response_format = { type: 'json_object' };
  if (values.format === 'json_schema') {
    try {
      const schema = JSON.parse(values.schema);
      if (typeof schema !== 'object' || schema === null || Array.isArray(schema)) throw new Error('no object');
      body.response_format = { type: 'json_schema', json_schema: { name: 'answer', schema } };
    } catch (error) {
      say('schema', 'Not a JSON schema: ' + error.message);
      right = false;
    }
  }
  if (!values.speculative) body.speculative = false;
  return right ? body : null;
}

let keyed = () => false;

/** The body of a request for `messages`, always with a seed, or null if a setting is wrong. `extra` wins. */
export function requestBody(messages, extra = {}) {
  const settings = sampling();
  if (settings === null) return null;
  const system = field('system').value.trim();
  return {
    messages: system === '' ? messages : [{ role: 'system', content: field('system').value }, ...messages],
    seed: randomSeed(),
    ...settings,
    ...extra,
    stream: true,
    stream_options: { include_usage: true, include_blocks: true },
  };
}

/** Shows the first setting that is wrong. */
export function showWrong() {
  byId('tab-request').click();
  const toggle = byId('panel-toggle'); // there on narrow windows only
  if (toggle.checkVisibility() && toggle.getAttribute('aria-expanded') !== 'true') toggle.click();
  byId('settings').querySelector('[aria-invalid]')?.focus();
}

const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";

function curl() {
  const settings = sampling();
  if (settings === null) return 'A setting is not right yet.';
  const body = requestBody(preview());
  if (settings.seed === undefined) delete body.seed;
  delete body.stream_options.include_blocks;
  return [
    `curl -N ${quoted(location.origin + '/v1/chat/completions')}`,
    `  -H 'Content-Type: application/json'`,
    ...(keyed() ? ['  -H "Authorization: Bearer $ASHLAR_API_KEY"'] : []),
    `  -d ${quoted(JSON.stringify(body, null, 1))}`,
  ].join(' \\\n');
}

export function refreshCurl() {
  setText(byId('curl'), curl());
}

function changed() {
  kept.save('settings', read());
  byId('schema-row').hidden = field('format').value !== 'json_schema';
  refreshCurl();
}

/** `messagesForCurl` gives what would be sent next; `hasKey` whether the server wants a key. */
export function startSettings({ messagesForCurl, hasKey }) {
  preview = messagesForCurl;
  keyed = hasKey;
  write({ ...kDefaults, ...kept.load('settings', {}) });
  byId('settings').addEventListener('input', changed);
  document.addEventListener('decodingchange', refreshCurl);
  document.addEventListener('keychange', refreshCurl);
  byId('settings').addEventListener('submit', (event) => event.preventDefault());
  byId('reset-settings').addEventListener('click', () => {
    write(kDefaults);
    changed();
  });
  byId('curl-copy').append(copyButton(curl, { 'aria-label': 'Copy the curl command' }));
  changed();
}
