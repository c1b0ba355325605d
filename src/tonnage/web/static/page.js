// Comforts only: every form and answer works without this file.
"use strict";

const form = document.getElementById("question");
const busy = document.getElementById("busy");

// Empty fields stay out of the address, so that a link holds the question and nothing else.
form?.addEventListener("submit", () => {
  for (const field of form.elements) if (field.name && field.value === "") field.disabled = true;
  if (busy) busy.textContent = "Working it out …";
  if (form.dataset.follows) follow(form.dataset.follows, new URLSearchParams(new FormData(form)));
});
window.addEventListener("pageshow", () => {
  for (const field of form?.elements ?? []) field.disabled = false;
  if (busy) busy.textContent = "";
});

// How far a long simulation is, while the page waits for its answer.
function follow(path, fields) {
  const source = new EventSource(`/progress/${path}?${fields}`);
  const tell = (name, words) =>
    source.addEventListener(name, (event) => { if (busy) busy.textContent = words(JSON.parse(event.data)); });
  tell("waiting", ({ questions }) => `Waiting for a worker; ${questions} in line`);
  tell("working", ({ elapsed_s }) => `Working it out for ${elapsed_s} s …`);
  tell("progress", ({ done, total, left_s }) =>
    `${done.toLocaleString()} of ${total.toLocaleString()} requests${left_s ? `, about ${left_s} s left` : ""}`);
  source.addEventListener("end", () => source.close());
  source.addEventListener("error", () => source.close());
}

// A first answer stands until the simulated one is there, which then takes its place; the form stays as it is.
const waits = document.getElementById("main")?.dataset.waits;
if (waits) {
  const source = new EventSource(waits);
  source.addEventListener("error", () => {
    source.close();
    const note = document.getElementById("waits");
    if (note) note.textContent = "First answer, by averages. The simulation was cut off; send the form again to have it.";
  });
  source.addEventListener("end", async (event) => {
    source.close();
    const { error } = JSON.parse(event.data);
    const note = document.getElementById("waits");
    if (error) note.textContent = error;
    else {
      const page = await (await fetch(location.href, { headers: { accept: "text/html" } })).text();
      const main = new DOMParser().parseFromString(page, "text/html").getElementById("main");
      document.getElementById("main").replaceWith(document.adoptNode(main));
      if (busy) busy.textContent = "The answer is simulated now.";
    }
  });
}

// What-ifs are fetched once somebody wants them, and stay on the page.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("#what-ifs a[href^='/what-ifs/']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const place = link.parentElement;
  place.setAttribute("role", "status");
  place.textContent = "Working it out …";
  const page = await (await fetch(link.href, { headers: { accept: "text/html" } })).text();
  const found = new DOMParser().parseFromString(page, "text/html");
  place.replaceWith(document.adoptNode(found.getElementById("changes") ?? found.getElementById("main")));
});

const upload = document.getElementById("upload");
const model = document.getElementById("f-model");
if (upload && model) {
  upload.closest(".upload").hidden = false;
  upload.addEventListener("change", async () => {
    const [file] = upload.files;
    if (!file) return;
    const reply = await fetch("/models", { method: "POST", headers: { "content-type": "application/json" }, body: file });
    const told = await reply.json();
    if (reply.ok) model.value = told.model;
    if (busy) busy.textContent = reply.ok ? `${file.name} is ${told.model}` : told.error;
  });
}

for (const button of document.querySelectorAll("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.for).textContent);
    button.textContent = "Copied";
  });
}

// A fresh answer takes the focus, so that keyboard and screen reader begin there.
if (location.search && document.querySelector(".sentence")) document.getElementById("main").focus({ preventScroll: true });
