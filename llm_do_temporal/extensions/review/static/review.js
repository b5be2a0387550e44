"use strict";
// The page of a review: boxes of files and of their parts go together, files that were viewed, comments on a line, and
// keys from file to file. Whatever it does is in the form, which decides without it, too.

const form = document.getElementById("review");
const VIEWED = "llm-do-viewed";
const MOST_VIEWED = 20000;
const files = () => [...form.querySelectorAll("section[data-file]")];
const partsOf = (file) => [...file.querySelectorAll('input[name="part"]')];
const boxOf = (file) => file.querySelector('input[name="take"]');

// The button says what it accepts, with what is ticked on other parts of the review.
function count() {
  const boxes = files().map(boxOf).filter((box) => box !== null);
  for (const button of document.querySelectorAll("[data-taken]")) {
    const taken = boxes.filter((box) => box.checked).length + Number(button.dataset.taken);
    const inPart = boxes.filter((box) => box.indeterminate).length + Number(button.dataset.inPart);
    const all = taken === Number(button.dataset.total) && inPart === 0;
    button.textContent = all ? "Accept all" : `Accept ${taken} of ${button.dataset.total}${inPart ? `, ${inPart} in part` : ""}`;
  }
}

// A file is accepted in part where some of its parts are: its box is sent, and the parts say which.
function show(file) {
  const box = boxOf(file), parts = partsOf(file);
  if (box === null) return;
  if (!box.checked) parts.forEach((part) => { part.checked = false; });
  const ticked = parts.filter((part) => part.checked).length;
  box.indeterminate = box.checked && ticked > 0 && ticked < parts.length;
  parts.forEach((part) => part.closest(".part-of-file").classList.toggle("is-left-out", !part.checked));
}

form.addEventListener("change", (event) => {
  const file = event.target.closest("section[data-file]");
  if (file === null) return;
  const box = boxOf(file), parts = partsOf(file);
  if (event.target === box) parts.forEach((part) => { part.checked = box.checked; });
  if (event.target.name === "part") box.checked = parts.some((part) => part.checked);
  if (event.target.matches("[data-viewed]")) view(file, event.target.checked);
  show(file);
  count();
});

// Viewed files are known by the digest of their change: one that has changed since is not viewed any more.
function viewed() {
  try {
    return new Set(JSON.parse(localStorage.getItem(VIEWED) ?? "[]"));
  } catch {
    return new Set();
  }
}

function view(file, is) {
  const known = viewed();
  known.delete(file.dataset.file);
  if (is) known.add(file.dataset.file);
  try {
    localStorage.setItem(VIEWED, JSON.stringify([...known].slice(-MOST_VIEWED)));
  } catch { /* a browser that keeps nothing shows it until the page is left */ }
  file.querySelector("details.body").open = !is;
  mark(file, is);
}

function mark(file, is) {
  file.querySelector("[data-viewed]").checked = is;
  document.querySelector(`[data-of="${file.id}"]`)?.parentElement.classList.toggle("is-viewed", is);
  const told = document.querySelector("[data-seen]"), all = files();
  if (told === null) return;
  const seen = all.filter((one) => one.querySelector("[data-viewed]").checked).length;
  told.textContent = `${seen} of ${all.length} viewed`;
}

// A click on a line of the new text opens a comment on it.
form.addEventListener("click", (event) => {
  const line = event.target.closest(".part-of-file .new .line[data-n]");
  if (line === null || String(getSelection()) !== "") return;
  const fold = line.closest("section").querySelector("details.comment");
  if (fold === null) return;
  const boxes = [...fold.querySelectorAll(".comment-box")];
  let box = boxes.find((one) => one.querySelector("textarea").value === "");
  if (box === undefined) {
    box = boxes[0].cloneNode(true);
    box.querySelector("textarea").value = "";
    fold.append(box);
  }
  fold.open = true;
  box.querySelector('input[name="comment-line"]').value = line.dataset.n;
  box.querySelector("textarea").focus();
});

let current = null;

function go(step) {
  const all = files(), at = all.indexOf(document.activeElement?.closest("section[data-file]") ?? current);
  current = all[Math.min(Math.max(at + step, 0), all.length - 1)];
  if (current === undefined) return;
  current.scrollIntoView({ block: "start" });
  current.querySelector('summary, input:not([type="hidden"])')?.focus({ preventScroll: true });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest('input:not([type="checkbox"]), textarea, select, dialog[open]') !== null) return;
  const file = document.activeElement?.closest("section[data-file]") ?? current;
  if (event.key === "n" || event.key === "p") go(event.key === "n" ? 1 : -1);
  else if (event.key === "v" && file !== null) file.querySelector("[data-viewed]").click();
  else if (event.key === "x" && file !== null) boxOf(file)?.click();
  else return;
  event.preventDefault();
});

function begin() {
  const known = viewed();
  for (const file of files()) {
    file.querySelector("label.viewed").hidden = false;
    const is = known.has(file.dataset.file);
    if (is) file.querySelector("details.body").open = false;
    mark(file, is);
    show(file);
  }
  count();
}

// Parts of a file that was opened later follow the box of their file.
new MutationObserver((changes) => {
  for (const change of changes) {
    const file = change.target.closest?.("section[data-file]");
    if (file !== null && file !== undefined && change.addedNodes.length > 0) show(file);
  }
}).observe(form, { childList: true, subtree: true });

window.addEventListener("pageshow", begin);
begin();
