// Comforts only: every form and answer works without this file.
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const busy = (text) => { const place = $("#busy"); if (place) place.textContent = text; };

// Questions: a changed one recalculates in place and cancels the work on the one before it.

let work = null;
const LONGEST = 4000; // characters of a field that an address holds

async function recalculate(address, { push = true } = {}) {
  work?.abort();
  work = new AbortController();
  const { signal } = work;
  const main = $("#main");
  main.setAttribute("aria-busy", "true");
  busy("Calculating …");
  const path = address.split("?")[0].slice(1);
  if ($("#question")?.dataset.follows) follow(path, new URLSearchParams(address.split("?")[1]), signal);
  try {
    const reply = await fetch(address, { headers: { accept: "text/html" }, signal });
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    const open = new Set($$("details[open] > summary").map((summary) => summary.textContent.trim()));
    const tab = $("[role=tab][aria-selected=true]")?.textContent;
    main.replaceWith(document.adoptNode($("#main", page)));
    document.title = page.title;
    if (push) history.pushState({}, "", address);
    for (const summary of $$("#answer details > summary")) if (open.has(summary.textContent.trim())) summary.parentElement.open = true;
    dress(tab);
    $("#main").focus({ preventScroll: true });
  } catch (error) {
    if (error.name !== "AbortError") { main.removeAttribute("aria-busy"); busy("The server did not answer; try again."); }
  }
}

function address(form) {
  const fields = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (typeof value === "string" && value !== "") fields.append(name, value);
  return `${new URL(form.action).pathname}?${fields}`;
}

document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (form.id !== "question") return;
  event.preventDefault();
  // A file does not fit into an address: the server keeps it, and the address holds its name.
  const text = $("#f-file", form);
  if (text && text.value.length > LONGEST) {
    const reply = await fetch("/files", { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ text: text.value }) });
    const told = await reply.json();
    if (!reply.ok) return busy(told.error);
    text.value = told.file;
  }
  recalculate(address(form));
});
document.addEventListener("change", (event) => {
  const chip = event.target.closest("#question .chip:not(.add)");
  if (!chip || event.target.type === "file") return;
  chip.classList.add("changed");
  $("summary b", chip).textContent = event.target.value || "default";
  recalculate(address(event.target.form));
});
window.addEventListener("popstate", () => { if ($("#question")) recalculate(location.pathname + location.search, { push: false }); });

// How far long work is, while the page waits for its answer.
function follow(path, fields, signal) {
  const source = new EventSource(`/progress/${path}?${fields}`);
  const tell = (name, words) => source.addEventListener(name, (event) => busy(words(JSON.parse(event.data))));
  tell("waiting", ({ questions }) => `Waiting for a worker; ${questions} in line`);
  tell("working", ({ elapsed_s }) => `Calculating for ${elapsed_s} s …`);
  tell("progress", ({ done, total, left_s }) =>
    `${done.toLocaleString()} of ${total.toLocaleString()} requests${left_s ? `, about ${left_s} s left` : ""}`);
  for (const name of ["end", "error"]) source.addEventListener(name, () => source.close());
  signal.addEventListener("abort", () => source.close());
}

// A first answer stands until the simulated one is there, which then takes its place; what is being typed stays.
let waiting = null;
function await_simulation() {
  waiting?.close();
  const waits = $("#main")?.dataset.waits;
  if (!waits) return;
  const source = (waiting = new EventSource(waits));
  const note = (text) => { const place = $("#waits"); if (place) place.textContent = text; };
  source.addEventListener("error", () => {
    source.close();
    note("First answer, by averages. The simulation was cut off; send the form again to have it.");
  });
  source.addEventListener("end", async (event) => {
    source.close();
    const { error } = JSON.parse(event.data);
    if (error) return note(error);
    const page = new DOMParser().parseFromString(
      await (await fetch(location.href, { headers: { accept: "text/html" } })).text(), "text/html");
    const fresh = $("#answer", page);
    if (!fresh) return;
    const tab = $("[role=tab][aria-selected=true]")?.textContent;
    $("#answer").replaceWith(document.adoptNode(fresh));
    $(".actions")?.replaceWith(document.adoptNode($(".actions", page)));
    $("#waits")?.remove();
    delete $("#main").dataset.waits;
    busy("The answer is simulated now.");
    dress(tab);
  });
}

// A change that is suggested is asked in place, like a chip.
document.addEventListener("click", (event) => {
  const link = event.target.closest("a.apply");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  recalculate(link.getAttribute("href"));
  scrollTo({ top: 0 });
});

// What-ifs are fetched once somebody wants them, and stay on the page.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("#what-ifs a[href^='/what-ifs/']");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const place = link.parentElement;
  place.setAttribute("role", "status");
  place.textContent = "Calculating …";
  const page = await (await fetch(link.href, { headers: { accept: "text/html" } })).text();
  const found = new DOMParser().parseFromString(page, "text/html");
  place.replaceWith(document.adoptNode($("#changes", found) ?? $("#main", found)));
});

// Menus and chips close when one clicks elsewhere or presses Escape.
document.addEventListener("click", (event) => {
  for (const open of $$("details.menu[open], details.chip[open]")) if (!open.contains(event.target)) open.open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const open of $$("details.menu[open], details.chip[open]")) { open.open = false; $("summary", open).focus(); }
});

// Charts: the picture's own specification, drawn to be explored. Points and rows of the table answer each other.

let library = null;
function vega() {
  library ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = "/static/vega.js";
    script.onload = () => (window.vegaEmbed ? done(window.vegaEmbed) : failed(new Error("no library")));
    script.onerror = () => failed(new Error("no library"));
    document.head.append(script);
  });
  return library;
}

const tip = Object.assign(document.createElement("div"), { className: "tip", hidden: true });
document.body.append(tip);
function tooltip(_, event, __, value) {
  tip.hidden = value === null || value === undefined || value === "";
  if (tip.hidden) return;
  tip.replaceChildren(...(typeof value === "object"
    ? Object.entries(value).map(([name, text]) => Object.assign(document.createElement("div"), { textContent: `${name}: ${text}` }))
    : [document.createTextNode(String(value))]));
  const width = tip.offsetWidth;
  Object.assign(tip.style, { left: `${Math.min(event.clientX + 12, innerWidth - width - 8)}px`, top: `${event.clientY + 14}px` });
}

async function draw(picture) {
  const theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  try {
    const [embed, reply] = await Promise.all([vega(), fetch(`${picture.dataset.chart}-${theme}.json`)]);
    if (!reply.ok) return;
    const specification = { ...(await reply.json()), width: "container" };
    const place = document.createElement("div");
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", $("img", picture).alt);
    picture.before(place);
    const { view } = await embed(place, specification, { ast: true, actions: false, defaultStyle: false, renderer: "svg", tooltip });
    picture.hidden = true;
    // The place is the picture for who does not see it; the marks inside would be so many nameless ones.
    $("svg", place)?.setAttribute("aria-hidden", "true");
    if (!picture.dataset.chart.endsWith("/frontier")) return;
    const rows = $$("#options tr[data-rank]");
    const choose = (rank, scroll) => {
      view.signal("chosen", rank).run();
      for (const row of rows) row.classList.toggle("chosen", Number(row.dataset.rank) === rank);
      if (scroll) rows.find((row) => Number(row.dataset.rank) === rank)?.scrollIntoView({ block: "nearest" });
    };
    view.addEventListener("click", (_, item) => { if (item?.datum?.rank) choose(item.datum.rank, true); });
    for (const row of rows) row.addEventListener("click", (event) => { if (!event.target.closest("a")) choose(Number(row.dataset.rank), false); });
    for (const card of $$(".choice")) card.addEventListener("click", () => choose(Number(card.hash.split("-")[1]), false));
  } catch { /* the picture stands */ }
}
const seen = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) if (isIntersecting) { seen.unobserve(target); draw($("picture", target)); }
}, { rootMargin: "200px" });

// Tables are sorted by their heads; sections of the reasons become tabs.

function number(text) {
  const match = text.replaceAll(",", "").match(/-?\d+(\.\d+)?/);
  return match ? Number(match[0]) : null;
}
function sortable(table) {
  $$("thead th:not(.plain)", table).forEach((head) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const place = [...head.parentElement.children].indexOf(head);
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of $$("th", table)) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const body = $("tbody", table);
      const key = (row) => row.cells[place].textContent.trim();
      const order = (a, b) => {
        const [x, y] = [number(key(a)), number(key(b))];
        const by = head.classList.contains("n") || (x !== null && y !== null) ? (x ?? Infinity) - (y ?? Infinity) : key(a).localeCompare(key(b));
        return down ? -by : by;
      };
      body.append(...[...body.rows].sort(order));
    });
  });
}

function tabs(holder, chosen) {
  const panels = $$(":scope > .panel", holder);
  if (panels.length < 2) return;
  holder.classList.add("scripted");
  const list = document.createElement("div");
  list.className = "tablist";
  list.setAttribute("role", "tablist");
  list.setAttribute("aria-label", "Reasons");
  const buttons = panels.map((panel, place) => {
    panel.id ||= `panel-${place}`;
    panel.setAttribute("role", "tabpanel");
    panel.tabIndex = 0;
    const button = document.createElement("button");
    Object.assign(button, { type: "button", id: `tab-${place}`, textContent: panel.dataset.tab });
    button.setAttribute("role", "tab");
    button.setAttribute("aria-controls", panel.id);
    panel.setAttribute("aria-labelledby", button.id);
    button.addEventListener("click", () => show(place));
    return button;
  });
  const show = (place, focus = false) => panels.forEach((panel, each) => {
    panel.hidden = each !== place;
    buttons[each].setAttribute("aria-selected", String(each === place));
    buttons[each].tabIndex = each === place ? 0 : -1;
    if (focus && each === place) buttons[each].focus();
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) show((buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length, true);
  });
  list.append(...buttons);
  holder.prepend(list);
  show(Math.max(0, buttons.findIndex((button) => button.textContent === chosen)));
}

// What every page is given, and an answer again when it comes.

function dress(tab) {
  for (const table of $$("table.sortable")) sortable(table);
  for (const holder of $$(".tabs")) tabs(holder, tab);
  for (const figure of $$("figure:has(picture[data-chart])")) seen.observe(figure);
  const actions = $(".actions > div");
  if (actions && !$("#print")) {
    const print = Object.assign(document.createElement("button"), { type: "button", id: "print", className: "extra", textContent: "Print" });
    print.addEventListener("click", async () => {
      // Pictures of closed tabs are printed as well: they are fetched before.
      const pictures = $$("#answer figure picture:not([hidden]) img");
      for (const picture of pictures) picture.loading = "eager";
      await Promise.all(pictures.map((picture) => picture.decode().catch(() => {})));
      window.print();
    });
    actions.append(print);
  }
  $("#share")?.addEventListener("click", async (event) => {
    if (!navigator.clipboard) return;
    event.preventDefault();
    await navigator.clipboard.writeText(event.target.href);
    event.target.textContent = "Link copied";
  });
  upload();
  await_simulation();
}

function upload() {
  const [field, model, text] = [$("#upload"), $("#f-model"), $("#f-file")];
  if (text && !$("#choose")) {
    const choose = Object.assign(document.createElement("input"), { type: "file", id: "choose" });
    choose.setAttribute("aria-label", "Choose a file");
    text.after(choose);
    choose.addEventListener("change", async () => { if (choose.files[0]) text.value = await choose.files[0].text(); });
  }
  if (!field || !model) return;
  field.closest(".upload").hidden = false;
  field.addEventListener("change", async () => {
    const [file] = field.files;
    if (!file) return;
    const reply = await fetch("/models", { method: "POST", headers: { "content-type": "application/json" }, body: file });
    const told = await reply.json();
    if (reply.ok) model.value = told.model;
    busy(reply.ok ? `${file.name} is ${told.model}` : told.error);
  });
}

for (const button of $$("button.copy")) {
  button.hidden = false;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.for).textContent);
    button.textContent = "Copied";
  });
}

// The answer of the first page's example comes after the page; its box is there before.
const example = $("[data-example]");
if (example) {
  fetch(example.dataset.example, { headers: { accept: "text/html" } }).then(async (reply) => {
    if (!reply.ok) return;
    const page = new DOMParser().parseFromString(await reply.text(), "text/html");
    example.replaceChildren(document.adoptNode($("#example-answer", page)));
  });
}

dress();
// A fresh answer takes the focus, so that keyboard and screen reader begin there; else the first wrong field does.
if ($("#problems")) ($("[aria-invalid=true]") ?? $("#problems")).focus();
else if (location.search && $(".sentence")) $("#main").focus({ preventScroll: true });
