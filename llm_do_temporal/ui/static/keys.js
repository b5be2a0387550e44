"use strict";
// The keys of every page, which `?` lists. Works on what pages mark: data-item to move over, data-key to press.

const BOXES = 'input[type="checkbox"], input[type="radio"]';
const typing = (target) => target.closest("input, textarea, select, [contenteditable]") !== null && !target.matches(BOXES);

function move(step) {
  const items = [...document.querySelectorAll("[data-item]")];
  if (items.length === 0) return;
  const at = items.findIndex((item) => item.contains(document.activeElement));
  const next = at < 0 ? (step > 0 ? 0 : items.length - 1) : Math.min(Math.max(at + step, 0), items.length - 1);
  const target = items[next].matches("a, button") ? items[next] : items[next].querySelector("a, button");
  target?.focus();
}

// One key never decides: it goes to the button, and Enter presses it. Links are followed.
function press(key) {
  const target = document.querySelector(`[data-key="${key}"]`);
  if (target === null) return false;
  const place = target.disabled ? document.querySelector("details[data-must-open]:not([open]) summary") : target;
  place?.focus();
  if (target.matches("a")) target.click();
  return true;
}

// Ticks the row in which the focus is, or all rows, as a click on the box does.
function tick(all) {
  const row = document.activeElement?.closest("[data-item]");
  (all ? document.querySelector("[data-all]") : row?.querySelector('input[name="question"]'))?.click();
}

function openAll() {
  document.querySelectorAll("main details").forEach((part) => { part.open = true; });
  noteOpened();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && event.target.matches("textarea")) {
    event.target.form?.requestSubmit();
    return;
  }
  if (event.key === "Escape" && typing(event.target)) event.target.blur();
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (document.querySelector("dialog[open]") !== null) return;
  if (["j", "k"].includes(event.key)) press(event.key) || move(event.key === "j" ? 1 : -1);
  else if (event.key === "?") document.getElementById("keys")?.showModal();
  else if (event.key === "o") openAll();
  else if (event.key === "i") location.assign("/");
  else if (event.key === "x" || event.key === "X") tick(event.key === "X");
  else if (!["a", "A", "r", "R", "e", "g", "u"].includes(event.key) || !press(event.key)) return;
  event.preventDefault();
});

// Long parts of a call are folded, and the call can be approved once all of them have been opened.
const unopened = new Set();
function noteOpened() {
  unopened.forEach((part) => { if (part.open) unopened.delete(part); });
  document.querySelectorAll("[data-approve]").forEach((button) => { button.disabled = unopened.size > 0; });
  const hint = document.getElementById("unopened");
  if (hint !== null) hint.hidden = unopened.size === 0;
}
function foldLongParts() {
  if (document.querySelector("[data-approve]") === null) return;
  for (const part of document.querySelectorAll("details[data-must-open]")) {
    part.open = false;
    part.addEventListener("toggle", noteOpened);
    unopened.add(part);
  }
  if (unopened.size > 0) noteOpened();
}

// Whoever decides goes on to the next question. A second click of a double one must not decide that, too.
const SETTLE_MS = 700;
let isSettling = false;
function goOn() {
  for (const form of document.querySelectorAll("form[data-onward]")) {
    const field = document.createElement("input");
    Object.assign(field, { type: "hidden", name: "onward", value: "yes" });
    form.append(field);
  }
  if (!new URLSearchParams(location.search).has("did")) return;
  const buttons = [...document.querySelectorAll(".bar button, .decide button")];
  isSettling = true;
  buttons.forEach((button) => button.setAttribute("aria-disabled", "true"));
  setTimeout(() => {
    isSettling = false;
    buttons.forEach((button) => button.removeAttribute("aria-disabled"));
  }, SETTLE_MS);
}

// A form that was sent is not sent again by a second click; one that is shown again can be.
document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-once]")) return;
  if (isSettling || event.target.dataset.sent === "yes") { event.preventDefault(); return; }
  event.target.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => {
  document.querySelectorAll("[data-once]").forEach((form) => delete form.dataset.sent);
});

// Somebody else has decided meanwhile: what stands above says so, and there is nothing left to decide.
new MutationObserver(() => {
  if (document.querySelector("#state[data-settled]") === null) return;
  document.querySelectorAll(".decide, .decide-now").forEach((section) => section.remove());
}).observe(document.documentElement, { childList: true, subtree: true });

foldLongParts();
goOn();
