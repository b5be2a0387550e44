"use strict";
// What a model writes, while it writes. Its text is put in as text; finished entries come from the server, escaped.

const live = document.getElementById("live");
const shown = live.querySelector("pre");
const entries = document.getElementById("entries");
let asking = Promise.resolve();

// The same characters that the server writes out: nothing hides, and nothing turns the line around.
const hidden = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\uffa0]/u;

function writeOut(text) {
  const nodes = [];
  let plain = "";
  for (const char of text) {
    if (char === "\n" || char === "\t" || !hidden.test(char)) { plain += char; continue; }
    nodes.push(plain);
    plain = "";
    const mark = document.createElement("span");
    mark.className = "hidden-char";
    mark.textContent = `\\u{${char.codePointAt(0).toString(16)}}`;
    nodes.push(mark);
  }
  // Whoever has not scrolled back sees the newest.
  const atEnd = shown.scrollTop + shown.clientHeight >= shown.scrollHeight - 5;
  shown.replaceChildren(...nodes, plain);
  if (atEnd) shown.scrollTop = shown.scrollHeight;
}

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
  writeOut(tail === null ? "" : (tail.chars > tail.text.length ? "…" : "") + tail.text);
});
source.addEventListener("grown", () => { asking = asking.then(readOn).catch(() => {}); });
source.addEventListener("end", () => { source.close(); live.hidden = true; });
