"use strict";
// j k a r e ?: the keys of every page. Works on what pages mark: data-item to move over, data-key to press.

const typing = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

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

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  if (document.querySelector("dialog[open]") !== null) return;
  if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
  else if (event.key === "?") document.getElementById("keys")?.showModal();
  else if (!["a", "r", "e"].includes(event.key) || !press(event.key)) return;
  event.preventDefault();
});

// Long parts of a call are folded, and the call can be approved once all of them have been opened.
function foldLongParts() {
  const folded = [...document.querySelectorAll("details[data-must-open]")];
  const buttons = [...document.querySelectorAll("[data-approve]")];
  if (folded.length === 0 || buttons.length === 0) return;
  const unopened = new Set(folded);
  const show = () => {
    buttons.forEach((button) => { button.disabled = unopened.size > 0; });
    const hint = document.getElementById("unopened");
    if (hint !== null) hint.hidden = unopened.size === 0;
  };
  for (const part of folded) {
    part.open = false;
    part.addEventListener("toggle", () => {
      if (part.open) unopened.delete(part);
      show();
    });
  }
  show();
}

// A form that was sent is not sent again by a second click; one that is shown again can be.
document.addEventListener("submit", (event) => {
  if (!event.target.matches("[data-once]")) return;
  if (event.target.dataset.sent === "yes") event.preventDefault();
  event.target.dataset.sent = "yes";
});
window.addEventListener("pageshow", () => {
  document.querySelectorAll("[data-once]").forEach((form) => delete form.dataset.sent);
});

// Somebody else has decided meanwhile: what stands above says so, and there is nothing left to decide.
new MutationObserver(() => {
  if (document.querySelector("#state[data-settled]") === null) return;
  document.querySelectorAll(".decide").forEach((section) => section.remove());
}).observe(document.documentElement, { childList: true, subtree: true });

foldLongParts();
