// Comforts only: every form and answer works without this file.
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
const busy = (text) => { const place = $("#busy"); if (place) place.textContent = text; };

// Questions: a changed one recalculates in place and cancels the work on the one before it.

let work = null;
const LONGEST = 4000; // characters of a field that an address holds

async function recalculate(address, { push = true, note = "" } = {}) {
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
    const focused = document.activeElement?.closest("a.opt")?.dataset.rank;
    main.replaceWith(document.adoptNode($("#main", page)));
    keep_chart();
    document.title = page.title;
    if (push) history.pushState({}, "", address);
    for (const summary of $$("#answer details > summary")) if (open.has(summary.textContent.trim())) summary.parentElement.open = true;
    dress(tab);
    ($(`#options a.opt[data-rank="${focused}"]`) ?? $("#main")).focus({ preventScroll: true });
    busy(note || (reply.ok ? "" : "See what is wrong below."));
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
  stopped = null;
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
  if (!chip || event.target.type === "file" || event.target.closest(".entries")) return;
  chip.classList.add("changed");
  $("summary b", chip).textContent = (event.target.selectedOptions?.[0].text ?? event.target.value) || "not set";
  recalculate(address(event.target.form));
});
window.addEventListener("popstate", () => { if ($("#question")) recalculate(location.pathname + location.search, { push: false }); });

// How far long work is, while the page waits for its answer.
const FAR = {
  waiting: ({ questions }) => `Waiting for a worker; ${questions} in line`,
  working: ({ elapsed_s }) => `Calculating for ${elapsed_s} s …`,
  progress: ({ done, total, left_s }) =>
    `${done.toLocaleString()} of ${total.toLocaleString()} requests${left_s ? `, about ${left_s} s left` : ""}`,
};
function follow(path, fields, signal) {
  const source = new EventSource(`/progress/${path}?${fields}`);
  for (const name in FAR) source.addEventListener(name, (event) => busy(FAR[name](JSON.parse(event.data))));
  for (const name of ["end", "error"]) source.addEventListener(name, () => source.close());
  signal.addEventListener("abort", () => source.close());
}

// A first answer stands until the simulated one is there, which then takes its place; what is being typed stays.
let waiting = null, stopped = null; // the question whose simulation somebody stopped: other options of it are not simulated either
const STOPPED = "Price, latencies and chance are by averages: you stopped the simulation. Send the form again to have it.";
function await_simulation() {
  waiting?.close();
  const waits = $("#main")?.dataset.waits;
  if (!waits) return;
  const tell = (place, text) => { const at = $(place); if (at) at.textContent = text; };
  if (waits === stopped) {
    tell("#waits-text", STOPPED);
    return $("#waits-bar").parentElement.remove();
  }
  const source = (waiting = new EventSource(waits));
  const began = performance.now();
  // Nothing is counted until the simulator is there, which takes its time once after an installation.
  let far = "starting the simulator";
  const tick = () => tell("#waits-at", `${Math.round((performance.now() - began) / 1e3)} s, ${far}`);
  const ticking = setInterval(tick, 1000);
  tick();
  const end = (text) => {
    source.close();
    clearInterval(ticking);
    if (!text) return;
    tell("#waits-text", text);
    $("#waits-bar")?.parentElement.remove();
  };
  source.addEventListener("waiting", (event) => { far = FAR.waiting(JSON.parse(event.data)); tick(); });
  source.addEventListener("working", () => { far = "starting the simulator"; });
  source.addEventListener("progress", (event) => {
    const seen = JSON.parse(event.data);
    far = FAR.progress(seen);
    Object.assign($("#waits-bar"), { value: seen.done, max: seen.total });
  });
  source.addEventListener("error", () => end("Price, latencies and chance are by averages. The simulation was cut off; send the form again to have it."));
  Object.assign($("#stop"), { hidden: false, onclick: () => { stopped = waits; end(STOPPED); } });
  source.addEventListener("end", async (event) => {
    const { error } = JSON.parse(event.data);
    end(error);
    if (error) return;
    const told = $("tr.chosen") && place_of($("tr.chosen"));
    let page = await page_at(location.href);
    const rank = $$("#options tr[data-rank]", page).find((row) => place_of(row) === told)?.dataset.rank;
    // The simulation may rank options anew: the one that was chosen stays chosen where it is still there.
    const asked = new URL(location.href);
    const was = asked.searchParams.get("option");
    if (was && was !== rank) {
      asked.searchParams.delete("option");
      if (rank > 1) asked.searchParams.set("option", rank);
      history.replaceState({}, "", asked);
      page = await page_at(asked);
    }
    const fresh = $("#answer", page);
    if (!fresh) return;
    const tab = $("[role=tab][aria-selected=true]")?.textContent;
    $("#answer").replaceWith(document.adoptNode(fresh));
    $(".actions")?.replaceWith(document.adoptNode($(".actions", page)));
    $("#waits")?.remove();
    delete $("#main").dataset.waits;
    busy(was && !rank ? "Simulated. The option you had chosen is not among those found: this is the recommendation." : "Simulated.");
    dress(tab);
  });
}
const place_of = (row) => [...row.cells].slice(0, 2).map((cell) => cell.firstChild?.textContent.trim()).join(" ");
const page_at = async (address) => new DOMParser().parseFromString(
  await (await fetch(address, { headers: { accept: "text/html" } })).text(), "text/html");

// A change that is suggested is asked in place, like a chip; so is an option, by its card, its row or its point.
document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  const link = event.target.closest("a.apply, #answer a.opt");
  const row = event.target.closest("a, button") ? null : event.target.closest("#options tr[data-rank]");
  if (row && !getSelection().toString()) return choose(row.dataset.rank);
  if (!link) return;
  event.preventDefault();
  recalculate(link.getAttribute("href"));
  if (link.matches(".apply")) scrollTo({ top: 0 });
});
const choose = (rank) => $(`#answer a.opt[data-rank="${rank}"]:not([aria-current])`)?.click();

// Sliders: each step is asked for once in the background, the nearest first; what is there is shown while one drags,
// bounds of its neighbours where it is not there yet, and the whole answer is asked when it is let go.
function tune() {
  const card = $("#tune");
  if (!card) return;
  card.hidden = false;
  const sliders = $$("input[type=range]", card).map((input) => ({
    input, at: Number(input.dataset.at), steps: JSON.parse(input.dataset.steps), found: [], wanted: null,
  }));
  const of = (slider, place) => {
    const asked = new URL(card.dataset.step, location.href);
    asked.searchParams.set(slider.input.dataset.name, slider.steps[place]);
    return asked.pathname + asked.search;
  };
  const say = (slider) => {
    const place = Number(slider.input.value), found = slider.found[place];
    $("output b", slider.input.previousElementSibling).textContent = slider.steps[place];
    slider.input.setAttribute("aria-valuetext", slider.steps[place]);
    const near = (way) => { for (let at = place; at >= 0 && at < slider.steps.length; at += way) if (slider.found[at]) return slider.found[at]; };
    const ends = [near(-1), near(1)].filter((one) => one?.usd_per_hour).map((one) => one.usd_per_hour).sort((a, b) => a - b);
    const usd = [...new Set(ends.map((end) => `$${end.toFixed(2)}/h`))].join(" to ");
    const between = `${usd && `about ${usd}, `}being computed`;
    $("#tuned").textContent = `${slider.steps[place]}: ${found?.text ?? between}`;
  };
  let moving = null;
  for (const slider of sliders) {
    slider.input.addEventListener("input", () => { moving = slider; slider.wanted = Number(slider.input.value); say(slider); run(); });
    slider.input.addEventListener("change", () => {
      // Each that was moved, for another may be let go before the answer to the first is there.
      const asked = new URL(card.dataset.step.replace("/step/", "/"), location.href);
      const moved = sliders.filter(({ input, at }) => Number(input.value) !== at);
      for (const { input, steps } of moved) asked.searchParams.set(input.dataset.name, steps[Number(input.value)]);
      if (moved.length || $("#main").ariaBusy) recalculate(asked.pathname + asked.search);
    });
  }
  // Where a step takes long, those next to the answer alone are computed ahead; others are once one drags there.
  let [reach, running, visible] = [Infinity, false, false];
  const left = () => sliders.flatMap((slider) => slider.steps.map((_, place) => ({ slider, place, far: Math.abs(place - slider.at) })))
    .filter(({ slider, place, far }) => !slider.found[place] && (far <= reach || slider.wanted === place))
    .sort((a, b) => (b.slider.wanted === b.place) - (a.slider.wanted === a.place) || a.far - b.far);
  async function run() {
    if (running || !visible) return;
    running = true;
    for (let next; (next = left()[0]) && card.isConnected;) {
      const began = performance.now();
      const reply = await fetch(of(next.slider, next.place), { headers: { accept: "application/json" } }).catch(() => null);
      if (!reply) { $("#tuned-so-far").textContent = "The server did not answer; try again."; break; }
      const told = await reply.json();
      next.slider.found[next.place] = reply.ok ? told : { text: told.error };
      if (performance.now() - began > SLOW_MS) reach = 1;
      if (moving === next.slider) say(moving);
      $("#tuned-so-far").textContent = left().length ? `${left().length} steps being computed` : "";
    }
    running = false;
  }
  new IntersectionObserver(([{ isIntersecting }]) => { visible ||= isIntersecting; run(); }).observe(card);
}
const SLOW_MS = 4000;

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
    if (innerWidth < 640) specification.config.legend.columns = 1;
    const place = document.createElement("div");
    place.setAttribute("role", "img");
    place.setAttribute("aria-label", $("img", picture).alt);
    picture.before(place);
    const { view } = await embed(place, specification, { ast: true, actions: false, defaultStyle: false, renderer: "svg", tooltip });
    picture.hidden = true;
    // The place is the picture for who does not see it; the marks inside would be so many nameless ones.
    $("svg", place)?.setAttribute("aria-hidden", "true");
    const of = OPTIONS.exec(picture.dataset.chart)?.[1];
    if (!of) return;
    drawn = { of, view, section: picture.closest("section") };
    view.addEventListener("click", (_, item) => {
      const rank = item?.datum?.rank;
      if (!rank) return;
      // An option without a row is asked for by the address, in which any of them can stand.
      if ($(`#answer a.opt[data-rank="${rank}"]`)) return choose(rank);
      const asked = new URL($("#answer a.opt").href);
      asked.searchParams.set("option", rank);
      recalculate(asked.pathname + asked.search);
    });
  } catch { /* the picture stands */ }
}
// The chart of options stays while others of the same answer are chosen: only its ring moves.
const OPTIONS = /([^/]+)\/frontier(?:-(\d+))?$/;
let drawn = null;
function keep_chart() {
  const asked = $(".chart picture")?.dataset.chart;
  const [, of, rank] = OPTIONS.exec(asked ?? "") ?? [];
  if (!of || drawn?.of !== of) return;
  $("picture", drawn.section).dataset.chart = asked;
  $(".chart").replaceWith(drawn.section);
  drawn.view.signal("chosen", Number(rank ?? 1)).run();
}
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
  // The library of charts is large: it is fetched once somebody points at one.
  for (const figure of $$("figure:has(picture[data-chart])")) figure.addEventListener("pointerenter", () => draw($("picture", figure)), { once: true });
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
  for (const text of $$("textarea[data-entries]:not([hidden])")) rows_of(text);
  tune();
  upload();
  await_simulation();
}

// A list of entries is edited as rows, one an entry; what is sent is the same text, as JSON.
const YES_NO = { true: "yes", false: "no" };
function rows_of(text) {
  const [entries, columns] = [JSON.parse(text.dataset.entries), JSON.parse(text.dataset.columns)];
  const holder = Object.assign(document.createElement("div"), { className: "entries" });
  holder.setAttribute("role", "group");
  holder.setAttribute("aria-label", document.querySelector(`label[for="${text.id}"]`)?.textContent ?? text.name);
  const write = () => { text.value = JSON.stringify(entries.filter((one) => Object.values(one).some(Boolean))); };
  const button = (words, act) => {
    const made = Object.assign(document.createElement("button"), { type: "button", textContent: words });
    made.addEventListener("click", () => { act(); write(); draw_rows(); });
    return made;
  };
  // Beside the usual columns a row holds every field that it has a value of, or that was added to it.
  const added = new Map();
  const shows = (entry, { name, shown }) => shown || name in entry || added.get(entry)?.has(name);
  function control(entry, { name, label, list, choices, usual }, row) {
    const input = document.createElement(choices.length ? "select" : "input");
    for (const choice of choices.length ? ["", ...choices] : []) input.append(new Option(choice ? YES_NO[choice] ?? choice : usual, choice));
    Object.assign(input, { value: entry[name] ?? "", autocomplete: "off" });
    if (list) input.setAttribute("list", list);
    input.setAttribute("aria-label", `${label}, row ${row}`);
    input.addEventListener("input", () => { if (input.value) entry[name] = input.value; else delete entry[name]; write(); });
    const named = document.createElement("label");
    named.append(label, input);
    return named;
  }
  function adder(entry, row) {
    const select = document.createElement("select");
    select.setAttribute("aria-label", `Add a field, row ${row}`);
    select.append(new Option("Add a field …", ""), ...columns.filter((column) => !shows(entry, column)).map(({ name, label }) => new Option(label, name)));
    select.addEventListener("change", () => {
      added.set(entry, (added.get(entry) ?? new Set()).add(select.value));
      const { label } = columns.find(({ name }) => name === select.value);
      draw_rows();
      $(`[aria-label="${label}, row ${row}"]`, holder).focus();
    });
    return select;
  }
  function draw_rows() {
    holder.replaceChildren(...entries.map((entry, place) => {
      const row = Object.assign(document.createElement("div"), { className: "entry" });
      row.append(...columns.filter((column) => shows(entry, column)).map((column) => control(entry, column, place + 1)));
      const remove = button("Remove", () => entries.splice(place, 1));
      remove.setAttribute("aria-label", `Remove row ${place + 1}`);
      row.append(adder(entry, place + 1), remove);
      return row;
    }), button("Add a row", () => entries.push({})));
  }
  draw_rows();
  text.before(holder);
  text.hidden = true;
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
