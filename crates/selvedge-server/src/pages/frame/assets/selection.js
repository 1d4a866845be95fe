// The selection of executions in a list, and what is done with it. Each action begins with its dry run; what matches a filter, beyond the page, is done by a
// bulk job, whose progress the page shows.
"use strict";

(() => {
  const bar = document.getElementById("selection");
  if (!bar) return;
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const one = (selector, root = document) => root.querySelector(selector);
  const { request, toast, refuse, clear } = window.selvedge;
  const dialog = document.getElementById("selection-dialog");
  const form = one("form", dialog);
  const [outlook, apply] = [one("[data-outlook]", form), one("[data-apply]", form)];
  const boxes = () => all("input[name=ids]");
  const chosen = () => boxes().filter((box) => box.checked).map((box) => box.value);
  const number = (count) => count.toLocaleString("en").replaceAll(",", "\u202f");
  const executions = (count) => `${number(count)} ${count === 1 ? "execution" : "executions"}`;
  const PAST = { cancel: "cancelled", replay: "replayed", priority: "given another priority" };
  const LABEL = { cancel: "Cancel", replay: "Replay", priority: "Change" };
  let matching = false;
  let action = "cancel";
  let round = 0;

  // The filter of the list, as the server read it; its newest time is that of the last refresh.
  const matched = () => JSON.parse(document.getElementById("total").dataset.matching);

  function show() {
    const [count, shown] = [chosen().length, boxes().length];
    const { total, more } = matched();
    const everyMatch = more ? "all that match" : `all ${number(total)} that match`;
    if (count < shown) matching = false;
    bar.hidden = count === 0;
    one("[data-count]", bar).textContent = matching ? `Selected: ${everyMatch}` : `${executions(count)} selected`;
    const widen = one("[data-widen]", bar);
    widen.hidden = matching || count < shown || (total <= shown && !more);
    widen.textContent = `Select ${everyMatch}`;
    const every = one("[data-every]");
    if (every) { every.checked = count > 0 && count === shown; every.indeterminate = count > 0 && count < shown; }
  }

  function asked() {
    const fields = { type: action };
    if (action === "priority") fields.priority = Number(form.elements["action.priority"].value);
    if (action === "cancel" && form.elements["action.reason"].value) fields.reason = form.elements["action.reason"].value;
    return fields;
  }

  function target() {
    if (!matching) return { ids: chosen() };
    const { filter } = matched();
    return Object.keys(filter).length > 0 ? { filter } : { all: true };
  }

  async function dryRun() {
    const mine = ++round;
    apply.disabled = true;
    clear(form);
    outlook.textContent = "Looking at what would change …";
    try {
      const answer = await request("POST", "/v1/executions/bulk", { action: asked(), ...target(), dry_run: true });
      if (mine !== round) return;
      const lines = [`${executions(answer.would_change)} would be ${PAST[action]}.`];
      if (answer.unchanged > 0) lines.push(`${executions(answer.unchanged)} would stay as ${answer.unchanged === 1 ? "it is" : "they are"}.`);
      if (answer.not_found.length > 0) lines.push(`${executions(answer.not_found.length)} no longer exist.`);
      const reasons = new Map();
      for (const { code, detail } of answer.refused) reasons.set(code, [(reasons.get(code)?.[0] ?? 0) + 1, detail]);
      for (const [code, [count, detail]] of reasons) lines.push(`${executions(count)} refused (${code}): ${detail}`);
      outlook.replaceChildren(...lines.map((line) => Object.assign(document.createElement("li"), { textContent: line })));
      apply.disabled = answer.would_change === 0;
      apply.textContent = answer.would_change === 0 ? "Nothing to do" : `${LABEL[action]} ${executions(answer.would_change)}`;
    } catch (error) {
      if (mine !== round) return;
      if (error.code === "too_many") {
        outlook.textContent = "More than 10\u202f000 match, so how many would change is not counted. A bulk job looks at each of them in the background; it can be stopped.";
        apply.disabled = false;
        apply.textContent = `${LABEL[action]} all that match`;
      } else {
        outlook.textContent = "";
        refuse(form, error);
      }
    }
  }

  async function run() {
    apply.disabled = true;
    try {
      if (matching) {
        await request("POST", "/v1/bulk-jobs", { action: asked(), ...target() });
        toast("The bulk job has begun. Its progress is above the list.", true);
      } else {
        const answer = await request("POST", "/v1/executions/bulk", { action: asked(), ...target() });
        const refused = answer.refused.length > 0 ? `, ${answer.refused.length} refused` : "";
        toast(`${executions(answer.done)} ${PAST[action]}${refused}.`, true);
      }
      dialog.close();
      unselect();
      document.dispatchEvent(new Event("selvedge:changed"));
    } catch (error) {
      refuse(form, error);
      apply.disabled = false;
    }
  }

  function unselect() {
    matching = false;
    boxes().forEach((box) => { box.checked = false; });
    show();
  }

  bar.addEventListener("click", ({ target: button }) => {
    if (button.matches("[data-widen]")) { matching = true; show(); }
    if (button.matches("[data-unselect]")) unselect();
    if (!button.dataset.action) return;
    action = button.dataset.action;
    one("h2", form).textContent = `${LABEL[action]}${action === "priority" ? " the priority of" : ""} the selected executions`;
    apply.className = action === "cancel" ? "danger" : "primary";
    for (const field of all("[data-shown-for]", form)) field.hidden = field.dataset.shownFor !== action;
    dialog.addEventListener("close", () => button.focus(), { once: true });
    dialog.showModal();
    dryRun();
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); run(); });
  form.addEventListener("change", (event) => { if (event.target.name === "action.priority") dryRun(); });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-every]")) boxes().forEach((box) => { box.checked = event.target.checked; });
    if (event.target.matches("[data-every], input[name=ids]")) show();
  });
  document.addEventListener("selvedge:replaced", show);
  show();
})();
