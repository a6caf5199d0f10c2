"use strict";

// Without this script the page can be read. With it the page follows what happens, and
// its forms steer the sandbox, through the control as any other program does.
document.documentElement.classList.add("follows");
const at = (id) => document.getElementById(id);
const show = (id, text, style = "") => { at(id).textContent = text; at(id).className = style; };

// The server sends the parts of the page that have changed, as escaped HTML.
let source;
function follow() {
  source = new EventSource("events" + location.search);
  source.onopen = () => show("connection", "Live", "live");
  source.onerror = ({ target }) => {
    show("connection", "Not connected, trying again", "bad");
    if (target.readyState === EventSource.CLOSED && target === source) setTimeout(() => target === source && follow(), 3000);
  };
  source.addEventListener("again", ({ target }) => { target.close(); if (target === source) follow(); }); // with the rights of now
  source.onmessage = (event) => {
    for (const [id, html] of Object.entries(JSON.parse(event.data))) {
      if (!at(id)) continue; // no forms, no faults
      const now = document.createElement("template");
      now.innerHTML = html;
      update(at(id), now.content);
    }
  };
}
follow();

// update makes the children of old those of now and leaves alone what stays, and with it
// the focus, the scrolling, what is selected and what is open.
function update(old, now) {
  let next = old.firstChild;
  for (const node of [...now.childNodes]) {
    let same = next; // and nothing before it: two rows may have one identifier
    while (node.id && same && same.id !== node.id) same = same.nextSibling;
    if (!same || same.nodeName !== node.nodeName || same.id !== node.id) {
      if (node.id && old.children.length) node.classList.add("new");
      old.insertBefore(node, next);
      continue;
    }
    while (next !== same) next = remove(next);
    next = same.nextSibling;
    if (!node.attributes) { // text
      if (same.data !== node.data) same.data = node.data;
      continue;
    }
    for (const { name, value } of node.attributes) if (same.getAttribute(name) !== value) same.setAttribute(name, value);
    for (const { name } of [...same.attributes]) if (name !== "open" && !node.hasAttribute(name)) same.removeAttribute(name);
    update(same, node);
  }
  while (next) next = remove(next);
}
function remove(node) {
  const next = node.nextSibling;
  if (node.nodeName === "TR" && node.id.startsWith("request-") && node.querySelector("details[open]")) return next; // what is being read stays
  if (node.contains(document.activeElement)) node.parentElement.closest("[tabindex]")?.focus();
  node.remove();
  return next;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.id === "pause") {
    const paused = button.getAttribute("aria-pressed") === "true";
    button.setAttribute("aria-pressed", String(!paused));
    if (paused) return follow();
    source.close();
    show("connection", "Paused");
  }
});

document.addEventListener("submit", async (event) => {
  if (!event.target.dataset.order) return; // a form that looks something up
  event.preventDefault();
  const form = event.target, headers = { "Content-Type": "application/json" };
  show("said", "");
  let body = form.dataset.body;
  try {
    body ??= JSON.stringify(order(form));
  } catch {
    return show("said", "The field is no JSON.", "bad");
  }
  if (at("token")) headers.Authorization = `Bearer ${at("token").value}`;
  try {
    const answer = await fetch(document.documentElement.dataset.control + form.dataset.order, { method: "POST", headers, body });
    if (answer.ok) show("said", form.dataset.done + ("answer" in form.dataset ? ` ${await answer.text()}` : ""));
    else show("said", (await answer.json()).error, "bad");
  } catch {
    show("said", "The server cannot be reached.", "bad");
  }
});

// order is what stands in a form: a field named a.b is b within a, an empty one is left out.
function order(form) {
  const all = {};
  for (const field of form.elements) {
    const empty = field.type === "checkbox" ? !field.checked : field.value === "";
    if (!field.name || empty) continue;
    const [outer, inner] = field.name.split(".");
    if (inner) (all[outer] ??= {})[inner] = value(field);
    else all[outer] = value(field);
  }
  return all;
}
function value(field) {
  if (field.type === "checkbox") return true;
  if (field.type === "number") return Number(field.value);
  if ("json" in field.dataset) return JSON.parse(field.value);
  if (!field.name.endsWith(".header")) return field.value;
  const header = {};
  for (const line of field.value.split("\n")) {
    const [, name, text] = /^([^:]+):\s*(.*)$/.exec(line) ?? [];
    if (name) (header[name] ??= []).push(text);
  }
  return header;
}
