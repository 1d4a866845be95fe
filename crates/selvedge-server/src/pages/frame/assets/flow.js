// The script of the page of a flow: the scrubber, and the preview of a replay.
//
// Scrubber: the range has one step per change of the flow. Moving it loads the page of that moment and replaces the regions that differ;
// the address follows, so that it can be sent. Meanwhile live updates pause. "Now" continues them.
"use strict";

(() => {
  // The time in which "Play" replays a flow, and the least time between two pictures.
  const PLAY_MS = 6000;
  const FRAME_MS = 80;
  const { refresh, replace, say } = globalThis.selvedge;
  const form = document.querySelector("[data-scrubber]");
  const range = form?.elements.step;
  const body = document.body;
  let loading = false;
  let wanted = null;
  let playing = false;

  // Loads the moment that was asked for last.
  async function load() {
    if (loading) return;
    loading = true;
    try {
      while (wanted !== null) {
        const step = wanted;
        wanted = null;
        const address = new URL(location.pathname, location.origin);
        address.searchParams.set("step", step);
        const response = await fetch(address, { headers: { accept: "text/html" } });
        if (!response.ok) throw new Error(`status ${response.status}`);
        const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
        if (!body.dataset.paused) return;
        replace(fresh, true);
        history.replaceState(null, "", response.url);
      }
    } catch {
      stop();
      const moment = document.getElementById("moment");
      if (moment) moment.textContent = "This moment cannot be loaded. Move the slider to try again.";
    } finally {
      loading = false;
    }
  }

  function show(step) {
    body.dataset.paused = "yes";
    for (const sign of document.querySelectorAll(".live")) { sign.classList.remove("on"); sign.textContent = "Paused: a past moment"; }
    range.value = step;
    wanted = step;
    return load();
  }

  function now() {
    stop();
    delete body.dataset.paused;
    history.replaceState(null, "", location.pathname);
    refresh();
  }

  function stop() {
    playing = false;
    const button = form && form.querySelector("[data-play]");
    if (button) button.textContent = "▶ Play";
  }

  async function play() {
    if (playing) { stop(); return; }
    const last = Number(range.max);
    let step = Number(range.value) >= last ? 0 : Number(range.value);
    playing = true;
    form.querySelector("[data-play]").textContent = "❚❚ Pause";
    const stride = Math.max(1, Math.ceil(last / (PLAY_MS / FRAME_MS)));
    const pause = Math.max(FRAME_MS, Math.min(600, PLAY_MS / Math.max(last, 1)));
    while (playing) {
      const begin = performance.now();
      await show(step);
      if (step >= last) break;
      step = Math.min(last, step + stride);
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, pause - (performance.now() - begin))));
    }
    stop();
  }

  // Describes the moment to screen readers, and keeps the range as long as the flow.
  function describe() {
    const moment = document.getElementById("moment");
    if (!moment || !range) return;
    range.max = moment.dataset.steps;
    if (!body.dataset.paused) range.value = moment.dataset.step;
    range.setAttribute("aria-valuetext", moment.querySelector(".what")?.textContent ?? "");
    const back = moment.querySelector("[data-now]");
    if (back && body.dataset.liveEvents) back.onclick = (event) => { event.preventDefault(); now(); };
  }

  if (form) {
    range.addEventListener("input", () => { playing = false; show(Number(range.value)); });
    form.addEventListener("submit", (event) => event.preventDefault());
    form.querySelector("[data-play]").onclick = play;
    document.addEventListener("selvedge:replaced", describe);
    if (new URLSearchParams(location.search).has("at")) body.dataset.paused = "yes";
    describe();
  }

  // The dialog of a replay: the chosen node is part of the path of the call.
  document.addEventListener("change", (event) => {
    const select = event.target.closest?.("select[data-of-call]");
    if (select) select.form.dataset.call = `POST ${select.dataset.ofCall.replace("{}", select.value)}`;
  });
  document.addEventListener("selvedge:preview", (event) => {
    const reopened = event.detail.would_reopen;
    const select = event.target.querySelector("select[data-of-call]");
    if (!reopened || !select) return;
    event.preventDefault();
    for (const box of document.querySelectorAll(".would-reopen")) box.classList.remove("would-reopen");
    const names = [];
    for (const id of [select.value, ...reopened]) {
      const box = document.querySelector(`svg.selvedge-graph a[href="/executions/${id}"]`);
      box?.classList.add("would-reopen");
      if (id !== select.value) names.push(box?.dataset.name ?? `…${id.slice(-12)}`);
    }
    const others = names.length === 0 ? "no other node" : `${names.slice(0, 12).join(", ")}${names.length > 12 ? `, and ${names.length - 12} more` : ""}`;
    say(event.target, `This would run the node again and reopen ${others}. Nothing has changed yet.`, true);
  });
})();
