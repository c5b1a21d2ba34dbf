// SPDX-License-Identifier: Apache-2.0
// Conversations as the browser keeps them. Each tab has its own, which a reload finds again in the tab's storage; a copy
// under a name of its own in the storage of all tabs outlives the tab, so that a later one can go on with it.

import { kept, keptForTab } from './dom.js';

export const kMaxKept = 50;
const kPrefix = 'chat'; // just that: the one conversation that older pages kept, as a list
let own = { name: '', at: 0 }; // the copy, and when this tab last wrote it

const listed = (messages) => (Array.isArray(messages) ? messages.filter((one) => one !== null && typeof one === 'object') : []);

function copy(name) {
  const value = kept.load(name, null);
  return Array.isArray(value) ? { at: 0, messages: listed(value) } : { at: Number(value?.at) || 0, messages: listed(value?.messages) };
}

function keepForTab(messages) {
  if (keptForTab.save(kPrefix, { ...own, messages })) return true;
  keptForTab.save(kPrefix, own); // smaller: a reload takes the copy
  return false;
}

/** This tab's conversation; none in a new tab. */
export function ownConversation() {
  const value = keptForTab.load(kPrefix, null);
  if (typeof value?.name === 'string') own = { name: value.name, at: value.at };
  return Array.isArray(value?.messages) ? listed(value.messages) : own.name === '' ? [] : copy(own.name).messages;
}

// A duplicated tab, or one that goes on with the same conversation, may have written there since; what is gone is free.
const isOwn = () => own.name !== '' && [0, own.at].includes(copy(own.name).at);

/** Keeps what this tab shows, or forgets it if that is nothing. What will lose it: '', 'reload' or 'close' of the tab. */
export function keepConversation(messages) {
  if (messages.length === 0) {
    if (isOwn()) forget(own.name);
    own = { name: '', at: 0 };
    keptForTab.drop(kPrefix);
    return '';
  }
  const name = isOwn() ? own.name : `${kPrefix}.${crypto.getRandomValues(new Uint32Array(2)).join('-')}`;
  const at = Date.now();
  const copied = kept.save(name, { at, messages });
  if (copied) own = { name, at };
  for (const old of otherConversations().slice(kMaxKept - 1)) forget(old.name);
  const held = keepForTab(messages);
  return copied ? '' : held ? 'close' : 'reload';
}

/** Those that this tab does not show, newest first: {name, at, messages}. */
export function otherConversations() {
  const names = kept.names().filter((name) => (name === kPrefix || name.startsWith(kPrefix + '.')) && name !== own.name);
  return names.map((name) => ({ name, ...copy(name) })).filter(({ messages }) => messages.length > 0).sort((a, b) => b.at - a.at);
}

/** Leaves this tab's conversation where it is kept, and begins another. */
export function leaveConversation() {
  own = { name: '', at: 0 };
  keptForTab.drop(kPrefix);
}

/** What people know a conversation by: how it began. */
export const titleOf = (messages) => (messages.find((one) => one.role === 'user')?.content ?? 'A conversation').trim().split('\n')[0].slice(0, 200);

/** Makes it this tab's. Its messages; none if another tab has forgotten it. */
export function goOnWith(name) {
  const { at, messages } = copy(name);
  own = { name, at };
  keepForTab(messages);
  return messages;
}

export const forget = (name) => kept.drop(name);
