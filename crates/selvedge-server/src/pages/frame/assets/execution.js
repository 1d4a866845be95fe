// The script of the page of an execution: the live log of its running attempt, and the form that submits it again.
"use strict";

(() => {
  const { say, hold } = globalThis.selvedge;
  const element = (name, className, text) => Object.assign(document.createElement(name), { className, textContent: text });

  // The live log: frames are appended as they come, and the oldest rows are removed, so that the page stays small. It shows its end, unless
  // the person scrolls up; then rows stay where they are.

  // The distance from its end at which a log still follows, and the most rows of one that does not.
  const NEAR_END_PX = 24;
  const ROWS_MAX = 5000;
  // The control codes of terminals, as in `terminal.rs`.
  const CODES = /\x1b(?:\[[0-?]*[ -/]*(?:[@-~]|$)|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~]|)/g;

  let stream = null;
  let follows = true;
  let unseen = 0;
  let top = 0;

  function showEnd() {
    const log = document.querySelector("#frames .log");
    if (!log) return;
    [follows, unseen] = [true, 0];
    trim(log);
    log.scrollTop = log.scrollHeight;
    top = log.scrollTop;
    showState();
  }

  function trim(log) {
    const rows = log.querySelector("tbody");
    while (rows.rows.length > (follows ? Number(log.dataset.limit) : ROWS_MAX)) rows.deleteRow(0);
  }

  function showState() {
    const button = document.querySelector("[data-log-end]");
    if (!button) return;
    button.hidden = follows;
    button.textContent = unseen > 0 ? `↓ Go to the end (${unseen} new)` : "↓ Go to the end";
  }

  document.addEventListener("scroll", ({ target: log }) => {
    if (!log.matches?.("#frames .log")) return;
    const [before, rest] = [top, log.scrollHeight - log.scrollTop - log.clientHeight];
    top = log.scrollTop;
    // The first pixel upwards counts: a smooth movement begins with small steps.
    if (top < before && rest > 1) follows = false;
    else if (!follows && rest < NEAR_END_PX) showEnd();
    showState();
  }, true);
  document.addEventListener("click", (event) => { if (event.target.closest?.("[data-log-end]")) showEnd(); });

  function follow() {
    stream?.close();
    stream = null;
    const log = document.querySelector("[data-frames]");
    if (!log || document.hidden) return;
    const address = new URL(log.dataset.frames, location.origin);
    if (log.dataset.after !== undefined) address.searchParams.set("after", log.dataset.after);
    stream = new EventSource(address);
    stream.addEventListener("frame", (message) => append(log, JSON.parse(message.data)));
    stream.addEventListener("closed", () => {
      stream?.close();
      const state = document.querySelector(".tail-state");
      if (state) state.textContent = "The attempt has ended.";
    });
  }

  function append(log, frame) {
    if (Number(log.dataset.after ?? -1) >= frame.number) return;
    log.dataset.after = frame.number;
    const row = document.createElement("tr");
    const text = typeof frame.data === "string" ? frame.data.replace(CODES, "").replace(/\n+$/, "") : JSON.stringify(frame.data);
    const data = document.createElement("td");
    data.append(element("pre", "user-text", text.length > 4000 ? `${text.slice(0, 4000)}…` : text));
    row.append(element("td", "number faint", frame.number), element("td", "nowrap faint", frame.at.slice(11, 23)), element("td", "faint", frame.kind), data);
    log.querySelector("tbody").append(row);
    if (follows) { showEnd(); return; }
    trim(log);
    unseen += 1;
    showState();
  }

  // The log of a running attempt is not replaced by the page's updates, except when another attempt begins or it ends.
  document.addEventListener("selvedge:replaced", (event) => {
    const [old, fresh] = [document.getElementById("frames"), event.detail.getElementById("frames")];
    if (!fresh) return;
    const isSameAttempt = old?.dataset.attempt === fresh.dataset.attempt;
    if (!old) {
      document.getElementById("payloads")?.after(document.adoptNode(fresh));
    } else if (old.hasAttribute("data-live") ? fresh.querySelector("[data-frames]") : !isSameAttempt || fresh.hasAttribute("data-live")) {
      // A log that ends stays while somebody reads in it.
      if ((isSameAttempt && !follows) || hold(old)) return;
      old.replaceWith(document.adoptNode(fresh));
    } else {
      return;
    }
    showEnd();
    follow();
  });
  document.addEventListener("visibilitychange", follow);
  showEnd();
  follow();

  // Submitting again. The same content has the same key, so that a second click or a retry returns the first submission.

  const key = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  const sent = { content: null, key: null };

  function fail(form, name, text) {
    const field = form.elements[name];
    if (!field) { say(form, text, false); return; }
    field.setAttribute("aria-invalid", "true");
    document.getElementById(`again-${name}`).textContent = text;
    field.focus();
  }

  // Returns the parts of the stored submission that are kept, as members of JSON.
  function kept(form) {
    const [members, lists] = [[], new Map()];
    for (const { dataset: { kept: field, member, json } } of form.querySelectorAll("[data-kept]:checked")) {
      if (member === undefined) members.push(`"${field}":${json}`); else lists.set(field, [...lists.get(field) ?? [], json]);
    }
    return [...members, ...Array.from(lists, ([field, values]) => `"${field}":[${values.join(",")}]`)];
  }

  // Returns the body of the submission. The input and what is kept are sent as they are written: parsing them would change numbers.
  function read(form) {
    const { kind, lane, priority, input, tags } = form.elements;
    if (input.dataset.leftOut !== undefined && !input.value.trim()) { fail(form, "input", "The stored input is too large for this form. Paste one, or write null"); return null; }
    const text = input.value.trim() || "null";
    try { JSON.parse(text); } catch (error) { fail(form, "input", `This is no JSON: ${error.message}`); return null; }
    const pairs = {};
    for (const line of tags.value.split("\n").filter((line) => line.trim())) {
      const colon = line.indexOf(":");
      if (colon < 1) { fail(form, "tags", `“${line.trim().slice(0, 40)}” has no colon; write name: value`); return null; }
      pairs[line.slice(0, colon).trim()] = line.slice(colon + 1).trim();
    }
    const fields = { kind: kind.value.trim(), lane: lane.value.trim(), tags: pairs };
    if (priority.value !== "") fields.priority = Number(priority.value);
    return `${[JSON.stringify(fields).slice(0, -1), ...kept(form), `"input":${text}`].join(",")}}`;
  }

  document.addEventListener("submit", async (event) => {
    const form = event.target.closest("[data-again]");
    if (!form) return;
    event.preventDefault();
    for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
    for (const error of form.querySelectorAll(".field-error")) error.textContent = "";
    const content = read(form);
    if (content === null) return;
    if (sent.content !== content) Object.assign(sent, { content, key: key() });
    const button = form.querySelector("button.primary");
    button.disabled = true;
    try {
      const headers = { "content-type": "application/json", "idempotency-key": sent.key };
      const response = await fetch("/v1/executions", { method: "POST", headers, body: content });
      const answer = await response.json().catch(() => ({}));
      if (response.ok && answer.execution.id === form.dataset.again) {
        // A further click is a call of its own: by then the execution may have ended.
        sent.content = null;
        say(form, "Nothing was submitted: this execution has not ended, and only one may be active with its key. Clear the box of the key to submit another.", false);
        button.disabled = false;
        return;
      }
      if (response.ok) { location.assign(`/executions/${answer.execution.id}`); return; }
      const name = (answer.pointer ?? "").split("/")[1] ?? "";
      fail(form, name, answer.detail ?? `The server answered with status ${response.status}.`);
    } catch {
      say(form, "The server cannot be reached. Submit again: it remains one submission.", false);
    }
    button.disabled = false;
  });
})();
