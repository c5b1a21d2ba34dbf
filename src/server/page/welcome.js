// SPDX-License-Identifier: Apache-2.0
// What an empty conversation shows: what the tints mean, prompts to try, and the conversations of other tabs.

import { forget, otherConversations, titleOf } from './conversations.js';
import { button, el } from './dom.js';

const kExamples = [
  'Turn this sentence into bullet points: Anna is a 41-year-old teacher who moved to Oslo in 1998.',
  'A machine makes 96 parts in 8 hours. How many parts does it make in 11 hours?',
  'Repeat this sentence exactly: The wall was built of grey stone, and the gate was made of oak.',
];
const kShown = 3; // kept conversations, before the user asks for more

const when = new Intl.DateTimeFormat('en', { dateStyle: 'medium', timeStyle: 'short', hourCycle: 'h23' });

function keptRow({ name, at, messages }, goOn, changed) {
  const title = titleOf(messages);
  const open = el('button', { type: 'button', class: 'example', click: () => goOn(name) }, el('span', { class: 'title' }, title),
    at > 0 ? el('small', {}, when.format(at)) : null);
  const drop = () => {
    forget(name);
    changed();
  };
  return el('li', {}, open, button('Forget', drop, { 'aria-label': 'Forget the conversation: ' + title }));
}

function keptList(goOn, changed) {
  const rows = otherConversations().map((one) => keptRow(one, goOn, changed));
  if (rows.length === 0) return null;
  const rest = rows.splice(kShown);
  return el('section', { class: 'earlier', 'aria-labelledby': 'earlier-title' }, el('h3', { id: 'earlier-title' }, 'Go on with another conversation'),
    el('ul', {}, ...rows), rest.length > 0 ? el('details', {}, el('summary', {}, `${rest.length} more`), el('ul', {}, ...rest)) : null);
}

/** All that this tab does not show, for a dialog: `goOn` takes the name of the one that is chosen. */
export function allKept(goOn) {
  const list = el('ul');
  const fill = () => {
    const rows = otherConversations().map((one) => keptRow(one, goOn, fill));
    list.replaceChildren(...(rows.length > 0 ? rows : [el('li', { class: 'hint' }, 'No others yet.')]));
  };
  fill();
  return list;
}

/** `send` takes a prompt, `goOn` the name of a kept conversation; `restore` brings the cleared one back, or is null. */
export function welcomeView({ send, goOn, restore }) {
  const examples = kExamples.map((text) => button(text, () => send(text), { class: 'example' }));
  const others = el('div');
  const list = () => others.replaceChildren(keptList(goOn, again) ?? '');
  const again = () => {
    list();
    (others.querySelector('button') ?? examples[0]).focus();
  };
  list();
  return el('div', { class: 'welcome' }, el('h2', {}, 'Ask the model'),
    el('p', { class: 'for-blocks' }, 'This model fills a block of positions in any order, several in one pass. The stronger the tint, the earlier a text was unmasked; the underline changes with the block.'),
    el('p', { class: 'for-plain' }, 'The model writes token by token: this server has no drafter that would draft ahead for it.'),
    el('p', { class: 'for-drafts' }, 'Tinted text was drafted ahead and accepted by the model; the rest it wrote itself. The words are the same either way.'),
    restore ? button('Bring back the cleared conversation', restore) : null, others, el('div', { class: 'examples' }, ...examples));
}
