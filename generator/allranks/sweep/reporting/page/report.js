// Sorting, filtering, and finding one trial in all pictures. The page is complete without it.
"use strict";
(() => {
  const trials = new Map(JSON.parse(document.getElementById("trials").textContent));
  const body = document.body;
  const rows = document.getElementById("rows");
  const tip = document.getElementById("tip");

  // The rows and marks of each trial.
  const marks = new Map();
  for (const each of document.querySelectorAll("[data-t]")) {
    const number = each.dataset.t;
    if (!marks.has(number)) marks.set(number, []);
    marks.get(number).push(each);
  }

  let shown = null;
  let pinned = null;
  function show(number) {
    if (number === shown) return;
    for (const each of marks.get(shown) || []) each.classList.remove("on");
    shown = number;
    for (const each of marks.get(shown) || []) each.classList.add("on");
    body.classList.toggle("lit", shown !== null);
  }
  function pin(number) {
    pinned = number === pinned ? null : number;
    show(pinned);
    remember();
  }

  // Bring the pinned trial's row into view inside of the table, without moving the page.
  function reveal() {
    const row = [...(marks.get(pinned) || [])].find((each) => each.parentNode === rows);
    const frame = rows.closest(".rows");
    if (row) frame.scrollTop = row.offsetTop - frame.clientHeight / 2;
  }

  function explain(number, x, y) {
    const said = trials.get(Number(number));
    if (!said) return;
    const head = document.createElement("b");
    head.textContent = said[0];
    tip.replaceChildren(head, document.createTextNode(said.slice(1).join("\n")));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 16 + box.width > innerWidth ? x - 16 - box.width : x + 16;
    const top = y + 16 + box.height > innerHeight ? y - 16 - box.height : y + 16;
    tip.style.left = `${Math.max(4, Math.min(left, innerWidth - box.width - 4))}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  }
  document.addEventListener("pointermove", (event) => {
    const mark = event.target.closest("[data-t]");
    show(mark ? mark.dataset.t : pinned);
    if (mark && mark.closest("svg")) explain(mark.dataset.t, event.clientX, event.clientY);
    else tip.hidden = true;
  });
  document.addEventListener("click", (event) => {
    const mark = event.target.closest("[data-t]");
    if (!mark || String(getSelection())) return;
    pin(mark.dataset.t);
    tip.hidden = pinned === null || !mark.closest("svg");
    if (tip.hidden) return;
    reveal();
    explain(pinned, event.clientX, event.clientY); // a finger does not point before it taps
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    tip.hidden = true;
    if (pinned !== null) pin(pinned);
  });

  // Sorting. A cell's data-k is its number; cells without a value come last either way.
  const heads = [...document.querySelectorAll("#table thead th")];
  const collator = new Intl.Collator(undefined, { numeric: true });
  let sorted = null;
  function key(row, at) {
    const cell = row.cells[at];
    if (cell.dataset.k !== undefined) return Number(cell.dataset.k);
    return cell.dataset.none === undefined ? cell.textContent : null;
  }
  function compare(one, other) {
    if (one === null || other === null) return 0;
    if (typeof one === "number" && typeof other === "number") return one - other;
    return collator.compare(String(one), String(other));
  }
  function sort(at, descending) {
    const sign = descending ? -1 : 1;
    const keyed = [...rows.rows].map((row) => [key(row, at), row]);
    keyed.sort(([one], [other]) => (one === null) - (other === null) || sign * compare(one, other));
    rows.append(...keyed.map(([, row]) => row));
    heads.forEach((head, place) => {
      if (place === at) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    sorted = [at, descending];
  }
  heads.forEach((head, at) => {
    head.querySelector("button").addEventListener("click", () => {
      sort(at, sorted !== null && sorted[0] === at ? !sorted[1] : head.dataset.first === "down");
      remember();
    });
  });

  for (const chip of document.querySelectorAll(".chips button")) {
    chip.addEventListener("click", () => {
      const off = chip.getAttribute("aria-pressed") === "true";
      chip.setAttribute("aria-pressed", String(!off));
      for (const row of rows.rows) if (row.dataset.state === chip.dataset.state) row.hidden = off;
    });
  }

  // The address keeps the order and the pinned trial, so that a view can be sent to somebody.
  function remember() {
    const parts = [];
    if (sorted !== null) parts.push(`sort=${sorted[0]}${sorted[1] ? "-down" : ""}`);
    if (pinned !== null) parts.push(`trial=${pinned}`);
    history.replaceState(null, "", `#${parts.join("&")}`);
  }
  const asked = new URLSearchParams(location.hash.slice(1));
  const order = /^(\d{1,4})(-down)?$/.exec(asked.get("sort") || "");
  if (order && Number(order[1]) < heads.length) sort(Number(order[1]), order[2] !== undefined);
  if (marks.has(asked.get("trial"))) pin(asked.get("trial"));
})();
