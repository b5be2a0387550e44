"use strict";
// Ticks: one box for all rows of a table, and the number of ticked rows on the buttons.

const form = document.getElementById("many");
const boxes = () => [...form.querySelectorAll('input[name="question"]')];

function count() {
  const ticked = boxes().filter((box) => box.checked).length;
  for (const button of form.querySelectorAll("[data-ticked]")) {
    button.textContent = `${button.dataset.ticked} ${ticked} selected …`;
    button.disabled = ticked === 0;
  }
  for (const all of form.querySelectorAll("[data-all]")) {
    const own = [...all.closest("table").querySelectorAll('input[name="question"]')];
    all.checked = own.every((box) => box.checked);
    all.indeterminate = !all.checked && own.some((box) => box.checked);
  }
}

for (const all of form.querySelectorAll("[data-all]")) {
  all.closest("label").hidden = false;
  all.addEventListener("change", () => {
    all.closest("table").querySelectorAll('input[name="question"]').forEach((box) => { box.checked = all.checked; });
    count();
  });
}
form.addEventListener("change", count);
window.addEventListener("pageshow", count);
