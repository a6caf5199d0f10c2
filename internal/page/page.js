"use strict";

// Without this script the page can be read. With it the page follows what happens, and
// its forms steer the sandbox, through the control as any other program does.
document.documentElement.classList.add("follows");
const at = (id) => document.getElementById(id);
const show = (id, text, style = "") => { at(id).textContent = text; at(id).className = style; };

// The page asks for itself again and takes over the parts that are marked for it.
let timer, turn = 0; // of the newest follow: an older answer is late
async function follow() {
  const mine = ++turn;
  clearTimeout(timer);
  if (!at("refresh").checked) return show("connection", "Not refreshed");
  try {
    const answer = await fetch(location.href, { cache: "no-store", redirect: "error", signal: AbortSignal.timeout(30000) });
    if (!answer.ok) throw new Error(answer.statusText);
    const now = new DOMParser().parseFromString(await answer.text(), "text/html");
    const parts = now.querySelectorAll("[data-live]");
    if (!parts.length) throw new Error("another page");
    if (mine !== turn) return;
    for (const part of parts) if (at(part.id)) update(at(part.id), part);
    show("connection", "Live", "live");
  } catch {
    if (mine !== turn) return;
    show("connection", "Not connected, trying again", "bad");
  }
  timer = setTimeout(follow, document.hidden ? 30000 : 2000);
}
follow();
at("refresh").addEventListener("change", follow);
document.addEventListener("visibilitychange", () => document.hidden || follow());

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
  if (node.id && [...node.querySelectorAll("input, textarea")].some((field) => field.value !== field.defaultValue)) return next; // and what is being written
  if (node.contains(document.activeElement)) node.parentElement.closest("[tabindex]")?.focus();
  node.remove();
  return next;
}

document.addEventListener("submit", async (event) => {
  if (!event.target.dataset.order) return; // a form that looks something up
  event.preventDefault();
  const form = event.target, headers = { "Content-Type": "application/json" };
  show("said", "");
  let body = form.dataset.body;
  try {
    body ??= JSON.stringify(order(form, event.submitter));
  } catch {
    return show("said", "The field is no JSON.", "bad");
  }
  if (at("token")) headers.Authorization = `Bearer ${at("token").value}`;
  try {
    const answer = await fetch(document.documentElement.dataset.control + form.dataset.order, { method: "POST", headers, body });
    if (answer.ok) show("said", form.dataset.done + ("answer" in form.dataset ? ` ${await answer.text()}` : ""));
    else show("said", (await answer.json()).error, "bad");
    if (form.closest("[data-live]") && (answer.ok || answer.status === 409)) { // done, or another person was first
      form.reset();
      follow();
    }
  } catch {
    show("said", "The server cannot be reached.", "bad");
  }
});

// order is what stands in a form: a field named a.b is b within a, an empty one is left out.
function order(form, button) {
  const all = button?.name ? { [button.name]: button.value } : {};
  for (const field of form.elements) {
    const empty = field.type === "submit" || (field.type === "checkbox" ? !field.checked : field.value === "");
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
