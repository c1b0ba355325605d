// Comforts only: every form and answer works without this file.
"use strict";

const form = document.getElementById("question");
const busy = document.getElementById("busy");

// Empty fields stay out of the address, so that a link holds the question and nothing else.
form?.addEventListener("submit", () => {
  for (const field of form.elements) if (field.name && field.value === "") field.disabled = true;
  if (busy) busy.textContent = "Working it out …";
  if (form.dataset.path === "simulate") follow(new URLSearchParams(new FormData(form)));
});
window.addEventListener("pageshow", () => {
  for (const field of form?.elements ?? []) field.disabled = false;
  if (busy) busy.textContent = "";
});

// How far a long simulation is, while the page waits for its answer.
function follow(fields) {
  const source = new EventSource(`/simulate/progress?${fields}`);
  source.addEventListener("progress", (event) => {
    const { done, total } = JSON.parse(event.data);
    if (busy) busy.textContent = `${done.toLocaleString()} of ${total.toLocaleString()} requests`;
  });
  source.addEventListener("end", () => source.close());
  source.addEventListener("error", () => source.close());
}

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
