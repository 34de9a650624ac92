"use strict";
const $ = (id) => document.getElementById(id);
const whole = (n) => n.toLocaleString("en");
let page, hits = [], first = 0, choice = null;

// Everything that strangers wrote reaches the page as text nodes, through here.
function make(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// A file holds its rows itself; a page that is served asks for them, and takes decisions.
async function load() {
  if (!$("packed").textContent) return (await fetch("cards")).json();
  const bytes = Uint8Array.from(atob($("packed").textContent), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// Filters

function addFilter(name, values) {
  const select = make("select", { name }, make("option", { value: "" }, "all"));
  for (const value of values) select.append(make("option", { value }, value));
  $("filters").append(make("label", {}, name, select));
}

function buildFilters() {
  const search = make("input", { type: "search", name: "search", autocomplete: "off" });
  $("filters").append(make("label", {}, "search", search));
  page.facets.forEach((name, i) => {
    const values = [...new Set(page.cards.map((card) => card.facts[i]))].filter(Boolean).sort();
    if (values.length > 1) addFilter(name, values);
  });
  addFilter("flag", ["any", "none", ...new Set(page.cards.flatMap((card) => card.flags))].filter((f, i, all) => all.indexOf(f) === i));
  if (page.choices.length) addFilter("decision", ["open", "decided", ...page.choices.map((c) => c.name)]);
  let typing = 0;
  $("filters").addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(search_, event.target.type === "search" ? 150 : 0);
  });
  $("filters").addEventListener("submit", (event) => event.preventDefault());
}

function wanted(name) {
  return $("filters").elements[name]?.value ?? "";
}

function matches(card, words) {
  for (const [i, name] of page.facets.entries()) {
    if (wanted(name) && card.facts[i] !== wanted(name)) return false;
  }
  const flag = wanted("flag");
  if (flag === "none" ? card.flags.length : flag === "any" ? !card.flags.length : flag && !card.flags.includes(flag)) return false;
  const decision = wanted("decision"), made = page.decided[card.id]?.choice;
  if (decision === "open" ? made : decision === "decided" ? !made : decision && decision !== made) return false;
  if (!words.length) return true;
  const text = [card.id, ...card.fields.map((f) => f.text)].join("\n").toLowerCase();
  return words.every((word) => text.includes(word));
}

function search_() {
  const words = wanted("search").toLowerCase().split(/\s+/).filter(Boolean);
  hits = page.cards.filter((card) => matches(card, words));
  first = 0;
  count();
  show();
}

function count() {
  const counts = new Map();
  for (const card of hits) for (const flag of card.flags) counts.set(flag, (counts.get(flag) ?? 0) + 1);
  const rows = [...counts].sort((a, b) => b[1] - a[1]).map(([flag, n]) => {
    const button = make("button", { type: "button", title: page.says[flag], "aria-pressed": String(wanted("flag") === flag) }, flag);
    button.addEventListener("click", () => {
      const select = $("filters").elements.flag;
      select.value = select.value === flag ? "" : flag;
      search_();
    });
    return make("tr", {}, make("td", {}, button), make("td", {}, whole(n)), make("td", {}, `${((100 * n) / hits.length).toFixed(1)} %`));
  });
  $("counts").tBodies[0].replaceChildren(...rows);
}

// Rows

function marked(text, words) {
  const box = make("div", { tabindex: "0" });
  if (!words.length) {
    box.append(text);
    return box;
  }
  const escaped = words.map((w) => w.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  text.split(new RegExp(`(?<![\\p{L}\\p{N}])(${escaped.join("|")})(?![\\p{L}\\p{N}])`, "giu")).forEach((part, i) => box.append(i % 2 ? make("mark", {}, part) : part));
  return box;
}

function telling(card) {
  const answer = card.fields.find((field) => field.mark)?.text ?? "";
  return [...new Set(answer.match(/[\p{L}\p{N}][\p{L}\p{N}.,'’-]*[\p{L}\p{N}]|\p{N}/gu) ?? [])].filter((w) => /\p{N}|\p{Lu}.{3}|.{6}/u.test(w)).slice(0, 20);
}

function row(card) {
  const decision = page.decided[card.id];
  const header = make("header", {}, ...card.facts.filter(Boolean).map((fact) => make("span", {}, fact)), make("code", {}, card.id), ...card.flags.map((flag) => make("span", { class: "flag", title: page.says[flag] }, flag)));
  if (decision) header.append(make("span", { class: "decided" }, `${decision.choice}${decision.note ? `: ${decision.note}` : ""}`));
  const list = make("dl", {}, ...card.fields.filter((f) => f.text).flatMap((field) => [make("dt", {}, field.label), make("dd", { lang: field.lang || undefined, dir: "auto", class: field.main ? "main" : undefined }, decision?.fields?.[field.name] ?? field.text)]));
  const link = /^https?:\/\//i.test(card.url ?? "") ? make("a", { href: card.url, rel: "noreferrer noopener", target: "_blank" }, card.title || card.url) : card.title;
  const text = make("div", { class: "text" }, make("h3", { dir: "auto" }, link || "Text"), card.text ? marked(card.text, telling(card)) : make("p", {}, "no text"));
  const item = make("li", { class: "row", id: `row-${card.id}` }, header, list, text);
  if (page.choices.length) item.append(decide(card));
  return item;
}

function show() {
  const size = page.choices.length ? 1 : page.size;
  const shown = hits.slice(first, first + size);
  $("rows").replaceChildren(...shown.map(row));
  $("rows").classList.toggle("deciding", page.choices.length > 0);
  const last = Math.min(first + size, hits.length);
  $("page").textContent = hits.length ? `${whole(first + 1)}${last > first + 1 ? `–${whole(last)}` : ""} of ${whole(hits.length)} (${whole(page.cards.length)} in all)` : "Nothing matches the filters.";
  $("previous").disabled = first === 0;
  $("next").disabled = first + size >= hits.length;
  choice = null;
  if (page.choices.length) $("progress").textContent = `${whole(Object.keys(page.decided).length)} of ${whole(page.cards.length)} decided`;
}

function turn(by) {
  const to = first + by * (page.choices.length ? 1 : page.size);
  if (to < 0 || to >= hits.length) return;
  first = to;
  show();
  $("rows").scrollIntoView({ block: "nearest" });
}

// Deciding

function decide(card) {
  const before = page.decided[card.id];
  const buttons = page.choices.map((c) => {
    const button = make("button", { type: "button", "data-choice": c.name, "aria-pressed": String(before?.choice === c.name) }, make("kbd", {}, c.key), ` ${c.label}`);
    button.addEventListener("click", () => choose(card, c));
    return button;
  });
  return make("section", { class: "decide", "aria-label": "Decision" }, make("div", { class: "choices" }, ...buttons, make("span", {}, make("kbd", {}, "←"), " ", make("kbd", {}, "→"), " go, ", make("kbd", {}, "Esc"), " back")), make("div", { id: "form" }), make("p", { id: "error", class: "error", role: "alert" }));
}

function choose(card, c) {
  choice = c;
  for (const button of document.querySelectorAll("[data-choice]")) button.setAttribute("aria-pressed", String(button.dataset.choice === c.name));
  if (!c.note && !c.edits.length) return save(card, {}, "");
  const form = make("form", { class: "fix" });
  for (const field of card.fields.filter((f) => c.edits.includes(f.name))) {
    const area = make("textarea", { name: field.name, rows: field.text.length > 160 ? 3 : 2, lang: field.lang || undefined, dir: "auto" });
    area.value = page.decided[card.id]?.fields?.[field.name] ?? field.text;
    form.append(make("label", {}, field.label, area));
  }
  if (c.note) {
    const input = make("input", { name: "note", required: true, autocomplete: "off", maxlength: 500 });
    input.value = page.decided[card.id]?.note ?? "";
    form.append(make("label", {}, "reason", input));
  }
  form.append(make("div", { class: "choices" }, make("button", {}, `Save: ${c.label}`), make("kbd", {}, "Enter")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const edited = {};
    for (const field of card.fields.filter((f) => c.edits.includes(f.name))) {
      if (form.elements[field.name].value !== field.text) edited[field.name] = form.elements[field.name].value;
    }
    save(card, edited, form.elements.note?.value ?? "");
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  $("form").replaceChildren(form);
  form.elements[0].focus();
}

async function save(card, fields, note) {
  const made = { id: card.id, choice: choice.name, note, fields };
  try {
    const response = await fetch("decide", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(made) });
    if (!response.ok) throw new Error(await response.text());
  } catch (error) {
    $("error").textContent = `Not saved: ${error.message}`;
    return;
  }
  page.decided[card.id] = made;
  if (first + 1 < hits.length) turn(1);
  else show();
}

function onKey(event) {
  if (event.key === "Escape") {
    document.activeElement.blur();
    show();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (event.key === "ArrowRight") turn(1);
  else if (event.key === "ArrowLeft") turn(-1);
  else {
    const c = page.choices.find((one) => one.key === event.key);
    if (!c || !hits[first]) return;
    choose(hits[first], c);
  }
  event.preventDefault();
}

load().then((data) => {
  page = data;
  buildFilters();
  $("previous").addEventListener("click", () => turn(-1));
  $("next").addEventListener("click", () => turn(1));
  document.addEventListener("keydown", onKey);
  search_();
  document.body.dataset.ready = "true";
});
