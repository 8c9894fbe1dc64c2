// Improves the pages; they work without it.
"use strict";

function announce(text) {
  const status = document.getElementById("status");
  if (status) status.textContent = text;
}

async function load(path) {
  const answer = await fetch(path, { headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`The server answered with ${answer.status}`);
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  return parsed.body;
}

// The tree: a button beside each namespace shows what is below it.
async function toggle(button) {
  const item = button.closest("li");
  let below = item.querySelector(":scope > .below");
  const opens = button.getAttribute("aria-expanded") !== "true";
  if (opens && !below) {
    button.setAttribute("aria-busy", "true");
    try {
      const loaded = await load(button.dataset.tree);
      below = document.createElement("div");
      below.className = "below";
      below.append(...loaded.children);
      item.append(below);
      prepare(below);
    } catch (error) {
      announce(`Namespaces cannot be shown: ${error.message}`);
      return;
    } finally {
      button.removeAttribute("aria-busy");
    }
  }
  if (below) below.hidden = !opens;
  button.setAttribute("aria-expanded", String(opens));
}

async function copy(button) {
  const text = document.getElementById(button.dataset.copy).textContent;
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied");
    button.dataset.done = "yes";
    setTimeout(() => delete button.dataset.done, 2000);
  } catch {
    const range = document.createRange();
    range.selectNodeContents(document.getElementById(button.dataset.copy));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    announce("The code is selected: copy it with the keyboard");
  }
}

function prepare(part) {
  for (const button of part.querySelectorAll("button[data-tree]")) {
    button.hidden = false;
    button.addEventListener("click", () => toggle(button));
  }
  for (const button of part.querySelectorAll("button[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", () => copy(button));
  }
}

// A page that waits for work of the server asks again.
function wait() {
  const waiting = document.querySelector("[data-wait]");
  if (waiting) setTimeout(() => location.reload(), Number(waiting.dataset.wait));
}

prepare(document);
wait();
if (matchMedia("(max-width: 52rem)").matches) document.querySelector("details.side")?.removeAttribute("open");
