// SPDX-License-Identifier: Apache-2.0
// The conversation: sending, stopping, editing, trying again, keeping.

import { Answer } from './answer.js';
import { AnswerView } from './answer_view.js';
import { streamChat } from './api.js';
import { goOnWith, keepConversation, kMaxKept, leaveConversation, ownConversation, titleOf } from './conversations.js';
import { announce, button, byId, copyButton, el, setText } from './dom.js';
import { addFigures } from './figures.js';
import { refreshCurl, requestBody, showWrong } from './settings.js';
import { allKept, welcomeView } from './welcome.js';

let messages = []; // {role: 'user', content} and the records of answers
let running = null; // AbortController
let editing = false;
let draftBeforeEdit = '';
let cleared = []; // what Clear took away, until something is said anew

const log = byId('log');
const input = byId('prompt');

const nearEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 64;
const toEnd = () => (log.scrollTop = log.scrollHeight);

function save() {
  const loss = keepConversation(messages);
  byId('not-kept').hidden = loss === '';
  setText(byId('not-kept-until'), loss === 'close' ? 'when this tab is closed' : 'after a reload');
  refreshCurl();
  showTitle();
}

/** The browser's tab says which conversation it holds, and whether an answer is still coming. */
function showTitle() {
  const title = messages.length > 0 ? titleOf(messages) : '';
  setText(byId('chat-title'), title);
  document.title = `${running ? '… ' : ''}${title === '' ? '' : title.slice(0, 60) + ' · '}Ashlar`;
}

/** What the API gets: answers without text or calls say nothing and are left out. */
function forServer() {
  const out = [];
  for (const message of messages) {
    if (message.role === 'user') {
      out.push({ role: 'user', content: message.content });
    } else if (message.content) {
      out.push({ role: 'assistant', content: message.content });
    }
  }
  return out;
}
export function messagesForCurl() {
  const next = input.value.trim();
  const sent = forServer();
  if (next !== '' || sent.length === 0) sent.push({ role: 'user', content: next || 'Hello' });
  while (sent.length > 1 && sent.at(-1).role === 'assistant') sent.pop();
  return sent;
}

function userView(message, isLast) {
  const actions = el('div', { class: 'actions' }, copyButton(() => message.content, { 'aria-label': 'Copy your message' }));
  if (isLast) actions.append(button('Edit', startEdit, { 'aria-label': 'Edit your last message' }));
  return el('article', { class: 'message user', 'aria-label': 'You' }, el('div', { class: 'prose' }, message.content), actions);
}

function offerActions(view, record, isLast) {
  const offers = [view.copy(() => record.content || record.reasoning)];
  if (view.canReplay()) offers.push(button('Replay', () => view.replay(), { 'aria-label': 'Show again how the answer formed' }));
  if (isLast) offers.push(button('Retry', retry, { 'aria-label': 'Answer again' }));
  view.offer(...offers);
}

function redraw() {
  const lastUser = messages.findLastIndex((message) => message.role === 'user');
  const nodes = messages.map((message, i) => {
    if (message.role === 'user') return userView(message, i === lastUser);
    const view = new AnswerView();
    view.restore(message);
    if (message.state === 'failed') view.showError(message.error, retry);
    offerActions(view, message, i === messages.length - 1);
    return view.root;
  });
  log.replaceChildren(...(nodes.length > 0 ? nodes : [welcome()]));
  byId('clear').disabled = messages.length === 0;
  byId('new-chat').disabled = messages.length === 0;
  showTitle();
  if (nodes.length > 0) toEnd();
  else log.scrollTop = 0;
}

/** Shows another conversation: the one that was cleared, or one that another tab had. */
function show(conversation) {
  messages = conversation;
  cleared = [];
  redraw();
  refreshCurl();
  input.focus();
}

function welcome() {
  const restore = () => {
    show(cleared);
    save();
  };
  return welcomeView({
    send: (text) => {
      input.value = text;
      send();
    },
    goOn: (name) => show(goOnWith(name)),
    restore: cleared.length > 0 ? restore : null,
  });
}

function setRunning(controller) {
  running = controller;
  byId('send').hidden = controller !== null;
  byId('stop').hidden = controller === null;
  for (const name of ['clear', 'new-chat']) byId(name).disabled = controller !== null || messages.length === 0;
  byId('chats').disabled = controller !== null;
  showTitle();
  log.setAttribute('aria-busy', String(controller !== null));
}

async function answer() {
  const body = requestBody(forServer());
  if (body === null) {
    redraw();
    return showWrong();
  }
  redraw();
  const state = new Answer(performance.now());
  let follow = true;
  const view = new AnswerView({ onDraw: () => {
    view.live(state);
    if (follow) toEnd();
  } });
  view.root.classList.add('pending');
  log.append(view.root);
  toEnd();
  log.onscroll = () => (follow = nearEnd());
  const controller = new AbortController();
  setRunning(controller);
  announce('Answering');
  let how = 'done';
  let problem = null;
  try {
    await streamChat(body, controller.signal, (chunk, now) =>
      state.take(chunk, now, (...run) => view.add(...run)));
  } catch (error) {
    how = error.name === 'AbortError' ? 'stopped' : 'failed';
    problem = error;
  }
  setRunning(null);
  const record = state.toRecord(how, body.speculative !== false);
  if (how === 'failed') record.error = problem.message;
  messages.push(record);
  view.root.classList.remove('pending');
  view.finish(record);
  addFigures(state);
  if (how === 'failed') view.showError(problem.message, retry);
  offerActions(view, record, true);
  for (const name of ['clear', 'new-chat']) byId(name).disabled = false;
  save();
  if (follow) toEnd();
  if (document.activeElement === document.body) input.focus();
  announce(how === 'failed' ? problem.message : `Answer${how === 'stopped' ? ', stopped' : ''}: ${record.content.slice(0, 4000)}`);
}

function send() {
  const text = input.value.trim();
  if (text === '' || running) return;
  if (requestBody([]) === null) return showWrong();
  if (editing) {
    messages.length = messages.findLastIndex((message) => message.role === 'user');
    setEditing(false);
  }
  cleared = [];
  messages.push({ role: 'user', content: text });
  input.value = '';
  resize();
  save();
  answer();
}

function retry() {
  if (running) return;
  if (messages.at(-1)?.role === 'assistant') messages.pop();
  if (messages.length === 0) return;
  input.focus({ preventScroll: true });
  answer();
}

function setEditing(on) {
  editing = on;
  byId('editing').hidden = !on;
  setText(byId('send'), on ? 'Send again' : 'Send');
}

function startEdit() {
  if (running) return;
  const last = messages.findLast((message) => message.role === 'user');
  if (!editing) draftBeforeEdit = input.value;
  setEditing(true);
  input.value = last.content;
  resize();
  input.focus();
}

function cancelEdit() {
  setEditing(false);
  input.value = draftBeforeEdit;
  resize();
  input.focus();
}

/** Esc: stops the answer, or leaves editing. True if there was something to leave. */
export function escapeChat() {
  if (running) running.abort();
  else if (editing) cancelEdit();
  else return false;
  return true;
}

function resize() {
  input.style.height = 'auto';
  input.style.height = Math.min(input.scrollHeight + 2, 220) + 'px';
}

export function startChat() {
  if (matchMedia('(max-width: 46rem)').matches) input.placeholder = 'Message';
  messages = ownConversation();
  input.addEventListener('input', resize);
  input.addEventListener('change', refreshCurl);
  input.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send();
  });
  byId('composer').addEventListener('submit', (event) => {
    event.preventDefault();
    send();
  });
  byId('stop').addEventListener('click', () => {
    running?.abort();
    input.focus();
  });
  byId('cancel-edit').addEventListener('click', cancelEdit);
  byId('clear').addEventListener('click', () => {
    cleared = messages;
    messages = [];
    if (editing) setEditing(false);
    save();
    redraw();
    announce('Conversation cleared');
    input.focus();
  });
  byId('new-chat').addEventListener('click', () => {
    if (editing) setEditing(false);
    save();
    leaveConversation();
    show([]);
    announce('New chat');
  });
  const dialog = byId('chats-dialog');
  setText(byId('chats-limit'), String(kMaxKept));
  byId('chats').addEventListener('click', () => {
    byId('chats-list').replaceChildren(allKept((name) => {
      dialog.close();
      if (editing) setEditing(false);
      show(goOnWith(name));
    }));
    dialog.showModal();
  });
  addEventListener('storage', () => {
    if (messages.length === 0 && !log.contains(document.activeElement)) redraw(); // another tab's conversation came or went
  });
  redraw();
}
