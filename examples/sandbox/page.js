"use strict";

// The server sends the parts of the page that have changed, as escaped HTML.
const connection = document.getElementById("connection");
const source = new EventSource("events");
source.onopen = () => { connection.textContent = "Live"; connection.className = "live"; };
source.onerror = () => { connection.textContent = "Not connected, trying again"; connection.className = "bad"; };
source.onmessage = (event) => {
  // What the reader has opened stays open, and the focus where it is.
  const open = Array.from(document.querySelectorAll("main details[open]"), (d) => d.id);
  const focused = document.activeElement?.closest("main details")?.id;
  for (const [id, html] of Object.entries(JSON.parse(event.data))) {
    document.getElementById(id).innerHTML = html;
  }
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.querySelector("summary").focus({ preventScroll: true });
};
