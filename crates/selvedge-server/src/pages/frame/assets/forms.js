// Forms that call the API, and the dialogs in which they stand.
//
// A form with `data-call="METHOD /path"` calls the API with its fields as JSON; `{name}` in the path stands for the field `name`. A field
// `rate.count` is the member `count` of the object `rate`. `data-type` says how text becomes JSON, `data-empty="null"` that an empty field
// is sent as null, which lifts a limit. The detail of a refusal is shown beside the field that its `pointer` names. `data-confirm` on a
// form or a button is a question that is asked first, also of forms that do not call the API; `data-keep` is the label that declines.
"use strict";

(() => {
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const one = (selector, root = document) => root.querySelector(selector);
  const create = (name, properties, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };

  // A refusal, of the API or of this script: the detail, and the JSON pointer to the field.
  class Refusal extends Error {
    constructor(detail, pointer) { super(detail); this.pointer = pointer; }
  }

  // JSON text that is sent as it was typed, so that no digit of a number is lost.
  class Typed {
    constructor(text) { this.text = text; }
  }

  function written(value) {
    if (value instanceof Typed) return value.text;
    if (Array.isArray(value)) return `[${value.map(written).join(",")}]`;
    if (value === null || typeof value !== "object") return JSON.stringify(value);
    const members = Object.entries(value).filter(([, member]) => member !== undefined);
    return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${written(member)}`).join(",")}}`;
  }

  const UNITS = { ms: 1, s: 1000, min: 60_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

  // Returns the milliseconds of a text such as 90s or 1h 30min.
  function milliseconds(text) {
    const parts = Array.from(text.matchAll(/(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)(?![a-z])/g));
    const rest = parts.reduce((left, [part]) => left.replace(part, ""), text).trim();
    if (parts.length === 0 || rest !== "") throw new Error("must be a number with a unit, such as 30s, 15min, 1h or 7d");
    return Math.round(parts.reduce((sum, [, count, unit]) => sum + Number(count) * UNITS[unit], 0));
  }

  function valueOf(input) {
    const text = input.value.trim();
    if (text === "") return input.dataset.empty === "null" ? null : undefined;
    switch (input.dataset.type) {
      case "number":
        if (!/^-?\d+(\.\d+)?$/.test(text)) throw new Error("must be a number");
        return new Typed(text.replace(/^(-?)0+(?=\d)/, "$1"));
      case "duration": return milliseconds(text);
      case "json":
        try { JSON.parse(text); } catch (error) { throw new Error(`is not JSON: ${error.message}`); }
        return new Typed(text);
      case "time": return new Date(text).toISOString();
      case "list": return text.split(/[\s,]+/).filter(Boolean);
      default: return input.value;
    }
  }

  // Reads a field; a refusal names it.
  function read(input, pointer) {
    try { return valueOf(input); } catch (error) { throw new Refusal(error.message, pointer); }
  }

  function put(body, name, value) {
    const path = name.split(".");
    const last = path.pop();
    let target = body;
    for (const part of path) target = target[part] ??= {};
    target[last] = value;
  }

  // An object of nulls alone is null: a rate without count and window is no rate.
  function lifted(value) {
    if (value === null || typeof value !== "object" || Array.isArray(value) || value instanceof Typed) return value;
    const members = Object.entries(value).map(([name, member]) => [name, lifted(member)]);
    return members.length > 0 && members.every(([, member]) => member === null) ? null : Object.fromEntries(members);
  }

  function bodyOf(form, button) {
    const body = {};
    for (const input of form.elements) {
      if (!input.name || input.disabled || input.tagName === "BUTTON" || input.dataset.path !== undefined || input.closest("[data-row]")) continue;
      const pointer = `/${input.name.replaceAll(".", "/")}`;
      if (input.closest("[data-shown-for]")?.hidden) {
        if (input.dataset.empty === "null") put(body, input.name, null);
      } else if (input.type === "checkbox" && input.dataset.type === "set") {
        const set = body[input.name] ??= [];
        if (input.checked) set.push(input.value);
      } else if (input.type === "checkbox") {
        put(body, input.name, input.checked);
      } else {
        const value = read(input, pointer);
        if (value !== undefined) put(body, input.name, value);
      }
    }
    if (button?.name) put(body, button.name, button.value);
    for (const group of all("[data-rows]", form)) {
      const members = body[group.dataset.rows] = {};
      for (const row of all("[data-row]", group)) {
        const key = one("[data-row-key]", row).value.trim();
        if (key === "") continue;
        const member = members[key] = {};
        for (const input of all("[data-row-field]", row)) {
          const field = input.dataset.rowField;
          member[field] = read(input, `/${group.dataset.rows}/${key}/${field}`);
        }
      }
    }
    const sent = Object.entries(body).map(([name, value]) => [name, name === "limits" ? value : lifted(value)]);
    return Object.fromEntries(sent);
  }

  // Calls the API. Throws a refusal.
  async function request(method, path, body) {
    const options = { method, headers: {} };
    if (body !== undefined) {
      options.headers["content-type"] = method === "PATCH" ? "application/merge-patch+json" : "application/json";
      options.body = written(body);
    }
    let response;
    try {
      response = await fetch(path, options);
    } catch {
      throw new Refusal("The server cannot be reached. Nothing is known about the change; load the page again.");
    }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw Object.assign(new Refusal(answer.detail ?? `The server answered with status ${response.status}.`, answer.pointer), { code: answer.code });
    return answer;
  }

  // Replaces {name} of a path with the field of the form.
  function filled(form, path) {
    return path.replace(/\{(\w+)\}/g, (_, name) => {
      const text = form.elements[name].value.trim();
      if (text === "") throw new Refusal("is missing", `/${name}`);
      return encodeURIComponent(text);
    });
  }

  async function send(form, button) {
    clear(form);
    const isPreview = button?.hasAttribute("data-preview");
    const source = button?.dataset.call ? button : form;
    if (!await isConfirmed(source, button)) return;
    button?.setAttribute("disabled", "");
    try {
      const [method, template] = source.dataset.call.split(" ");
      const path = filled(form, template);
      const sendsBody = method !== "DELETE" && source.dataset.empty === undefined;
      const body = sendsBody ? bodyOf(form, button) : undefined;
      if (form.dataset.creates !== undefined && await exists(path)) throw new Refusal("is in use; choose another name, or change that one", "/name");
      if (isPreview) body.dry_run = true;
      const answer = await request(method, path, body);
      if (isPreview) {
        // A script of the page may show the preview itself.
        if (!form.dispatchEvent(new CustomEvent("selvedge:preview", { detail: answer, bubbles: true, cancelable: true }))) return;
        say(form, `${preview(answer)} Nothing has changed yet.`, true);
        return;
      }
      form.closest("dialog")?.close();
      const secret = answer[source.dataset.reveals];
      if (secret) await reveal(source.dataset.revealTitle, (source.dataset.revealPrefix ? location.origin + source.dataset.revealPrefix : "") + secret);
      if (source.dataset.after) { location.assign(filled(form, source.dataset.after)); return; }
      toast(outcome(button?.dataset.done ? button : source, answer), !("delivered" in answer) || answer.delivered);
      if (form.dataset.once !== undefined) settle(form, button);
      // Open details would hold what the call has changed.
      form.closest("[data-live] details")?.removeAttribute("open");
      document.dispatchEvent(new Event("selvedge:changed"));
    } catch (error) {
      refuse(form, error);
    } finally {
      button?.removeAttribute("disabled");
    }
  }

  // Asks the question of a button, or else of its form, if there is one.
  async function isConfirmed(source, button) {
    const { confirm, expect, keep } = button?.dataset.confirm ? button.dataset : source.dataset;
    return !confirm || await ask(confirm, button?.textContent.trim() ?? "Continue", expect, keep);
  }

  // Removes the controls of a card that can be used once, so that it holds no update any more.
  function settle(form, button) {
    const card = form.closest("article") ?? form;
    for (const part of all("form, details", card)) part.remove();
    card.append(create("p", { className: "faint", textContent: button.dataset.done }));
  }

  // Says what a replay or a change of many executions would do. A replay runs its own execution again, and reopens others.
  function preview(answer) {
    const counted = (count) => `${count} ${count === 1 ? "execution" : "executions"}`;
    if (!answer.would_reopen) return `This would change ${counted(answer.would_change ?? 0)}.`;
    const reopened = answer.would_reopen.length;
    return reopened === 0 ? "This execution runs again; nothing else is reopened." : `This execution runs again, and ${counted(reopened)} of its flow ${reopened === 1 ? "is" : "are"} reopened.`;
  }

  // Says what a call did; a test of a webhook succeeds also if the receiver fails.
  function outcome(source, answer) {
    if (!("delivered" in answer)) return source.dataset.done ?? "Done.";
    const status = answer.status ? `status ${answer.status}` : "no answer";
    return answer.delivered ? `The receiver accepted the test: ${status} after ${answer.took_ms} ms.` : `The receiver refused the test: ${answer.error ?? status}`;
  }

  async function exists(path) {
    try { await request("GET", path); return true; } catch (error) {
      if (error.code === "not_found") return false;
      throw error;
    }
  }

  // Messages.

  function say(form, text, good) {
    let message = one(".message", form);
    if (!message) {
      message = create("p", {});
      message.setAttribute("role", good ? "status" : "alert");
      form.append(message);
    }
    message.className = good ? "message good" : "message";
    message.textContent = text;
  }

  function clear(form) {
    one(".message", form)?.remove();
    all("[id^=field-error-]", form).forEach((error) => error.remove());
    for (const input of all("[aria-invalid]", form)) { input.removeAttribute("aria-invalid"); input.removeAttribute("aria-describedby"); }
  }

  // Returns the field at a pointer such as /rate/count or /limits/tokens/hard.
  function fieldAt(form, pointer) {
    const path = (pointer ?? "").split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
    const group = all("[data-rows]", form).find((group) => group.dataset.rows === path[0]);
    if (group) {
      const row = all("[data-row]", group).find((row) => one("[data-row-key]", row).value.trim() === path[1]);
      return row ? one(`[data-row-field="${CSS.escape(path[2] ?? "")}"]`, row) ?? one("[data-row-key]", row) : one("[data-row-key]", group);
    }
    for (let length = path.length; length > 0; length--) {
      const found = form.elements[path.slice(0, length).join(".")];
      const input = found instanceof RadioNodeList ? found[0] : found;
      if (input && input.type !== "hidden" && input.offsetParent !== null) return input;
    }
    return null;
  }

  let errors = 0;
  function refuse(form, error) {
    const input = fieldAt(form, error.pointer);
    if (!input) {
      // A live region outside of a dialog would soon be replaced, with the message.
      const isVisible = form.offsetParent !== null && (form.closest("dialog") || !form.closest("[data-live]"));
      if (isVisible) say(form, error.message, false); else toast(error.message, false);
      return;
    }
    // The detail of a problem begins with the pointer, which the place of the text says already.
    const detail = error.message.startsWith(`${error.pointer} `) ? error.message.slice(error.pointer.length + 1) : error.message;
    const text = create("span", { className: "field-error", id: `field-error-${++errors}`, textContent: detail });
    text.setAttribute("role", "alert");
    input.setAttribute("aria-invalid", "true");
    input.setAttribute("aria-describedby", text.id);
    (input.closest("[data-row]") ?? input.closest("label, fieldset") ?? input).append(text);
    input.focus();
  }

  function toast(text, good) {
    let shelf = one(".toasts");
    if (!shelf) {
      shelf = create("div", { className: "toasts" });
      shelf.setAttribute("role", "status");
      document.body.append(shelf);
    }
    const message = create("p", { className: good ? "message good" : "message", textContent: text });
    shelf.append(message);
    setTimeout(() => message.remove(), good ? 6000 : 15_000);
  }

  // Dialogs.

  // Asks a question. Resolves to true if the person confirms; `expected` must be typed for that.
  function ask(question, label, expected, keep) {
    const [yes, no] = [create("button", { className: keep ? "primary" : "danger", type: "submit", value: "yes", textContent: label }), create("button", { type: "submit", value: "no", textContent: keep ?? "Keep" })];
    const text = create("p", { textContent: question, id: "question" });
    const typed = expected ? [create("label", { textContent: `Type ${expected} to confirm` }, create("input", { type: "text", autocomplete: "off", oninput: (event) => { yes.disabled = event.target.value !== expected; } }))] : [];
    yes.disabled = Boolean(expected);
    const dialog = create("dialog", { className: "ask" }, create("form", { method: "dialog" }, text, ...typed, create("div", { className: "actions" }, yes, no)));
    dialog.setAttribute("aria-labelledby", "question");
    document.body.append(dialog);
    return new Promise((resolve) => {
      const from = document.activeElement;
      dialog.addEventListener("close", () => { resolve(dialog.returnValue === "yes"); dialog.remove(); giveBack(from); });
      dialog.showModal();
      (one("input", dialog) ?? no).focus();
    });
  }

  // Shows a secret that the server does not show again.
  function reveal(title, secret) {
    const field = create("input", { type: "text", readOnly: true, value: secret, className: "secret" });
    field.setAttribute("aria-label", title);
    const copy = create("button", { type: "button", className: "primary", textContent: "Copy" });
    const close = create("button", { type: "submit", textContent: "Close" });
    const state = create("span", { className: "faint" });
    state.setAttribute("role", "status");
    copy.addEventListener("click", async () => {
      field.select();
      try { await navigator.clipboard.writeText(secret); } catch { document.execCommand("copy"); }
      state.textContent = "Copied.";
    });
    const dialog = create("dialog", { className: "reveal" }, create("form", { method: "dialog" },
      create("h2", { textContent: title }), create("p", { textContent: "It is shown only now. Copy it to a safe place." }), field,
      create("div", { className: "actions" }, copy, close, state)));
    dialog.setAttribute("aria-label", title);
    document.body.append(dialog);
    return new Promise((resolve) => {
      dialog.addEventListener("close", () => { dialog.remove(); resolve(); });
      dialog.showModal();
      field.select();
    });
  }

  // What the focus returns to when a dialog closes. A live region may have replaced the element meanwhile.
  function giveBack(element) {
    if (!element || element === document.body) return;
    const key = element.dataset?.key;
    const target = element.isConnected ? element : key && one(`[data-key="${CSS.escape(key)}"]`);
    (target || one("#content"))?.focus({ preventScroll: true });
  }

  function open(opener) {
    const dialog = document.getElementById(opener.dataset.opens);
    if (!dialog) return;
    const form = one("form", dialog);
    if (form && opener.dataset.fill) fill(form, JSON.parse(opener.dataset.fill));
    if (form) { clear(form); choose(form); }
    dialog.addEventListener("close", () => giveBack(opener), { once: true });
    dialog.showModal();
    one("input:not([type=hidden]):not([readonly]):not([disabled]), select, textarea", dialog)?.focus();
  }

  // Fills a form with the values of what it changes. `call` and `title` replace those of the form.
  function fill(form, { call, title, after, values = {}, calls = {} }) {
    form.reset();
    const isChange = call !== undefined;
    form.dataset.call = call ?? (form.dataset.newCall ??= form.dataset.call);
    form.dataset.newCall ??= form.dataset.call;
    if (isChange) delete form.dataset.creates; else if (form.dataset.new !== undefined) form.dataset.creates = "";
    if (after) form.dataset.after = after; else delete form.dataset.after;
    const heading = one("h2", form);
    heading.dataset.text ??= heading.textContent;
    heading.textContent = title ?? heading.dataset.text;
    for (const button of all("button[data-for]", form)) {
      const target = calls[button.dataset.for];
      button.hidden = !target;
      if (target) { button.dataset.call = target.call; button.dataset.confirm = target.confirm; if (target.expect) button.dataset.expect = target.expect; if (target.after) button.dataset.after = target.after; }
    }
    for (const group of all("[data-rows]", form)) {
      all("[data-row]", group).forEach((row) => row.remove());
      const members = Object.entries(values[group.dataset.rows] ?? {});
      for (const [key, member] of members.length > 0 ? members : [["", {}]]) addRow(group, key, member);
    }
    for (const input of form.elements) {
      if (!input.name || input.closest("[data-row]")) continue;
      if (input.dataset.path !== undefined) input.readOnly = isChange;
      if (!(input.name in values)) continue;
      const value = values[input.name];
      if (input.type === "checkbox" && input.dataset.type === "set") input.checked = value.includes(input.value);
      else if (input.type === "checkbox") input.checked = value;
      else input.value = value ?? "";
    }
  }

  function addRow(group, key = "", member = {}) {
    const row = one("template", group).content.cloneNode(true).firstElementChild;
    one("[data-row-key]", row).value = key;
    for (const input of all("[data-row-field]", row)) input.value = member[input.dataset.rowField] ?? "";
    one("[data-add-row]", group).before(row);
    return row;
  }

  // Shows the fields of the chosen alternative.
  function choose(form) {
    const choice = one("[data-switch]", form);
    if (choice) for (const field of all("[data-shown-for]", form)) field.hidden = !field.dataset.shownFor.split(" ").includes(choice.value);
  }

  // Time zones that the browser knows, as suggestions.
  function suggestZones() {
    const list = one("datalist#time-zones");
    if (list && Intl.supportedValuesOf) list.append(...["UTC", ...Intl.supportedValuesOf("timeZone")].map((zone) => create("option", { value: zone })));
  }

  let confirmed = null;
  document.addEventListener("submit", async (event) => {
    const { target: form, submitter: button } = event;
    if (form.matches("form[data-call]")) {
      event.preventDefault();
      send(form, button);
    } else if (button?.dataset.confirm && button !== confirmed) {
      event.preventDefault();
      if (!await isConfirmed(form, button)) return;
      confirmed = button;
      form.requestSubmit(button);
      confirmed = null;
    }
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-switch]")) choose(event.target.form);
    if (event.target.matches("[data-submits]")) event.target.form.requestSubmit();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button");
    if (!button) return;
    if (button.dataset.opens) open(button);
    if (button.dataset.closes !== undefined) button.closest("dialog")?.close();
    if (button.dataset.addRow !== undefined) one("[data-row-key]", addRow(button.closest("[data-rows]"))).focus();
    if (button.dataset.removeRow !== undefined) { const group = button.closest("[data-rows]"); button.closest("[data-row]").remove(); one("[data-add-row]", group).focus(); }
    if (button.dataset.copies) {
      navigator.clipboard?.writeText(button.dataset.copies).then(() => toast("Copied.", true), () => toast("The browser does not let the page copy.", false));
    }
  });
  suggestZones();
  Object.assign(globalThis.selvedge, { request, toast, refuse, clear, say });
})();
