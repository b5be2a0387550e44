"use strict";
// Text of a model as nodes: put in as text, with the same characters written out that the server writes out, so that
// nothing hides and nothing turns the line around.

const hidden = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\uffa0]/u;

function writeOut(text, shown) {
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

const tailText = (tail) => (tail === null ? "" : (tail.chars > tail.text.length ? "…" : "") + tail.text);
