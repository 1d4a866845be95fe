// The live tail of events: rows are added as events arrive. While it is paused, events are counted and kept.
"use strict";

(() => {
  const tail = document.querySelector("[data-tail]");
  if (!tail) return;
  const one = (selector) => document.querySelector(selector);
  const limit = Number(tail.dataset.limit);
  const [pause, state] = [one("[data-pause]"), one(".live")];
  let paused = false;
  let kept = [];
  let missed = 0;

  const create = (name, properties) => Object.assign(document.createElement(name), properties);
  const link = (folder, id) => id ? create("a", { href: `/${folder}/${id}`, className: "id", title: id, textContent: `…${id.slice(-12)}` }) : "";

  function row(event) {
    const cells = [
      create("time", { dateTime: event.at, title: event.at, textContent: event.at.slice(11, 23) }),
      create("a", { href: `/events?types=${encodeURIComponent(event.type)}`, textContent: event.type }),
      link("executions", event.execution),
      // An execution that was submitted alone is its own flow.
      link("flows", event.flow === event.execution ? null : event.flow),
      create("span", { className: "user-text", textContent: event.actor ?? "" }),
      create("span", { className: "user-text clip wide", textContent: JSON.stringify(event.data) }),
    ];
    const row = create("tr", { className: "changed" });
    row.append(...cells.map((content) => { const cell = document.createElement("td"); cell.append(content); return cell; }));
    return row;
  }

  function show(events) {
    one("[data-no-events]")?.remove();
    for (const event of events) tail.prepend(row(event));
    while (tail.rows.length > limit) tail.deleteRow(-1);
  }

  function label() {
    pause.textContent = paused ? `Continue${missed > 0 ? ` (${missed} new)` : ""}` : "Pause";
    pause.setAttribute("aria-pressed", String(paused));
  }

  const stream = new EventSource(tail.dataset.tail);
  const say = (on) => { state.classList.toggle("on", on && !paused); state.textContent = on ? (paused ? "Paused" : "Live") : "Not connected; trying again"; };
  stream.addEventListener("open", () => say(true));
  stream.addEventListener("error", () => say(false));
  const arrive = (message) => {
    const event = JSON.parse(message.data);
    if (!paused) { show([event]); return; }
    missed += 1;
    kept = [...kept, event].slice(-limit);
    label();
  };
  for (const type of tail.dataset.types.split(" ")) stream.addEventListener(type, arrive);
  pause?.addEventListener("click", () => {
    paused = !paused;
    if (!paused) { show(kept); kept = []; missed = 0; }
    label();
    say(stream.readyState === EventSource.OPEN);
  });
})();
