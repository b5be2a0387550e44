"use strict";
// Decisions that have not taken effect: the seconds that are left, and `u`, which takes the newest one back at once.

const SECOND_MS = 1000;

function count() {
  for (const form of document.querySelectorAll("form[data-seconds]")) {
    // Seconds from when it came into the page: the clock of the reader may be wrong.
    form.dataset.until ??= String(performance.now() + Number(form.dataset.seconds) * SECOND_MS);
    const left = Math.ceil((Number(form.dataset.until) - performance.now()) / SECOND_MS);
    const told = form.querySelector("[data-left]");
    if (told !== null) told.textContent = left > 0 ? `in ${left} s` : "now";
    if (left < 0) form.querySelectorAll("button").forEach((button) => { button.hidden = true; });
  }
}

document.addEventListener("keydown", (event) => {
  if (event.key !== "u" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest("input, textarea, select, dialog[open]") !== null) return;
  const button = document.querySelector("form[data-seconds] button[data-undo]:not([hidden])");
  if (button === null) return;
  event.preventDefault();
  button.click();
});

count();
setInterval(count, SECOND_MS / 4);
