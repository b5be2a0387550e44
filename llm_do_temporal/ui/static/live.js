"use strict";
// What a model writes, while it writes (hidden.js puts it in as text); finished entries come from the server, escaped.

const live = document.getElementById("live");
const shown = live.querySelector("pre");
const entries = document.getElementById("entries");
let asking = Promise.resolve();

async function readOn() {
  const place = new URLSearchParams({ part: live.dataset.part, after: live.dataset.after });
  const answer = await fetch(`${live.dataset.entries}?${place}`);
  if (!answer.ok) return;
  entries.insertAdjacentHTML("beforeend", await answer.text());
  live.dataset.part = answer.headers.get("X-Part");
  live.dataset.after = answer.headers.get("X-After");
}

shown.scrollTop = shown.scrollHeight;
const source = new EventSource(live.dataset.stream);
source.addEventListener("tail", (event) => {
  const tail = JSON.parse(event.data);
  live.hidden = tail === null;
  writeOut(tailText(tail), shown);
});
source.addEventListener("grown", () => { asking = asking.then(readOn).catch(() => {}); });
source.addEventListener("end", () => { source.close(); live.hidden = true; });
