// SPDX-License-Identifier: Apache-2.0
// Puts the page together: views, panel, theme, the key's dialog, the keyboard.

import { escapeChat, messagesForCurl, startChat } from './chat.js';
import { escapeCompare, startCompare } from './compare.js';
import { byId, kept, setText } from './dom.js';
import { startFigures } from './figures.js';
import { hasKey, startKeyDialog } from './key.js';
import { refreshCurl, startSettings } from './settings.js';

const root = document.documentElement;
const kThemes = ['auto', 'light', 'dark'];

function startTheme() {
  const show = () => {
    const theme = root.dataset.theme ?? 'auto';
    setText(byId('theme-name'), theme);
    byId('theme').setAttribute('aria-label', 'Theme: ' + theme);
  };
  byId('theme').addEventListener('click', () => {
    const next = kThemes[(kThemes.indexOf(root.dataset.theme ?? 'auto') + 1) % kThemes.length];
    if (next === 'auto') delete root.dataset.theme;
    else root.dataset.theme = next;
    kept.save('theme', next);
    show();
  });
  show();
  const tint = byId('tint');
  tint.checked = root.dataset.tint !== 'off';
  tint.addEventListener('change', () => {
    if (tint.checked) delete root.dataset.tint;
    else root.dataset.tint = 'off';
    kept.save('tint', tint.checked);
  });
}

/** Tabs as in the ARIA practices: arrows move, one tab stop. */
function startTabs(list, shown) {
  const tabs = [...list.querySelectorAll('[role=tab]')];
  const choose = (tab, focus) => {
    for (const other of tabs) {
      other.setAttribute('aria-selected', String(other === tab));
      other.tabIndex = other === tab ? 0 : -1;
      byId(other.getAttribute('aria-controls')).hidden = other !== tab;
    }
    if (focus) tab.focus();
    shown(tab.id);
  };
  list.addEventListener('click', (event) => {
    const tab = event.target.closest('[role=tab]');
    if (tab) choose(tab, false);
  });
  list.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -tabs.length, End: tabs.length }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = tabs.indexOf(document.activeElement);
    const next = Math.abs(step) > 1 ? (step > 0 ? tabs.length - 1 : 0) : (at + step + tabs.length) % tabs.length;
    choose(tabs[next], true);
  });
  return (id) => choose(tabs.find((tab) => tab.id === id) ?? tabs[0], false);
}

const wide = matchMedia('(min-width: 62.01rem)');

/** On a narrow window the panel lies over the view; on a wide one it stands next to it, if it was opened there. */
function setPanel(open) {
  if (wide.matches) kept.save('panel-open', open);
  document.body.classList.toggle('panel-open', open);
  byId('panel-toggle').setAttribute('aria-expanded', String(open));
}

function startKeyboard() {
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Escape' || event.defaultPrevented || document.querySelector('dialog[open]')) return;
    const stopped = byId('view-chat').hidden ? escapeCompare() : escapeChat();
    if (!stopped && !wide.matches && document.body.classList.contains('panel-open')) {
      setPanel(false);
      byId('panel-toggle').focus();
    }
  });
}

startTheme();
startKeyDialog();
startChat();
startCompare();
startSettings({ messagesForCurl, hasKey });
startFigures();
const chooseView = startTabs(byId('views'), (id) => {
  kept.save('view', id);
  if (!wide.matches) setPanel(false);
});
const choosePanel = startTabs(byId('panel-tabs'), (id) => {
  kept.save('panel', id);
  refreshCurl();
});
chooseView(kept.load('view', 'tab-chat'));
choosePanel(kept.load('panel', 'tab-figures'));
byId('panel-toggle').addEventListener('click', () => setPanel(!document.body.classList.contains('panel-open')));
const showPanel = () => setPanel(wide.matches && kept.load('panel-open', false));
wide.addEventListener('change', showPanel);
showPanel();
startKeyboard();
if (!byId('view-chat').hidden && matchMedia('(hover: hover)').matches) byId('prompt').focus();
