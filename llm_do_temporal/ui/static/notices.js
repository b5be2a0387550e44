"use strict";
// Notifications while a page is open, for whoever has switched them on. Permission is asked for by a click only.

const WANTED = "llm-do-notices", SEEN = "llm-do-newest";
const ASK_MS = 10_000;
const button = document.getElementById("notices");

const isOn = () => localStorage.getItem(WANTED) === "on" && Notification.permission === "granted";

function show() {
  button.setAttribute("aria-pressed", String(isOn()));
  button.textContent = isOn() ? "Notifying" : "Notify me";
}

async function look() {
  if (!isOn()) return;
  const answer = await fetch("/waiting");
  if (!answer.ok) return;
  const { waiting, newest } = await answer.json();
  if (newest === null || newest.asked <= (localStorage.getItem(SEEN) ?? "")) return;
  const isFirst = localStorage.getItem(SEEN) === null;
  localStorage.setItem(SEEN, newest.asked);
  if (isFirst || document.hasFocus()) return;
  const title = waiting === 1 ? "A call waits for you" : `${waiting} calls wait for you`;
  const notice = new Notification(title, { body: newest.summary, tag: "llm-do-waiting" });
  notice.onclick = () => { window.focus(); location.assign(newest.address); };
}

if (button !== null && window.isSecureContext && "Notification" in window) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    const wanted = !isOn();
    if (wanted && Notification.permission === "default") await Notification.requestPermission();
    localStorage.setItem(WANTED, wanted ? "on" : "off");
    localStorage.removeItem(SEEN);
    show();
    look().catch(() => {});
  });
  show();
  setInterval(() => { look().catch(() => {}); }, ASK_MS);
}
