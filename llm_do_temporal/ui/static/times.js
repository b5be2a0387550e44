"use strict";
// Times in the zone of whoever reads: pages have them in UTC. The exact time stands in the title of each.

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
    const said = time.getAttribute("datetime");
    // Histories have no zone in their times: they are UTC.
    const moment = new Date(/(Z|[+-]\d\d:?\d\d)$/.test(said) ? said : `${said}Z`);
    if (Number.isNaN(moment.getTime())) continue;
    time.dataset.local = "yes";
    const utc = time.title || time.textContent.trim();
    if (time.textContent.trim().endsWith(" UTC")) time.textContent = exact.format(moment);
    time.title = utc.endsWith(" UTC") ? `${exact.format(moment)} (${utc})` : exact.format(moment);
  }
}

localise(document);
// What htmx puts into the page later is in UTC, too.
new MutationObserver((changes) => {
  for (const change of changes) {
    for (const node of change.addedNodes) if (node.nodeType === Node.ELEMENT_NODE) localise(node.parentNode ?? node);
  }
}).observe(document.body, { childList: true, subtree: true });
