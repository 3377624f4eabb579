"use strict";
(async () => {
const $ = id => document.getElementById(id);
const el = (tag, text, cls) => { const e = document.createElement(tag); if (text !== undefined && text !== null) e.textContent = text; if (cls) e.className = cls; return e; };
const num = (x, d = 3) => x === null || x === undefined ? "–" : Math.abs(x) >= 1000 ? Math.round(x).toLocaleString("en") : +x === 0 ? "0" : (+x).toFixed(d).replace(/^(-?)0\./, "$1.");
const grade = x => x === null || x === undefined ? "–" : String(x).replace(/^0\./, ".");
const worded = k => (data.words || {})[k] || String(k).replaceAll("_", " ");
const unpack = async () => {
  const box = JSON.parse($("explorer-data").textContent);
  const bytes = Uint8Array.from(atob(box.data), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
};
let data;
try { data = await unpack(); }
catch (error) { $("page").replaceChildren(el("p", "This browser cannot unpack the pages (" + error.message + "). Any browser from 2023 on can.", "empty")); return; }

const P = Object.fromEntries(data.columns.page.map((n, i) => [n, i]));
const C = Object.fromEntries(data.columns.card.map((n, i) => [n, i]));
const L = Object.fromEntries(data.columns.label.map((n, i) => [n, i]));
const V = data.variants;
const pages = data.pages;
const text = i => i === null ? null : data.texts[i];
const byId = new Map(pages.map((p, i) => [p[P.page_id], i]));
const base = Math.max(0, V.indexOf("plain"));
const graded = V.filter(v => v !== "evidence_only");
const mainName = V.includes("qri") ? "qri" : graded.find(v => v !== V[base]) || V[base];

/* marks: kept in the browser where it allows that */
const KEY = "hindcast-marks-" + (pages.length ? pages[0][P.run] : "");
let marks = {};
try { marks = JSON.parse(localStorage.getItem(KEY) || "{}"); } catch (e) { marks = {}; }
const keep = () => { try { localStorage.setItem(KEY, JSON.stringify(marks)); return true; } catch (e) { return false; } };

const labelOf = (p, v) => { const c = p[P.labels][V.indexOf(v)]; return c ? c[L.label] : null; };
const evidenceBand = n => n === 0 ? "0 rows" : n < 5 ? "1-4 rows" : n < 10 ? "5-9 rows" : "10 rows or more";
const setOf = p => p[P.set] === "other" ? "logs" : p[P.set];
const flipOf = (p, v) => { const a = labelOf(p, V[base]), b = labelOf(p, v); return a === null || b === null ? "unknown" : a === b ? "none" : b > a ? "up" : "down"; };
const reasonsOf = p => p[P.labels].filter(c => c && c[L.reason]).map(c => c[L.reason]);

/* filters: the address is the state */
const names = ["text", "flip", "effect", "set", "configuration", "corpus", "locale", "evidence", "reason", "mark", "variant"];
const form = $("filters");
const read = () => { const q = new URLSearchParams(location.hash.slice(1)); return Object.fromEntries([...names, "page"].map(n => [n, q.get(n) || ""])); };
const isState = () => /[=]/.test(location.hash);
let state = read();
const write = change => {
  state = { ...state, ...change };
  const q = new URLSearchParams();
  for (const n of [...names, "page"]) if (state[n]) q.set(n, state[n]);
  history.replaceState(null, "", "#" + q.toString());
  draw();
};
const options = (name, values, any) => {
  const select = form.elements[name];
  select.replaceChildren(new Option(any, ""), ...values.map(([v, t]) => new Option(t === undefined ? v : t, v)));
};
const tally = f => { const m = new Map(); for (const p of pages) for (const v of [].concat(f(p))) if (v) m.set(v, (m.get(v) || 0) + 1); return [...m].sort().map(([v, n]) => [v, v + " (" + n + ")"]); };
options("flip", [["any", "flipped"], ["up", "up"], ["down", "down"], ["none", "equal"]], "all");
options("effect", ["ambiguity", "severity", "ranking"].map(x => [x]), "all");
options("set", tally(setOf), "all");
options("configuration", tally(p => p[P.configuration]), "all");
options("corpus", tally(p => p[P.corpus]), "all");
options("locale", tally(p => p[P.locale]), "all");
options("evidence", tally(p => evidenceBand(p[P.qri_count])), "all");
options("reason", tally(p => [...new Set(reasonsOf(p))]).map(([v, t]) => [v, worded(v) + t.slice(v.length)]), "all");
options("mark", [["marked"], ["agree"], ["disagree"], ["unsure"], ["none", "not marked"]], "all");
options("variant", graded.filter(v => v !== V[base]).map(v => [v, V[base] + " with " + v]), V[base] + " with " + mainName);

const chosen = () => state.variant && V.includes(state.variant) ? state.variant : mainName;
const keepPage = (p, v) => {
  const flip = flipOf(p, v), mark = marks[p[P.page_id]];
  return (!state.text || text(p[P.query]).toLowerCase().includes(state.text.toLowerCase()))
    && (!state.flip || flip === state.flip || (state.flip === "any" && (flip === "up" || flip === "down")))
    && (!state.effect || data.effects[p[P.configuration]] === state.effect)
    && (!state.set || setOf(p) === state.set)
    && (!state.configuration || p[P.configuration] === state.configuration)
    && (!state.corpus || p[P.corpus] === state.corpus)
    && (!state.locale || p[P.locale] === state.locale)
    && (!state.evidence || evidenceBand(p[P.qri_count]) === state.evidence)
    && (!state.reason || reasonsOf(p).includes(state.reason))
    && (!state.mark || (state.mark === "none" ? !mark : state.mark === "marked" ? !!mark : mark && mark.mark === state.mark));
};

/* list: only the visible rows exist */
const ROW = 44, list = $("list"), pad = $("pad");
let found = [];
const rows = () => {
  const top = Math.max(0, Math.floor(list.scrollTop / ROW) - 5), end = Math.min(found.length, top + Math.ceil(list.clientHeight / ROW) + 10);
  pad.replaceChildren(...found.slice(top, end).map((i, k) => row(pages[i], top + k)));
};
const row = (p, place) => {
  const b = el("button", undefined, "row"), v = chosen(), mark = marks[p[P.page_id]];
  b.type = "button"; b.tabIndex = -1; b.style.setProperty("top", place * ROW + "px");
  if (p[P.page_id] === state.page) b.setAttribute("aria-current", "true");
  b.append(el("b", text(p[P.query]) || p[P.page_id]),
    el("span", [p[P.locale], p[P.configuration], p[P.system] ? "system " + p[P.system].toUpperCase() : null, grade(labelOf(p, V[base])) + " → " + grade(labelOf(p, v)), p[P.qri_count] + " rows", mark ? mark.mark : null].filter(x => x).join(" · ")));
  b.addEventListener("click", () => write({ page: p[P.page_id] }));
  return b;
};
const draw = () => {
  for (const n of names) if (form.elements[n].value !== state[n]) form.elements[n].value = state[n];
  const v = chosen();
  found = []; pages.forEach((p, i) => { if (keepPage(p, v)) found.push(i); });
  pad.style.setProperty("height", found.length * ROW + "px");
  $("count").textContent = found.length.toLocaleString("en") + " of " + pages.length.toLocaleString("en") + " pages, " + Object.keys(marks).length + " marked";
  const at = found.indexOf(byId.get(state.page));
  if (at >= 0 && (at * ROW < list.scrollTop || (at + 1) * ROW > list.scrollTop + list.clientHeight)) list.scrollTop = Math.max(0, at * ROW - 2 * ROW);
  rows(); show();
};

/* one page */
const table = (head, body, cls) => { const t = el("table", undefined, cls), h = el("thead"), r = el("tr"), b = el("tbody"); head.forEach(x => r.append(el("th", x))); h.append(r); b.append(...body); t.append(h, b); const s = el("div", undefined, "scroll"); s.append(t); return s; };
const numbered = (p, v) => { /* numbers that the judge saw: by item, then by place in the variant's card */
  const at = v === "qri_unfiltered" ? C.row_unfiltered : C.row, seen = new Map(); let n = 0;
  for (const [, , card] of p[P.items]) [...card].filter(c => c[at] !== null).sort((x, y) => x[at] - y[at]).forEach(c => seen.set(c, ++n));
  return seen;
};
const show = () => {
  const box = $("page"), i = byId.get(state.page);
  if (i === undefined) {
    const why = !pages.length ? "No page of this run was judged: run `hindcast judging run`, then build the report again." : found.length ? "Choose a page on the left, or press j." : "No page fits these filters: clear them to see all.";
    box.replaceChildren(el("p", state.page ? "Page " + state.page + " is not in this report. " + why : why, "empty")); return;
  }
  const p = pages[i], v = chosen(), cells = [];
  cells.push(el("h3", text(p[P.query]) || p[P.page_id]));
  cells.push(el("p", [p[P.page_id], p[P.run], "set " + p[P.set], p[P.corpus], p[P.locale] || null, "page is " + p[P.configuration], p[P.system] ? "system " + p[P.system].toUpperCase() + ", instance " + p[P.instance] : null].filter(x => x).join(" · "), "meta"));
  if (p[P.context] !== null) cells.push(el("p", "Context: " + text(p[P.context])));
  cells.push(markButtons(p), labels(p, v), truth(p), ...items(p, v), dropped(p));
  box.replaceChildren(...cells.filter(x => x));
};
const markButtons = p => {
  const box = el("p", undefined, "marks"), now = (marks[p[P.page_id]] || {}).mark;
  for (const m of ["agree", "disagree", "unsure"]) {
    const b = el("button", m); b.type = "button"; b.setAttribute("aria-pressed", String(now === m)); b.dataset.mark = m;
    b.addEventListener("click", () => mark(p[P.page_id], m)); box.append(b, " ");
  }
  return box;
};
const mark = (id, m) => {
  if ((marks[id] || {}).mark === m) delete marks[id]; else marks[id] = { mark: m, variant: chosen(), at: new Date().toISOString() };
  if (!keep()) $("export").textContent = "Export marks (this browser keeps none)";
  draw();
};
const labels = (p, v) => table(["variant", "label", "expected", "rationale or reason", "cites rows"], V.flatMap((name, k) => {
  const c = p[P.labels][k]; if (!c) return [];
  const r = el("tr"), own = name === v || name === V[base];
  r.append(el("th", name), el("td", grade(c[L.label]), own ? "sure" : ""), el("td", num(c[L.expected_label])));
  const said = [c[L.reason] ? "unscored: " + worded(c[L.reason]) : null, c[L.reused_from_plain] ? "no evidence: plain's label" : null, text(c[L.rationale])].filter(x => x).join(" · ");
  r.append(el("td", said, "why"), el("td", c[L.cited].join(", ") + (c[L.cited_invented] ? " (" + c[L.cited_invented] + " invented)" : "")));
  r.title = data.models[c[L.model]];
  return [r];
}), "labels");
const truth = p => {
  const human = setOf(p) === "human" && p[P.human_label] !== null, value = human ? p[P.human_label] : p[P.truth];
  if (value === null) return el("p", "No truth for this page.", "note");
  const box = el("p"), bar = el("span", undefined, "bar"), se = human ? null : p[P.truth_standard_error], pct = x => Math.min(100, Math.max(0, 100 * x)) + "%";
  if (se !== null) { const s = el("i"); s.style.setProperty("left", pct(value - 1.96 * se)); s.style.setProperty("right", "calc(100% - " + pct(value + 1.96 * se) + ")"); bar.append(s); }
  const t = el("u"); t.style.setProperty("left", "calc(" + pct(value) + " - 1px)"); bar.append(t);
  const how = human ? "human label (" + (p[P.human_label_source] || "page") + ")" : "users, odd event days";
  box.append("Truth " + num(value) + (se === null ? "" : " ± " + num(1.96 * se)) + " ", bar, " " + how);
  if (p[P.made]) { const d = el("details"); d.append(el("summary", "How page and truth were made"), el("pre", JSON.stringify(p[P.made], null, 1))); const both = el("div"); both.append(box, d); return both; }
  return box;
};
const items = (p, v) => {
  const seen = numbered(p, v), cell = p[P.labels][V.indexOf(v)], cited = new Set(cell ? cell[L.cited] : []);
  return p[P.items].map(([k, rank, card]) => {
    const [id, title, type] = data.items[k], box = el("div", undefined, "item");
    box.append(el("b", rank + ". " + (title || id)), el("span", " " + [type, id].filter(x => x).join(" · "), "note"));
    if (!card.length) { box.append(el("p", "No card: nothing that past users asked led here often enough.", "note")); return box; }
    const rowsOf = keepRow => card.filter(keepRow).map(c => cardRow(c, seen.get(c), cited));
    const here = rowsOf(c => seen.has(c)), gone = rowsOf(c => !seen.has(c));
    const head = ["row, historical query", "cosine", "shown", "clicked", "examined", "relevance", "interval", "users", "last shown"];
    if (here.length) box.append(table(head, here, "cards"));
    if (gone.length) { const d = el("details"); d.append(el("summary", gone.length + " left out by the filters"), table(head, gone, "cards")); box.append(d); }
    return box;
  });
};
const cardRow = (c, n, cited) => {
  const r = el("tr", undefined, n === undefined ? "gone" : cited.has(n) ? "cited" : ""), why = c[C.dropped] === null ? null : data.columns.dropped[c[C.dropped]];
  const name = (n === undefined ? "" : n + ". ") + text(c[C.query]) + (why ? " (" + worded(why) + ")" : "") + (cited.has(n) ? " ← cited" : "");
  r.append(el("th", name), ...[num(c[C.similarity], 2), num(c[C.impressions], 0), num(c[C.clicks], 0), num(c[C.examined], 1), num(c[C.relevance]), num(c[C.low]) + " to " + num(c[C.high]), num(c[C.users], 0), c[C.last_shown_day] || "–"].map(x => el("td", x)));
  r.title = "relevance = clicks / examined exposure, where examined is impressions weighted by the chance that users look at their rank";
  return r;
};
const dropped = p => {
  const d = p[P.dropped]; if (!d || !Object.keys(d).length) return null;
  return el("p", "Left out of this page's cards in all: " + Object.entries(d).map(([k, n]) => n + " " + worded(k)).join(", ") + ".", "note");
};

/* events */
form.addEventListener("input", e => write({ [e.target.name]: e.target.value }));
form.addEventListener("submit", e => e.preventDefault());
$("clear").addEventListener("click", () => write(Object.fromEntries(names.map(n => [n, ""]))));
$("export").addEventListener("click", () => {
  const body = JSON.stringify({ format: 1, run: pages.length ? pages[0][P.run] : null, marks }, null, 1);
  const a = el("a"); a.href = URL.createObjectURL(new Blob([body], { type: "application/json" })); a.download = "marks.json"; a.click(); URL.revokeObjectURL(a.href);
});
list.addEventListener("scroll", () => requestAnimationFrame(rows));
window.addEventListener("resize", () => requestAnimationFrame(rows));
window.addEventListener("hashchange", () => { if (isState()) { state = read(); draw(); $("explorer").scrollIntoView(); } });
document.addEventListener("keydown", e => {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
  const step = { j: 1, ArrowDown: e.target === list ? 1 : 0, k: -1, ArrowUp: e.target === list ? -1 : 0 }[e.key];
  if (step) {
    const at = found.indexOf(byId.get(state.page)), next = at < 0 ? 0 : Math.min(found.length - 1, Math.max(0, at + step));
    if (found.length) write({ page: pages[found[next]][P.page_id] });
    e.preventDefault();
  }
  const m = { a: "agree", d: "disagree", u: "unsure" }[e.key];
  if (m && byId.has(state.page)) mark(state.page, m);
});
draw();
document.documentElement.dataset.ready = "true";
if (isState()) $("explorer").scrollIntoView();
})();
