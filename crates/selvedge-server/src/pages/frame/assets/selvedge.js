// The script of the web pages: live regions, pan and zoom, keys. Every page can be read without it. `forms.js` has the actions.
//
// Live regions: an element with an id and `data-live` is kept current. The body's `data-live-events` is the address of a stream
// that says "changed", at most once a second; then the page is fetched again and the live elements that differ are replaced. While
// the stream fails, the page is fetched every few seconds instead. An element in which a person works is held: it stays as it is until
// the person is done, and is fetched again then.
"use strict";

(() => {
  document.documentElement.classList.add("has-script");
  const POLL_MS = 5000;
  const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
  const one = (selector, root = document) => root.querySelector(selector);

  // Live regions.

  // The source of each live element as the server sent it: the script itself changes elements.
  const sources = new Map();
  let refreshing = false;
  let again = false;

  async function refresh() {
    // The past does not change.
    if (document.body.dataset.paused) return;
    if (refreshing) { again = true; return; }
    refreshing = true;
    try {
      const response = await fetch(location.href, { headers: { accept: "text/html" } });
      if (response.redirected && new URL(response.url).pathname === "/login") { location.reload(); return; }
      if (!response.ok) throw new Error(`status ${response.status}`);
      const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
      if (document.body.dataset.paused) return;
      replace(fresh);
      setLive(true);
    } catch {
      setLive(false);
    } finally {
      refreshing = false;
      if (again) { again = false; setTimeout(refresh, 1000); }
    }
  }

  // The ids of the elements that differ from the page of the server, but are held.
  const held = new Set();
  // The control that was pressed last. Its focus no longer holds its element, so that the person sees what it has changed.
  let pressed = null;

  const FIELDS = "input:not([type=checkbox], [type=radio], [type=hidden]), select, textarea";
  const CONTROLS = "a, button, input, select, summary, textarea";

  // Tells whether a field differs from what the server sent.
  function isChanged(field) {
    if (field.matches("[type=hidden], [type=range], dialog:not([open]) *")) return false;
    if (field.matches("[type=checkbox], [type=radio]")) return field.checked !== field.defaultChecked;
    if (field.tagName !== "SELECT") return field.value !== field.defaultValue;
    const options = Array.from(field.options);
    return field.selectedIndex !== Math.max(0, options.findIndex((option) => option.defaultSelected));
  }

  // Tells whether a person fills something in.
  function isEdited(element) {
    const isTyped = element.contains(document.activeElement) && document.activeElement.matches(FIELDS);
    return isTyped || Boolean(one("dialog[open]", element) ?? one("dialog.ask[open]")) || all("input, select, textarea", element).some(isChanged);
  }

  // Tells whether a person fills something in, is there with the keyboard, has opened details or has selected text.
  function isHeld(element) {
    const [focused, selection] = [document.activeElement, document.getSelection()];
    const isVisited = element.contains(focused) && focused !== pressed && focused.matches(":focus-visible");
    const isSelected = selection !== null && !selection.isCollapsed && selection.containsNode(element, true);
    const other = element.dataset.heldWith ? document.getElementById(element.dataset.heldWith) : null;
    return isEdited(element) || isVisited || isSelected || one("details[open]", element) !== null || (other !== null && isHeld(other));
  }

  // Returns true if an element that differs has to stay for now.
  function hold(element) {
    if (!isHeld(element)) return false;
    held.add(element.id);
    return true;
  }

  // Replaces the live elements that differ. With `isAsked`, because the person has asked for it, only unsent input is kept.
  function replace(fresh, isAsked = false) {
    held.clear();
    for (const element of all("[data-live]")) {
      const update = fresh.getElementById(element.id);
      if (!update || (sources.has(element.id) && update.outerHTML === sources.get(element.id))) continue;
      if (element.hasAttribute("data-patch") && patch(element, update)) continue;
      if (isAsked ? isEdited(element) : hold(element)) continue;
      if (!element.hasAttribute("data-patch")) sources.set(element.id, update.outerHTML);
      keepView(element, update);
      const focused = element.contains(document.activeElement) ? document.activeElement : null;
      const successor = focused && successorOf(focused, element, update);
      const scrolled = one("[data-scroll]", element)?.scrollTop;
      element.replaceWith(document.adoptNode(update));
      if (successor && pressed === focused) pressed = successor;
      successor?.focus({ preventScroll: true });
      if (scrolled !== undefined) one("[data-scroll]", update)?.scrollTo(0, scrolled);
      prepare(update);
    }
    localTimes(document);
    document.dispatchEvent(new CustomEvent("selvedge:replaced", { detail: fresh }));
  }

  // Fetches the page again when an element is no longer held.
  let isChecking = false;
  function checkHeld() {
    if (held.size === 0 || isChecking) return;
    isChecking = true;
    // The focus and the values have changed when all listeners have run.
    setTimeout(() => {
      isChecking = false;
      const elements = Array.from(held, (id) => document.getElementById(id));
      if (elements.some((element) => element && !isHeld(element))) refresh();
    }, 50);
  }

  function followPerson() {
    for (const type of ["focusin", "focusout", "input", "change", "reset", "toggle", "close", "click", "selectionchange"]) document.addEventListener(type, checkHeld, true);
    document.addEventListener("click", (event) => { pressed = event.target.closest?.(CONTROLS) ?? null; }, true);
    document.addEventListener("focusin", (event) => { if (event.target !== pressed) pressed = null; });
  }

  // Replaces only the parts of a picture that differ, if both have the same shape: pan, zoom and focus stay, and a large picture
  // costs little. Returns false if the shapes differ.
  function patch(element, update) {
    const [old, fresh] = [one("svg.selvedge-graph", element), one("svg.selvedge-graph", update)];
    if (!old || !fresh || (old.dataset.whole ?? old.getAttribute("viewBox")) !== fresh.getAttribute("viewBox")) return false;
    const [parts, changed] = [one("g", old)?.children ?? [], one("g", fresh)?.children ?? []];
    if (parts.length !== changed.length) return false;
    const differing = Array.from(parts).map((part, index) => [part, changed[index]]).filter(([part, other]) => !part.isEqualNode(other));
    for (const [part, other] of differing) {
      const hasFocus = part === document.activeElement;
      part.replaceWith(document.adoptNode(other));
      if (hasFocus) other.focus({ preventScroll: true });
    }
    old.setAttribute("aria-label", fresh.getAttribute("aria-label"));
    return true;
  }

  // Two controls of a page are the same if they call the same with the same name and value.
  function identityOf(control) {
    const { key, opens, call } = control.dataset;
    const attributes = ["id", "href", "name", "value"].map((name) => control.getAttribute(name));
    return JSON.stringify([control.tagName, key, opens, call ?? control.closest("form")?.dataset.call, ...attributes]);
  }

  // Returns the control of the update that is the focused one, or null if that is not certain.
  function successorOf(focused, element, update) {
    const identity = identityOf(focused);
    const [before, after] = [element, update].map((root) => all(CONTROLS, root).filter((control) => identityOf(control) === identity));
    return before.length === 1 && after.length === 1 ? after[0] : null;
  }

  // Keeps pan and zoom of a picture that is replaced.
  function keepView(before, after) {
    const [old, fresh] = [one("svg.selvedge-graph", before), one("svg.selvedge-graph", after)];
    if (old && fresh && old.dataset.moved) {
      fresh.dataset.whole = fresh.getAttribute("viewBox");
      fresh.setAttribute("viewBox", old.getAttribute("viewBox"));
      fresh.dataset.moved = "yes";
    }
  }

  function setLive(on) {
    const text = held.size === 0 ? "Live" : "Live; changes wait while you work here";
    for (const sign of all(".live")) {
      sign.classList.toggle("on", on);
      sign.textContent = on ? text : "Not connected; trying again";
    }
  }

  function followPage() {
    const address = document.body.dataset.liveEvents;
    if (!address) {
      if (!one("[data-tail]")) all(".live").forEach((sign) => sign.remove());
      return;
    }
    let stream;
    const connect = () => {
      stream = new EventSource(address);
      stream.addEventListener("open", () => setLive(true));
      stream.addEventListener("changed", refresh);
      stream.addEventListener("error", () => {
        setLive(false);
        if (stream.readyState === EventSource.CLOSED) setTimeout(() => { refresh(); connect(); }, POLL_MS);
      });
    };
    // A page in the background costs the server nothing.
    document.addEventListener("visibilitychange", () => {
      stream?.close();
      if (!document.hidden) { refresh(); connect(); }
    });
    connect();
  }

  // The page of an approver: the token is in the fragment of the address, which a browser does not send.

  function fillToken() {
    const input = one("[data-token]");
    if (!input || !location.hash) return;
    input.value = decodeURIComponent(location.hash.slice(1));
    history.replaceState(null, "", location.pathname);
    input.form.requestSubmit();
  }

  // Pan and zoom.

  // The least scale at which a picture is shown at first.
  const LEAST_SCALE = 0.6;
  addEventListener("resize", () => all("svg.selvedge-graph").forEach((svg) => svg.refit?.()));

  function panAndZoom(svg) {
    const whole = () => (svg.dataset.whole ?? svg.getAttribute("viewBox")).split(" ").map(Number);
    svg.dataset.whole ??= svg.getAttribute("viewBox");
    const view = () => svg.getAttribute("viewBox").split(" ").map(Number);
    const show = (box) => { svg.setAttribute("viewBox", box.map((side) => Math.round(side * 100) / 100).join(" ")); svg.dataset.moved = "yes"; };
    const scale = () => { const [, , width, height] = view(); return Math.max(width / svg.clientWidth, height / svg.clientHeight); };
    const zoom = (factor, x, y) => {
      const [left, top, width, height] = view();
      const wide = Math.min(Math.max(width * factor, 120), whole()[2] * 4);
      const tall = height * wide / width;
      show([x - (x - left) * wide / width, y - (y - top) * tall / height, wide, tall]);
    };
    const middle = () => { const [left, top, width, height] = view(); return [left + width / 2, top + height / 2]; };
    const at = (event) => {
      const frame = svg.getBoundingClientRect();
      const [centre, factor] = [middle(), scale()];
      return [centre[0] + (event.clientX - frame.left - frame.width / 2) * factor, centre[1] + (event.clientY - frame.top - frame.height / 2) * factor];
    };
    // The frame is as high as the picture needs. A small picture is not enlarged, and a large one begins with its left side, so that
    // it can be read.
    const frame = svg.closest(".graph");
    const fit = () => {
      if (!frame || svg.dataset.moved || !svg.isConnected) return;
      const [left, top, width, height] = whole();
      const factor = Math.min(1, Math.max(frame.clientWidth / width, LEAST_SCALE));
      const tall = Math.min(Math.max(height * factor + 8, 220), Math.max(innerHeight * 0.68, 320));
      frame.style.height = `${tall}px`;
      const [wide, high] = [frame.clientWidth / factor, Math.max(tall / factor, 1)];
      svg.setAttribute("viewBox", [wide < width ? left : left - (wide - width) / 2, top + (height - high) / 2, wide, high].map((side) => Math.round(side * 100) / 100).join(" "));
    };
    fit();
    svg.refit = fit;
    svg.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.12 : 1 / 1.12, ...at(event)); }, { passive: false });
    let from = null;
    let dragged = false;
    svg.addEventListener("pointerdown", (event) => { from = [event.clientX, event.clientY, view()]; dragged = false; });
    svg.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [dx, dy] = [event.clientX - from[0], event.clientY - from[1]];
      if (!dragged && Math.hypot(dx, dy) < 4) return;
      if (!dragged) { dragged = true; svg.setPointerCapture(event.pointerId); svg.classList.add("moving"); }
      const factor = scale();
      const [left, top, width, height] = from[2];
      show([left - dx * factor, top - dy * factor, width, height]);
    });
    const drop = () => { from = null; svg.classList.remove("moving"); };
    svg.addEventListener("pointerup", drop);
    svg.addEventListener("pointercancel", drop);
    svg.addEventListener("click", (event) => { if (dragged) event.preventDefault(); }, true);
    for (const button of all("[data-zoom]", frame ?? document)) {
      button.onclick = () => {
        if (button.dataset.zoom === "whole") show(whole());
        else zoom(button.dataset.zoom === "in" ? 1 / 1.3 : 1.3, ...middle());
      };
    }
  }

  // Keys.

  const PLACES = { o: "/", e: "/executions", f: "/flows", w: "/workers", l: "/lanes", b: "/budgets", s: "/schedules", a: "/approvals", v: "/events", h: "/webhooks", c: "/settings", d: "/docs" };
  let pressedG = 0;

  function followKeys() {
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
      if (Date.now() - pressedG < 1500 && PLACES[event.key]) { pressedG = 0; location.assign(PLACES[event.key]); return; }
      pressedG = event.key === "g" ? Date.now() : 0;
      if (event.key === "/") {
        const filter = one("[data-filter]");
        if (filter) { event.preventDefault(); filter.focus(); filter.select?.(); }
      } else if (event.key === "?") {
        one("#keys")?.showModal();
      }
    });
  }

  // Times: the server writes UTC; the tooltip adds the local time.

  function localTimes(root) {
    for (const time of all("time[datetime]", root)) {
      const at = new Date(time.dateTime);
      if (!Number.isNaN(at.getTime())) time.title = `${time.dateTime} · ${at.toLocaleString()}`;
    }
  }

  function prepare(root) {
    all("svg.selvedge-graph", root).forEach(panAndZoom);
  }

  // For the other scripts, which add what they offer.
  globalThis.selvedge = { refresh, replace, hold };

  // A large picture is compared part by part instead.
  for (const element of all("[data-live]:not([data-patch])")) sources.set(element.id, element.outerHTML);
  prepare(document);
  localTimes(document);
  followPerson();
  followPage();
  document.addEventListener("selvedge:changed", refresh);
  followKeys();
  fillToken();
})();
