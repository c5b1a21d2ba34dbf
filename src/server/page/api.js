// SPDX-License-Identifier: Apache-2.0
// The server's HTTP API: streams of events, and errors in plain words.

import { askForKey, currentKey } from './key.js';

/** `kind`: network, broken, key, busy, refused, server. `retryAfter` in seconds, or 0. */
export class RequestError extends Error {
  constructor(kind, message, retryAfter = 0) {
    super(message);
    this.kind = kind;
    this.retryAfter = retryAfter;
  }
}

async function send(path, options) {
  const headers = { ...options.headers };
  const key = currentKey();
  if (key) headers.Authorization = 'Bearer ' + key;
  try {
    return await fetch(path, { ...options, headers, cache: 'no-store', credentials: 'omit' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new RequestError('network', 'The server cannot be reached. It may have stopped, or the network is down.');
  }
}

function inWords(status, { message, param, code }, retryAfter = 0) {
  const said = message ? ' It said: ' + message : '';
  if (code === 'context_length_exceeded') {
    return new RequestError('refused', 'This is more than the model can read at once: shorten the message, or begin a new chat.' + said);
  }
  if (status === 400 || status === 422) {
    return new RequestError('refused', `The server did not accept the request${param ? ` because of “${param}”` : ''}.${said}`);
  }
  if (status === 401 || status === 403) return new RequestError('key', 'The server did not let this request in.' + said);
  if (status === 413) return new RequestError('refused', 'The conversation is too large for the server.' + said);
  if (status === 429) {
    const when = retryAfter > 0 ? ` Try again in ${retryAfter} s.` : ' Try again in a moment.';
    return new RequestError('busy', 'The server is busy: its queue is full.' + when, retryAfter);
  }
  if (status === 503) return new RequestError('busy', 'The server is not taking requests at the moment.' + said, retryAfter);
  if (status === 504) return new RequestError('server', 'The answer took longer than the server allows.' + said);
  if (status >= 500) return new RequestError('server', 'Something went wrong inside the server.' + said);
  return new RequestError('refused', `The server answered with status ${status}.${said}`);
}

async function errorOf(response) {
  let inner = null;
  try {
    inner = (await response.json()).error;
  } catch {
    // no JSON: the status has to do
  }
  const after = Number.parseInt(response.headers.get('Retry-After') ?? '', 10);
  return inWords(response.status, inner ?? {}, after > 0 ? after : 0);
}

/** Sends once more after each key that was asked for. */
async function admitted(path, options) {
  for (;;) {
    const response = await send(path, options);
    if (response.status !== 401) return response;
    if (!(await askForKey())) throw new RequestError('key', 'The server wants an API key, and none was given.');
    options.signal?.throwIfAborted();
  }
}

/** The data of server-sent events and when they came: those of one read came together. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const now = performance.now();
      rest += value.replaceAll('\r', '');
      for (let end = rest.indexOf('\n\n'); end >= 0; end = rest.indexOf('\n\n')) {
        const lines = rest.slice(0, end).split('\n');
        rest = rest.slice(end + 2);
        const data = lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trimStart());
        if (data.length > 0) yield [data.join('\n'), now];
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Posts a chat request and gives each chunk and its time to `take`. Throws RequestError; AbortError if `signal` says stop. */
export async function streamChat(body, signal, take) {
  const response = await admitted('/v1/chat/completions', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw await errorOf(response);
  try {
    for await (const [data, now] of events(response.body)) {
      if (data === '[DONE]') return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw inWords(chunk.error.type === 'timeout_error' ? 504 : 500, chunk.error);
      take(chunk, now);
    }
  } catch (error) {
    if (error.name === 'AbortError' || error instanceof RequestError) throw error;
    signal?.throwIfAborted();
    throw new RequestError('broken', 'The connection broke before the answer was complete.');
  }
  signal?.throwIfAborted();
  throw new RequestError('broken', 'The connection ended before the answer was complete.');
}

/** GET /stats. Does not ask for a key: it runs by itself, and a dialog must follow something the user did. */
export async function fetchStats() {
  const response = await send('/stats', { method: 'GET' });
  if (!response.ok) throw await errorOf(response);
  return response.json();
}
