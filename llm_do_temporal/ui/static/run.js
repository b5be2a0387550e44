"use strict";
// The page of a run: what models write as they write it, a part of the timeline chosen by dragging over its axis, and
// what was opened stays open when the page renews itself.

const streams = new Map();
const opened = new Map();

// An answer is followed as long as the page shows it; the page itself finds the next one.
function follow(shown) {
  const address = shown.dataset.tail;
  if (streams.has(address)) return;
  const source = new EventSource(address);
  const stop = () => { source.close(); streams.delete(address); };
  streams.set(address, stop);
  source.addEventListener("tail", (event) => {
    const now = document.getElementById(shown.id);
    if (now === null) { stop(); return; }
    writeOut(tailText(JSON.parse(event.data)), now);
  });
  source.addEventListener("end", stop);
}

function renew() {
  const shown = [...document.querySelectorAll("[data-tail]")];
  const wanted = new Set(shown.map((one) => one.dataset.tail));
  [...streams].forEach(([address, stop]) => { if (!wanted.has(address)) stop(); });
  shown.forEach(follow);
  document.querySelectorAll("[data-copy][hidden]").forEach((button) => { button.hidden = false; });
  opened.forEach((open, id) => {
    const part = document.getElementById(id);
    if (part !== null && part.open !== open) part.open = open;
  });
}

document.addEventListener("click", (event) => {
  const part = event.target.closest("summary")?.parentElement;
  if (part?.id) opened.set(part.id, !part.open);
  const button = event.target.closest("[data-copy]");
  if (button === null) return;
  navigator.clipboard.writeText(button.dataset.copy).then(() => { button.textContent = "Copied"; });
});

let begun = null;

function share(event, axis) {
  const box = axis.getBoundingClientRect();
  return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
}

function mark(axis, from, to) {
  const chosen = axis.querySelector(".chosen") ?? document.createElementNS("http://www.w3.org/2000/svg", "rect");
  Object.entries({ class: "chosen", y: 0, height: "100%", x: `${from * 100}%`, width: `${(to - from) * 100}%` })
    .forEach(([name, value]) => chosen.setAttribute(name, value));
  axis.append(chosen);
}

document.addEventListener("pointerdown", (event) => {
  const axis = event.target.closest("[data-zoom]");
  if (axis === null) return;
  begun = { axis, at: share(event, axis) };
  event.preventDefault();
});
document.addEventListener("pointermove", (event) => {
  if (begun === null) return;
  const at = share(event, begun.axis);
  mark(begun.axis, Math.min(begun.at, at), Math.max(begun.at, at));
});
document.addEventListener("pointerup", (event) => {
  if (begun === null) return;
  const { axis, at } = begun;
  const ends = [at, share(event, axis)].sort((one, other) => one - other);
  begun = null;
  axis.querySelector(".chosen")?.remove();
  if (ends[1] - ends[0] < 0.01) return;
  const [from, length] = [Number(axis.dataset.from), axis.dataset.to - axis.dataset.from];
  const [first, last] = ends.map((end) => (from + end * length).toFixed(3));
  location.assign(axis.dataset.zoom.replace("FROM", first).replace("TO", last));
});

new MutationObserver(renew).observe(document.getElementById("tree").parentElement,
  { childList: true, subtree: true, attributeFilter: ["open", "hidden", "data-tail"] });
renew();
