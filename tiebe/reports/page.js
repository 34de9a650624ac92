"use strict";
// All text of models, questions and answers is put in as text nodes, never as markup.

const report = JSON.parse(document.getElementById("report").textContent);
const state = { split: report.splits[0] ?? "", events: report.events[0] ?? "all" };
const modelName = new Map(report.models.map((m) => [m.id, m.name]));
const regionOf = new Map(report.regions.map((r) => [r.slug, r]));
const $ = (id) => document.getElementById(id);

// Small things

function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === undefined) continue;
    node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((c) => c !== undefined && c !== null && c !== ""));
  return node;
}

const percent = (v, digits = 1) => (v === null ? "–" : `${(100 * v).toFixed(digits)} %`);
const whole = (v) => (v === null ? "–" : v.toLocaleString("en"));
const display = (name, value) =>
  name === "region" || name === "reference"
    ? (regionOf.get(value)?.name ?? value)
    : ["model", "first", "second"].includes(name)
      ? (modelName.get(value) ?? value)
      : value;

/** The rows of a table that the switches leave, as objects. */
function rowsOf(name, filter = state) {
  const { columns, rows } = report.tables[name];
  const at = new Map(columns.map((c, i) => [c.name, i]));
  const kept = rows.filter(
    (row) =>
      (!at.has("split") || !filter.split || row[at.get("split")] === filter.split) &&
      (!at.has("events_of") || row[at.get("events_of")] === filter.events),
  );
  return kept.map((row) => Object.fromEntries(columns.map((c, i) => [c.name, row[i]])));
}

// Colours follow the theme; CSS is the one place that knows them.

const probe = make("span", { hidden: true });
document.body.append(probe);
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

function colour(name) {
  probe.style.color = `var(--${name})`;
  canvas.fillStyle = getComputedStyle(probe).color;
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
  return `#${[r, g, b].map((v) => v.toString(16).padStart(2, "0")).join("")}`;
}

function isDark() {
  const scheme = getComputedStyle(document.documentElement).colorScheme;
  if (scheme === "dark" || scheme === "light") return scheme === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

// Okabe and Ito's and Tol's hues, told apart with any colour vision, dark or bright enough for
// either ground; shapes say the same.
const CATEGORIES = {
  light: ["#0b5fa5", "#b8500b", "#00795a", "#8a3a8f", "#a77a00", "#2b8cc4", "#5f6770", "#8f1d4f", "#5d6b00"],
  dark: ["#6cb6f5", "#f5a15c", "#3ecfa2", "#d79be0", "#f0d24a", "#a5dcff", "#b4bdc6", "#ff8fb5", "#c3d14f"],
};
const SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left", "stroke"];

const BLUES = {
  light: ["#0b3f75", "#2e78b7", "#6aa5d6", "#b7d3ea"],
  dark: ["#c4e4ff", "#6cb6f5", "#3f83b5", "#27506f"],
};
const RANGES = {
  sides: () => [colour("before"), colour("after")],
  // From faint to full, then what lies outside the paper's periods.
  ramp: (blues) => [...blues.toReversed(), colour("after"), colour("quiet")],
  tiers: (blues) => [...blues, colour("after"), colour("quiet")],
};

/** A specification with the ranges of the theme put in the place of their names. */
function themed(spec) {
  if (Array.isArray(spec)) return spec.map(themed);
  if (spec === null || typeof spec !== "object") return spec;
  return Object.fromEntries(
    Object.entries(spec).map(([key, value]) =>
      key === "range" && RANGES[value] ? [key, RANGES[value](isDark() ? BLUES.dark : BLUES.light)] : [key, themed(value)],
    ),
  );
}

function config() {
  const ink = colour("ink");
  const quiet = colour("quiet");
  const accent = colour("accent");
  return {
    background: null,
    font: 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif',
    view: { stroke: null },
    axis: { labelColor: ink, titleColor: quiet, gridColor: colour("grid"), domain: false, ticks: false, labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelPadding: 6 },
    legend: { labelColor: ink, titleColor: quiet, labelFontSize: 12, symbolStrokeWidth: 2 },
    range: { category: isDark() ? CATEGORIES.dark : CATEGORIES.light, symbol: SHAPES },
    text: { color: ink, fontSize: 12 },
    point: { color: accent },
    bar: { color: accent, cornerRadiusEnd: 3 },
    rule: { color: accent },
    line: { color: quiet },
  };
}

// Tooltips

const tip = $("tip");

function showTip(_handler, event, _item, value) {
  if (value === null || value === undefined || value === "") {
    tip.hidden = true;
    return;
  }
  const lines = typeof value === "object" ? Object.entries(value) : [["", value]];
  tip.replaceChildren(...lines.filter(([, v]) => v !== "" && v !== "null").flatMap(([k, v]) => [make("span", {}, k), make("span", { class: "text" }, String(v))]));
  tip.hidden = false;
  const { offsetWidth: w, offsetHeight: h } = tip;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - w - 4))}px`;
  tip.style.top = `${event.clientY + 18 + h > innerHeight ? event.clientY - h - 10 : event.clientY + 18}px`;
}
addEventListener("keydown", (event) => {
  if (event.key === "Escape") tip.hidden = true;
});
addEventListener("scroll", () => (tip.hidden = true), { passive: true });

// Charts are drawn when they come near the window, and again when a switch or the theme changes.

const stale = new Set();
const near = new Set();
const views = new Map();

const shapes = new Map();

/** The height of a chart with its axis and legend, and the legend's columns, of which none is cut
 * off. The height is kept free from the start: were the page to move when a chart is drawn, a press
 * that began on a button would end beside it. */
function shapeOf({ spec }, width) {
  const encodings = [spec, ...(spec.layer ?? [])].map((part) => part.encoding ?? {});
  const { name } = spec.data ?? spec.layer[0].data;
  const valuesOf = (field) => unique(rowsOf(name).map((row) => display(field, row[field])));
  const plot = spec.height.step ? spec.height.step * Math.max(1, valuesOf(encodings.find((e) => e.y).y.field).length) : spec.height;
  const axis = encodings.find((e) => e.x).x.axis.title ? 45 : 28;
  const key = encodings.find((e) => e.color?.legend)?.color;
  if (!key) return { height: plot + axis, columns: 1 };
  const labels = key.scale.domain ?? valuesOf(key.field);
  const column = 30 + Math.min(160, 7 * Math.max(0, ...labels.map((label) => label.length)));
  const columns = Math.max(1, Math.min(4, Math.floor((width - 150) / column)));
  const lines = Math.ceil(labels.length / columns) + (key.legend.title ? 1 : 0);
  return { height: plot + axis + 14 + 16 * lines, columns };
}

async function draw(node) {
  stale.delete(node);
  const chart = report.charts[node.dataset.chart];
  const spec = themed(chart.spec);
  spec.datasets = Object.fromEntries(
    chart.tables.map((name) => [
      name,
      rowsOf(name).map((row) => {
        for (const key of ["model", "region"]) if (key in row) row[key] = display(key, row[key]);
        return "region" in row ? { ...row, code: codes.get(row.region) ?? row.region } : row;
      }),
    ]),
  );
  Object.assign(spec, {
    $schema: "https://vega.github.io/schema/vega-lite/v6.json",
    width: "container",
    // Axis and legend included; the plot takes what they leave.
    height: node.clientHeight,
    autosize: { type: "fit", contains: "padding" },
    description: chart.alt,
  });
  const settings = config();
  if (node.clientWidth < 420) Object.assign(settings.axis, { labelLimit: 110, labelFontSize: 11 });
  settings.legend.columns = shapes.get(node).columns;
  const result = await vegaEmbed(node, spec, { actions: false, renderer: "svg", ast: true, logLevel: 1, config: settings, tooltip: showTip });
  views.get(node)?.finalize();
  views.set(node, result.view);
  // A layer without a mark has nothing to say to a screen reader.
  for (const layer of node.querySelectorAll("g[role=graphics-symbol]:empty")) layer.removeAttribute("role");
  node.dataset.drawn = "true";
}

const codes = new Map(report.regions.map((r) => [r.name, r.code]));
const watcher = new IntersectionObserver(
  (entries) => {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting) near.add(target);
      else near.delete(target);
      if (isIntersecting && stale.has(target)) draw(target);
    }
  },
  { rootMargin: "500px" },
);

function drawAll() {
  const nodes = [...document.querySelectorAll("[data-chart]")];
  // All widths are read before the first height is set: the page is laid out once.
  for (const node of nodes) shapes.set(node, shapeOf(report.charts[node.dataset.chart], node.clientWidth));
  for (const node of nodes) {
    node.style.height = `${shapes.get(node).height}px`;
    const caption = node.parentNode.querySelector(".caption");
    if (caption) caption.textContent = report.charts[node.dataset.chart].captions[state.split] ?? "";
    stale.add(node);
  }
  for (const node of near) draw(node);
}

// Tables

function cell(column, row) {
  const value = row[column.name];
  if (value === null || value === "") return "";
  if (column.kind === "share") return percent(value);
  if (column.kind === "count") return whole(value);
  if (column.kind === "number") return value.toFixed(3);
  if (column.kind === "flag") return value ? "yes" : "";
  return display(column.name, value);
}

function fullTable(name, filter = {}) {
  const { columns, title } = report.tables[name];
  const rows = rowsOf(name, { ...state, ...filter });
  const head = make("tr", {}, ...columns.map((c) => make("th", { scope: "col", class: c.kind === "text" && "left" }, c.label)));
  const body = rows.map((row) => make("tr", {}, ...columns.map((c, i) => make(i ? "td" : "th", { scope: !i && "row", class: c.kind === "text" && "left" }, String(cell(c, row))))));
  return make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": title }, make("table", {}, make("caption", { class: "quiet" }, title), make("thead", {}, head), make("tbody", {}, ...body)));
}

function fillTables() {
  for (const details of document.querySelectorAll("details[data-table]")) {
    details.querySelector(".scroll")?.remove();
    if (details.open) details.append(fullTable(details.dataset.table));
  }
  for (const node of document.querySelectorAll("[data-open]")) {
    node.replaceChildren(...fullTable(node.dataset.open).childNodes);
  }
}
document.addEventListener("toggle", (event) => event.target.matches?.("details[data-table]") && fillTables(), true);

// Heat tables

const MEASURES = { accuracy: "accuracy", refusal: "refusals", attempted: "accuracy when attempted" };
let measure = "accuracy";

/** Where on the way from the faint to the full colour white and black ink are read equally well. */
let flip = 0.5;

function findFlip() {
  const luminance = (v) => {
    probe.className = "hot";
    heatUp(probe, v);
    canvas.fillStyle = getComputedStyle(probe).backgroundColor;
    canvas.fillRect(0, 0, 1, 1);
    const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  let [below, above] = [0, 1];
  for (let i = 0; i < 12; i++) {
    flip = (below + above) / 2;
    if (luminance(flip) > 0.179 === isDark()) above = flip;
    else below = flip;
  }
  probe.className = "";
}

/** Colours a node by a value from 0 to 1. */
function heatUp(node, value) {
  const upper = value > 0.5;
  node.classList.toggle("upper", upper);
  node.style.setProperty("--v", (upper ? 2 * value - 1 : 2 * value).toFixed(3));
  node.style.color = value < flip === isDark() ? "#fff" : "#000";
}

function hot(node, row, top) {
  const value = row[measure];
  node.classList.add("hot");
  node.classList.toggle("few", row.small);
  heatUp(node, value === null ? 0 : Math.min(1, value / top));
  node.title = `${percent(value)}${measure === "accuracy" && value !== null ? ` [${percent(row.low)} – ${percent(row.high)}]` : ""}, n = ${whole(row.n)}`;
}

const scaleTop = (rows) => Math.max(0.1, Math.ceil(10 * Math.max(0, ...rows.map((r) => r[measure] ?? 0))) / 10);

function unique(values) {
  return [...new Set(values)];
}

function heat(node) {
  const { table, pooled, row, column } = JSON.parse(node.dataset.heat);
  const region = pooled ? $("year-region").value : "";
  const rows = pooled && !region ? rowsOf(pooled) : rowsOf(table).filter((r) => !pooled || r.region === region);
  const order = (key) => {
    const values = unique(rows.map((r) => r[key]));
    if (key === "model") return report.models.map((m) => m.id).filter((id) => values.includes(id));
    if (key === "region") return report.regions.map((r) => r.slug).filter((slug) => values.includes(slug));
    return values.sort();
  };
  const [sides, tops] = [order(row), order(column)];
  const cells = new Map(rows.map((r) => [`${r[row]}\n${r[column]}`, r]));
  const top = scaleTop(rows);
  const size = (key, value) => {
    const numbers = unique(rows.filter((r) => r[key] === value).map((r) => r.n));
    return Math.max(...numbers);
  };
  // n stands where it differs: down the side, or above.
  const n = (key, value, other) => (other === "model" ? make("small", {}, ` n = ${whole(size(key, value))}`) : undefined);
  const head = make("tr", {}, make("td", {}), ...tops.map((t) => make("th", { scope: "col" }, display(column, t), make("br"), n(column, t, row) ?? "")));
  const body = sides.map((s) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, display(row, s), n(row, s, column) ?? ""),
      ...tops.map((t) => {
        const found = cells.get(`${s}\n${t}`);
        if (!found) return make("td", { class: "quiet" }, "");
        const td = make("td", { "data-open-answers": true }, found[measure] === null ? "–" : (100 * found[measure]).toFixed(0));
        hot(td, found, top);
        td.addEventListener("click", () => openAnswers({ model: found.model, region: found.region ?? region, year: found.year }));
        return td;
      }),
    ),
  );
  const choice = make("select", { "aria-label": "What the cells show" }, ...Object.entries(MEASURES).map(([key, name]) => make("option", { value: key, selected: key === measure }, name)));
  choice.addEventListener("change", () => {
    measure = choice.value;
    heatAll();
  });
  node.replaceChildren(
    make("div", { class: "measure" }, choice, make("span", {}, "in percent")),
    make("table", { class: "heat" }, make("thead", {}, head), make("tbody", {}, ...body)),
  );
}

function heatAll() {
  for (const node of document.querySelectorAll("[data-heat]")) heat(node);
  drawMap();
}

// The map

function drawMap() {
  const map = $("map");
  if (!map) return;
  const model = $("map-model").value;
  const rows = model ? rowsOf("regions_by_model").filter((r) => r.model === model) : rowsOf("regions");
  const found = new Map(rows.map((r) => [r.region, r]));
  const top = scaleTop(rows.filter((r) => !r.small).length ? rows.filter((r) => !r.small) : rows);
  const chosen = map.dataset.chosen;
  map.replaceChildren(
    ...report.regions.map((region) => {
      const row = found.get(region.slug);
      const tile = make("button", { type: "button", class: `tile${row ? "" : " none"}`, disabled: !row, "aria-pressed": String(region.slug === chosen), "aria-label": row ? `${region.name}: ${percent(row[measure])} of ${row.n} rows` : `${region.name}: not asked` }, region.code);
      tile.style.gridColumn = region.column;
      tile.style.gridRow = region.row;
      if (row) {
        hot(tile, row, top);
        tile.append(make("small", {}, row[measure] === null ? "–" : (100 * row[measure]).toFixed(0)));
        tile.addEventListener("click", () => {
          map.dataset.chosen = region.slug;
          drawMap();
          map.querySelector('[aria-pressed="true"]').focus();
        });
      }
      return tile;
    }),
  );
  $("map-top").textContent = percent(top, 0);
  $("map-measure").textContent = { accuracy: "Accuracy", refusal: "Refusals", attempted: "Accuracy when attempted" }[measure];
  const row = found.get(chosen);
  if (!row) return;
  const button = make("button", { type: "button", class: "more" }, "Read its answers");
  button.addEventListener("click", () => openAnswers({ region: chosen, model }));
  const overall = rowsOf("regions").find((r) => r.region === chosen);
  const behind = overall?.gap > 0 ? ` All models together: ${percent(overall.gap)} behind ${display("region", overall.reference)}.` : "";
  $("map-detail").replaceChildren(
    make("strong", {}, display("region", chosen)),
    ` ${percent(row.accuracy)} [${percent(row.low)} – ${percent(row.high)}], refusals ${percent(row.refusal)}, n = ${whole(row.n)}.${behind}`,
    button,
  );
}

// Differences of models

function drawDifferences() {
  const node = $("differences");
  if (!node) return;
  const rows = rowsOf("differences");
  const ids = report.models.map((m) => m.id).filter((id) => rows.some((r) => r.first === id || r.second === id));
  const found = new Map(rows.flatMap((r) => [
    [`${r.first}\n${r.second}`, { by: -r.difference, low: -r.high, high: -r.low, row: r }],
    [`${r.second}\n${r.first}`, { by: r.difference, low: r.low, high: r.high, row: r }],
  ]));
  const top = Math.max(0.05, ...rows.map((r) => Math.abs(r.difference)));
  node.replaceChildren(
    make(
      "table",
      { class: "heat" },
      make("thead", {}, make("tr", {}, make("td", {}), ...ids.map((id) => make("th", { scope: "col" }, display("model", id))))),
      make("tbody", {}, ...ids.map((side) => make("tr", {}, make("th", { scope: "row" }, display("model", side)), ...ids.map((above) => {
        const pair = found.get(`${side}\n${above}`);
        if (!pair) return make("td", { class: "quiet" }, "");
        const open = pair.low <= 0 && pair.high >= 0;
        const text = `${pair.by > 0 ? "+" : ""}${(100 * pair.by).toFixed(1)}`;
        const td = make("td", { class: "turn", title: `${percent(pair.by)} [${percent(pair.low)} – ${percent(pair.high)}], n = ${whole(pair.row.n)}` }, open ? `(${text})` : text);
        td.style.setProperty("--side", pair.by > 0 ? "var(--heat-middle)" : "var(--minus)");
        td.style.setProperty("--v", (((isDark() ? 0.8 : 0.6) * Math.abs(pair.by)) / top).toFixed(3));
        return td;
      })))),
    ),
  );
}

// The answers. Each question is there once; columns are unpacked when the page has been drawn.

const VERDICTS = ["wrong", "correct", "refusal", "correct and refusal", "unscored"];
const PAGE = 10;
const LONG = 1500;
let data = null;
let hits = [];
let first = 0;
const filters = $("filters");

async function unpack() {
  const packed = $("packed");
  const binary = atob(packed.textContent.trim());
  packed.remove();
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  data = JSON.parse(await new Response(stream).text());
  for (const key of ["question", "model", "verdict"]) data.answers[key] = Uint32Array.from(data.answers[key]);
  const years = unique(data.questions.year).filter(Boolean).sort();
  const splits = unique(data.questions.language).filter(Boolean).sort();
  const options = {
    model: report.models.map((m) => [m.id, m.name]),
    region: report.regions.filter((r) => data.questions.region.includes(r.slug)).map((r) => [r.slug, r.name]),
    year: years.map((y) => [y, y]),
    language: splits.map((code) => [code, report.languages[code] ?? code]),
    verdict: VERDICTS.map((name, i) => [String(i), name]),
  };
  for (const [name, values] of Object.entries(options)) {
    filters.elements[name].append(...values.map(([value, text]) => make("option", { value }, text)));
  }
  search();
}

let folded = null;

function search() {
  if (!data) return;
  const want = Object.fromEntries(new FormData(filters));
  const { questions, answers } = data;
  const text = want.text.trim().toLowerCase();
  // Questions first: there are fewer of them.
  const good = new Uint8Array(questions.text.length);
  for (let i = 0; i < good.length; i++) {
    good[i] =
      (!want.region || questions.region[i] === want.region) &&
      (!want.year || questions.year[i] === want.year) &&
      (!want.language || questions.language[i] === want.language);
  }
  if (text && !folded) {
    folded = { questions: questions.text.map((q, i) => `${q}\n${questions.gold[i]}`.toLowerCase()), answers: answers.text.map((a) => a.toLowerCase()) };
  }
  const asked = text ? folded.questions.map((q) => q.includes(text)) : null;
  const model = want.model ? data.models.indexOf(want.model) : -1;
  const verdict = want.verdict === "" ? -1 : Number(want.verdict);
  hits = [];
  for (let i = 0; i < answers.question.length; i++) {
    const q = answers.question[i];
    if (!good[q] || (model >= 0 && answers.model[i] !== model) || (verdict >= 0 && answers.verdict[i] !== verdict)) continue;
    if (text && !asked[q] && !folded.answers[i].includes(text)) continue;
    hits.push(i);
  }
  first = 0;
  showPage();
}

/** A paragraph of a stranger's text, kept to itself, with the rest of a long one on demand. */
function words(label, text, lang) {
  const node = make("p", { class: label.toLowerCase() || "question" }, label && make("span", { class: "label" }, label));
  const span = make("span", { class: "text", dir: "auto", lang });
  const short = text.length > LONG;
  span.textContent = short ? `${text.slice(0, LONG)}…` : text;
  node.append(span);
  if (short) {
    const button = make("button", { type: "button", class: "more" }, `Show all ${whole(text.length)} characters`);
    button.addEventListener("click", () => {
      span.textContent = text;
      button.remove();
    });
    node.append(button);
  }
  return node;
}

function source(url) {
  if (!url) return undefined;
  if (!/^https?:\/\//i.test(url)) return words("Source", url);
  return make("p", {}, make("span", { class: "label" }, "Source"), make("a", { href: url, rel: "noopener noreferrer nofollow", target: "_blank", class: "text" }, url));
}

function showPage() {
  const { questions, answers } = data;
  const shown = hits.slice(first, first + PAGE).map((i) => {
    const q = answers.question[i];
    const verdict = VERDICTS[answers.verdict[i]];
    const lang = questions.language[q] || undefined;
    const reasoning = answers.reasoning[i];
    return make(
      "li",
      { class: `result ${["wrong", "correct", "", "correct", ""][answers.verdict[i]]}` },
      make("header", {}, make("strong", {}, verdict), make("span", { class: "text" }, display("model", data.models[answers.model[i]])), make("span", { class: "text" }, display("region", questions.region[q])), make("span", {}, [questions.year[q], questions.month[q]].filter(Boolean).join("-")), make("span", {}, report.languages[lang] ?? lang ?? "")),
      words("", questions.text[q], lang),
      words("Expected", questions.gold[q], lang),
      words("Answered", answers.text[i], lang),
      reasoning ? words("Judge", reasoning) : undefined,
      source(questions.url[q]),
    );
  });
  $("results").replaceChildren(...shown);
  $("results").start = first + 1;
  const total = answers.question.length;
  $("count").textContent = `${whole(hits.length)} of ${whole(total)} answers`;
  const pages = Math.max(1, Math.ceil(hits.length / PAGE));
  $("page").textContent = `Page ${whole(first / PAGE + 1)} of ${whole(pages)}`;
  $("previous").disabled = first === 0;
  $("next").disabled = first + PAGE >= hits.length;
}

function turn(by) {
  first = Math.max(0, first + by * PAGE);
  showPage();
  $("answers").scrollIntoView();
}

function openAnswers(wanted) {
  for (const name of ["model", "region", "year"]) filters.elements[name].value = wanted[name] ?? "";
  const native = regionOf.get(wanted.region)?.language ?? "";
  filters.elements.language.value = { english: "en", native }[state.split] ?? "";
  search();
  $("answers").scrollIntoView();
  filters.elements.model.focus({ preventScroll: true });
}

let typing = 0;
filters.addEventListener("input", (event) => {
  clearTimeout(typing);
  if (event.target.type === "search") typing = setTimeout(search, 120);
  else search();
});
filters.addEventListener("reset", () => setTimeout(search));
filters.addEventListener("submit", (event) => event.preventDefault());
$("previous").addEventListener("click", () => turn(-1));
$("next").addEventListener("click", () => turn(1));

// Start

function update() {
  findFlip();
  heatAll();
  drawDifferences();
  fillTables();
  drawAll();
}

const THEMES = ["light dark", "light", "dark"];
const LOOKS = ["◐ Auto", "☀ Light", "☾ Dark"];
$("theme").addEventListener("click", () => {
  const at = (THEMES.indexOf(document.documentElement.style.colorScheme || THEMES[0]) + 1) % 3;
  document.documentElement.style.colorScheme = THEMES[at];
  $("theme").textContent = LOOKS[at];
  $("theme").setAttribute("aria-label", `Colours: ${["as the system", "light", "dark"][at]}`);
  update();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", update);

for (const input of document.querySelectorAll(".switch input")) {
  input.addEventListener("change", () => {
    state[input.name] = input.value;
    update();
  });
}
$("map-model")?.append(...report.models.map((m) => make("option", { value: m.id }, m.name)));
$("map-model")?.addEventListener("change", drawMap);
$("year-region")?.append(...report.regions.filter((r) => rowsOf("years_by_region_and_model", {}).some((row) => row.region === r.slug)).map((r) => make("option", { value: r.slug }, r.name)));
$("year-region")?.addEventListener("change", heatAll);

for (const node of document.querySelectorAll("[data-chart]")) watcher.observe(node);
update();
requestAnimationFrame(() => setTimeout(unpack));
