// SPDX-License-Identifier: Apache-2.0
// Runs before the first paint, so that a chosen theme does not flash in.
try {
  const theme = JSON.parse(localStorage.getItem('ashlar.theme'));
  if (theme === 'light' || theme === 'dark') document.documentElement.dataset.theme = theme;
  if (JSON.parse(localStorage.getItem('ashlar.tint')) === false) document.documentElement.dataset.tint = 'off';
} catch {
  // no storage: the system's theme
}
