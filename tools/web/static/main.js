// The page: puts the parts together, takes what the stream says, listens to keys.
import { Model, B, ABSENT } from "./model.js";
import { View } from "./view.js";
import { available, NAMES, PICTURE_MOST, suited } from "./layouts.js";
import { Panel } from "./panel.js";
import { Timeline } from "./timeline.js";
import { Table } from "./table.js";
import { Trace } from "./trace.js";
import { Acting } from "./actions.js";
import { Chart } from "./chart.js";
import { count, clock, DASH, duration, fill, lineWidth, make, several, utc, whole } from "./format.js";
import { enter, follow, post, read, Refused } from "./connection.js";

const $ = (id) => document.getElementById(id);
const model = new Model();
let view, chosen = null, connected = false, freeze = false, saidVersion = false;
const kept = (key, value) => { try { if (value === undefined) return localStorage.getItem(key); localStorage.setItem(key, value); } catch { /* private windows */ } return null; };

// --- selection and actions ---------------------------------------------------------------------------
const page = {
  select(what) {
    view.selected = what?.broker ?? null; view.selectedLink = what?.link ?? null; view.cursor = null;
    if (what?.link !== undefined) view.selected = null;
    panel.show(what); view.draw();
  },
  light(path) { // a trace, or null
    view.lit = new Map();
    if (path) {
      const rows = new Map(path.map((row) => [row.broker, row]));
      for (const row of path) {
        const here = model.byName.get(row.broker);
        if (!here) continue;
        view.lit.set(`b${here.i}`, "path");
        for (const n of (row.neighbours || []).filter((one) => one.taken && rows.has(one.name))) {
          const there = model.byName.get(n.name)?.i, soft = Boolean(n.bypasses);
          for (const l of model.beside.get(here.i) || []) { const link = model.links.get(l); if ((link.kind === "soft") === soft && link.kind !== "candidate" && (soft ? link.a === here.i && link.b === there : link.a === there || link.b === there)) view.lit.set(l, "path"); }
        }
      }
    }
    view.draw();
  },
  async dismiss(name) { try { await post("dismiss", { broker: name }); page.select(null); } catch (error) { banner(error.message, true); } },
  acts(broker) {
    if (!model.hello?.actions || model.flags(broker.i) & ABSENT) return null;
    const to = make("select", { "aria-label": "new parent" }, model.neighbours(broker.i).concat(model.neighbours(broker.i).flatMap((i) => model.neighbours(i))).filter((i, n, all) => i !== broker.i && all.indexOf(i) === n).map((i) => make("option", { text: model.name(i) })));
    return make("div", { class: "acts" }, make("button", { type: "button", text: "Drain", onclick: () => acting.open("drain", { broker: broker.name }, broker.name) }), make("button", { type: "button", text: "Reload", onclick: () => acting.open("reload", { broker: broker.name }, broker.name) }), make("button", { type: "button", text: "Move below", onclick: () => acting.open("move", { broker: broker.name, to: to.value }, broker.name) }), to);
  },
  publisherActs(p) { return model.hello?.actions && p.target && p.target !== p.at ? make("div", { class: "acts" }, make("button", { type: "button", text: `Relocate to ${p.target}`, onclick: () => acting.open("relocate", { publisher: p.publisher, to: p.target }, p.publisher) })) : null; },
};
const panel = new Panel(model, $("panel"), page), table = new Table(model, $("table"), page), trace = new Trace($("trace"), page), acting = new Acting($("act"), page);
const timeline = new Timeline($("timeline"), $("live"), (event) => {
  const broker = model.byName.get(event.broker), f = event.fields;
  if (f.client) page.select({ client: f.client });
  else if (f.publisher) page.select({ publisher: f.publisher });
  else if (broker) page.select({ broker: broker.i });
});
const chart = new Chart($("chart"), ["delivered/s", "accepted/s"], ["soft-link", "accent"]);
view = new View(model, $("stage"));

// --- what the stream says ----------------------------------------------------------------------------
function take(kind, data) {
  if (kind === "open") { connected = true; }
  else if (kind === "broken") { connected = false; status(); }
  else if (kind === "hello") hello(data);
  else if (kind === "source") { model.source = data; status(); }
  else if (kind === "overlay") { const before = view.thin; model.takeOverlay(data); layouts(); redraw(); if (view.thin !== before) legend(); }
  else if (kind === "pulse") { connected = true; model.takePulse(data); if (!freeze && !model.frozen) redraw(); else slider(); }
  else if (kind === "event") { if (model.takeEvent(data)) { timeline.add(data); happened(data); } }
  else if (kind === "bye") { stopped = true; status(); }
}
let stopped = false;
function hello(data) {
  if (model.hello && model.hello.version !== data.version && !saidVersion) { saidVersion = true; banner(`the page's server is of version ${data.version}, this page of ${model.hello.version}: load it again`); }
  model.hello = data; stopped = false; connected = true; $("may").hidden = !data.actions; status();
}
function happened(event) { // moves are shown as they happen, not when the past is read
  if (model.t - event.t > 15) return;
  const f = event.fields, here = model.byName.get(event.broker)?.i;
  if (event.kind === "relocate.started" || (event.kind === "relocate.settled" && !view.moving.length)) { const from = model.byName.get(f.from)?.i, to = model.byName.get(f.to)?.i; if (from !== undefined && to !== undefined) view.travel(f.publisher, from, to); }
  else if (event.kind.startsWith("move.") || event.kind === "joined" || event.kind === "link.lost") { if (here !== undefined) view.mark(here); }
  else if (event.kind === "soft.promoted") { const to = model.byName.get(f.to)?.i; for (const l of model.links.values()) if (l.kind === "soft" && l.a === here && l.b === to) { view.lit.set(l.i, "new"); setTimeout(() => { if (view.lit.get(l.i) === "new") view.lit.delete(l.i); view.draw(); }, 4000); } view.draw(); }
}
function redraw() { header(); view.draw(); $("said").textContent = view.describe(); panel.refresh(true); panel.pulse(); if (chosen === "table") table.refresh(); charts(); slider(); empty(); status(); }
function header() {
  const total = model.shown.total;
  if (!total) return;
  const pill = $("health"); pill.className = `pill ${total.health.level}`; pill.textContent = `${{ good: "✓", warn: "!", bad: "✕" }[total.health.level]} ${total.health.text}`;
  $("t-brokers").textContent = count(total.brokers); $("t-accepted").textContent = whole(total.accepted_s); $("t-delivered").textContent = whole(total.delivered_s); $("t-bypassed").textContent = total.bypassed === null ? DASH : String(Math.round(100 * total.bypassed)); $("t-slow").textContent = count(total.slow);
  for (const [id, one, many, amount] of [["n-brokers", "broker", "brokers", total.brokers], ["n-slow", "slow client", "slow clients", total.slow], ["n-saved", "move settled", "moves settled", model.moves]]) $(id).textContent = amount === 1 ? one : many;
  $("saved").hidden = !model.moves; $("t-saved").textContent = count(model.moves); document.title = `${total.health.level === "good" ? "" : "● "}grapevine: ${total.health.text}`;
}
function charts() {
  const past = model.past.slice(-600);
  if (past.length > 1) chart.set(past.map((p) => p.t), past.map((p) => p.total.delivered_s), past.map((p) => p.total.accepted_s));
}
function slider() { const when = $("when"), most = Math.max(0, model.past.length - 1), end = Number(when.value) >= Number(when.max); when.max = most; if (end && !model.frozen) when.value = most; when.setAttribute("aria-valuetext", model.frozen ? clock(model.frozen.t) : "now"); }

// --- states ------------------------------------------------------------------------------------------
let bannerText = "";
function banner(text, bad = false) { const place = $("banner"); if (text === bannerText) return; bannerText = text; place.textContent = text; place.hidden = !text; place.className = bad ? "bad" : ""; view.resize(); }
function status() {
  const source = model.source, total = model.total; let text = "", bad = false, old = false;
  if (stopped) { text = "the page's server has stopped; this is the last it said"; bad = old = true; }
  else if (!connected && model.hello) { text = "the page's server does not answer; trying again"; bad = old = true; }
  else if (source.state === "lost") { text = `${source.asked || "the broker"} does not answer${source.age_s ? `, the picture is ${duration(source.age_s)} old` : ""}: ${source.reason}`; bad = old = true; }
  else if (source.state === "ended") { text = `${source.reason}: this is its last moment`; }
  else if (model.frozen) text = `${clock(model.frozen.t)}, not now. Esc goes back to now`;
  else if (freeze) text = "frozen: Space goes on";
  else if (total?.left_out) text = `${several(total.left_out, "broker")} did not fit into the answer and ${total.left_out === 1 ? "is" : "are"} not shown`;
  banner(text, bad); $("stage").classList.toggle("old", old);
}
function empty() {
  const place = $("empty"), total = model.total, lines = [];
  const code = (text) => make("code", { text });
  if (model.overlay && total && chosen !== "table") {
    if (model.overlay.brokers.length > PICTURE_MOST && chosen !== "hosts") lines.push(make("b", { text: `${model.overlay.brokers.length} brokers are too many for a picture` }), make("p", { text: "the hosts and the table show them" }));
    else if (total.brokers === 1 && model.hello?.source === "broker") lines.push(make("p", { class: "low", text: "one broker alone. Add a second:" }), code(`grapevined --set broker.name=b2 --set tree.neighbours='["${model.overlay.brokers[0].addresses[0] ?? "tcp://127.0.0.1:7470"}"]'`));
    else if (total.clients === 0 && total.brokers > 1) lines.push(make("p", { text: "nobody is attached yet. Publish something:" }), code("pubctl pub class=STOCK volume=6200"));
  }
  fill(place, lines); place.hidden = !lines.length; place.classList.toggle("low", Boolean(lines.length));
}
function blank(title, ...lines) { const place = $("empty"); place.classList.remove("low"); fill(place, make("b", { text: title }), lines.map((text) => make("p", { text }))); place.hidden = false; }

// --- layouts -----------------------------------------------------------------------------------------
function layouts() {
  const found = available(model), wanted = chosen && found.includes(chosen) ? chosen : suited(model);
  const nav = $("layouts");
  if (nav.dataset.of !== found.join()) { nav.dataset.of = found.join(); fill(nav, found.map((name, n) => make("button", { type: "button", "data-layout": name, title: `${name === "table" ? "t" : n + 1}`, text: NAMES[name], onclick: () => choose(name, true) }))); }
  if (wanted !== view.layout || chosen === null) choose(wanted);
}
function choose(name, byHand = false) {
  chosen = byHand || chosen === name ? name : chosen ?? null;
  if (byHand) kept("grapevine-layout", name);
  for (const button of $("layouts").children) button.setAttribute("aria-pressed", String(button.dataset.layout === name));
  const isTable = name === "table"; $("table").hidden = !isTable; $("legend").hidden = isTable;
  if (isTable) { chosen = "table"; table.draw(); } else view.setLayout(name);
  legend(); empty();
}
function legend() {
  const ramp = make("canvas", { width: 96, height: 12, "aria-hidden": "true" }), g = ramp.getContext("2d");
  for (let n = 0; n < 6; n += 1) { g.fillStyle = view.c[`r${n}`]; g.fillRect(n * 16, 0, 16, 12); }
  const widths = make("canvas", { width: 110, height: 14, "aria-hidden": "true" }), w = widths.getContext("2d");
  [0, 100, 10000].forEach((rate, n) => { w.strokeStyle = view.c.line; w.lineWidth = lineWidth(rate) * view.thin; w.beginPath(); w.moveTo(4 + n * 38, 7); w.lineTo(30 + n * 38, 7); w.stroke(); });
  const many = [...model.links.values()].filter((l) => l.kind === "soft").length;
  fill($("legend"), make("span", {}, "busy 0", ramp, "100 %"), make("span", {}, "line:", widths, "0, 100, 10 k /s"), make("span", { class: "soft", text: "– – soft link" }), make("span", { class: "bad", text: "✕ no answer" }), make("span", { class: "bad", text: "! slow client" }), make("span", { class: "move", text: "● moving publisher" }),
    many > 60 ? make("label", {}, "soft links", make("input", { type: "range", min: 0, max: many, value: view.softMost, oninput: (e) => { view.softMost = Number(e.target.value); view.draw(); } })) : null,
    make("label", {}, make("input", { type: "checkbox", onchange: (e) => { view.candidates = e.target.checked; view.draw(); } }), "candidates"));
}
function theme(name) { document.documentElement.dataset.theme = name; view.readColours(); view.draw(); chart.repaint(); panel.chart?.repaint?.(); legend(); $("dark").textContent = name === "dark" ? "Light" : "Dark"; }

// --- the user ----------------------------------------------------------------------------------------
const KEYS = [["?", "this help"], ["/", "find a broker or a client"], ["t", "the table"], ["1 – 6", "layouts, in the order of the buttons"], ["f", "fit the picture"], ["+ −", "zoom"], ["← ↑ → ↓", "walk to a neighbour"], ["Enter", "open what the cursor is at"], ["Esc", "back"], ["Space", "freeze"], ["p", "projector: large, without panels"], ["d", "dark or light"], ["s", "save the picture as SVG"], ["g", "trace a publication"]];
function help() { fill($("help"), make("h2", { text: "Keys" }), make("div", { class: "keys" }, KEYS.flatMap(([key, text]) => [make("kbd", { text: key }), make("span", { text })])), make("h3", { text: "What the picture says" }), make("p", { text: "Fill is how busy a broker's loop is. A line's width is its rate on a fixed scale, so that two pictures can be compared; squares run in the direction of the traffic. Dashed teal lines bypass brokers. A dashed red outline with ✕ does not answer, a hatched one is cut off behind such a broker. ! is a client that does not keep up. A rate that is not known is –." }), make("div", { class: "bar" }, make("button", { type: "button", text: "Close", onclick: () => $("help").close() }))); $("help").showModal(); }
function find(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return;
  const names = [...model.brokers.values()], hit = names.find((b) => b.name.toLowerCase() === wanted) ?? names.find((b) => b.name.toLowerCase().startsWith(wanted)) ?? names.find((b) => b.name.toLowerCase().includes(wanted));
  if (hit) { page.select({ broker: hit.i }); view.cursor = hit.i; view.draw(); return; }
  read(`client/${encodeURIComponent(text.trim())}`).then(() => page.select({ client: text.trim() })).catch(() => banner(`no broker or client named ${text.trim()}`));
}
function lookBack(index) { const live = index >= model.past.length - 1; model.lookBack(live ? null : index); $("when").value = live ? $("when").max : index; header(); view.frozen = !live; view.draw(); panel.refresh(); if (chosen === "table") table.refresh(); slider(); status(); }
async function save() { try { const response = await fetch("/api/v1/picture"); const blob = await response.blob(), url = URL.createObjectURL(blob), anchor = make("a", { href: url, download: "overlay.svg" }); anchor.click(); URL.revokeObjectURL(url); } catch (error) { banner(error.message, true); } }
function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const inField = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) && event.target.type !== "range", open = document.querySelector("dialog[open]");
  if (event.key === "Escape" && !open) { if (inField) event.target.blur(); else if (model.frozen) lookBack(Infinity); else page.select(null); banner(""); status(); return; }
  if (inField || open) return;
  const number = Number(event.key), buttons = [...$("layouts").children];
  if (event.key === "?") help();
  else if (event.key === "/") { event.preventDefault(); $("find").focus(); }
  else if (event.key === "t") { if (chosen === "table") choose(suited(model), true); else choose("table", true); }
  else if (number >= 1 && number <= buttons.length) buttons[number - 1].click();
  else if (event.key === "f") view.fit();
  else if (event.key === "+" || event.key === "=") view.zoomBy(1.25);
  else if (event.key === "-") view.zoomBy(0.8);
  else if (event.key === " " && event.target.tagName !== "BUTTON") { event.preventDefault(); freeze = !freeze; view.frozen = freeze; if (!freeze) redraw(); status(); }
  else if (event.key === "p") { document.body.classList.toggle("projector"); view.fitted = false; view.resize(); }
  else if (event.key === "d") $("dark").click();
  else if (event.key === "s") save();
  else if (event.key === "g") { event.preventDefault(); trace.open(); }
  else if (event.key.startsWith("Arrow") && event.target.type !== "range" && chosen !== "table") { event.preventDefault(); const i = view.walk(event.key); if (i !== null) $("live").textContent = `${model.name(i)}, ${model.state(i)}, ${whole(model.row(i)?.[B.inS])} in, ${whole(model.row(i)?.[B.outS])} out a second`; }
  else if (event.key === "Enter" && view.cursor !== null && event.target.id === "front") page.select({ broker: view.cursor });
}
function mouse() {
  const canvas = $("front"); let from = null, moved = false;
  const point = (e) => { const box = canvas.getBoundingClientRect(); return [e.clientX - box.left, e.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (e) => { from = [...point(e), view.x, view.y]; moved = false; canvas.setPointerCapture(e.pointerId); });
  canvas.addEventListener("pointermove", (e) => {
    const [x, y] = point(e);
    if (from) { if (Math.hypot(x - from[0], y - from[1]) > 4) moved = true; if (moved) { canvas.classList.add("dragging"); view.x = from[2] + x - from[0]; view.y = from[3] + y - from[1]; view.draw(); } return; }
    const hit = view.at(x, y); canvas.classList.toggle("over", Boolean(hit)); canvas.title = hit?.broker !== undefined ? model.name(hit.broker) : hit?.link !== undefined ? `${model.name(model.links.get(hit.link).a)} – ${model.name(model.links.get(hit.link).b)}` : "";
  });
  canvas.addEventListener("pointerup", (e) => { canvas.classList.remove("dragging"); if (from && !moved) page.select(view.at(...point(e))); from = null; });
  canvas.addEventListener("wheel", (e) => { e.preventDefault(); view.zoomBy(Math.exp(-e.deltaY * 0.0015), ...point(e)); }, { passive: false });
}

// --- begin -------------------------------------------------------------------------------------------
addEventListener("keydown", keys); mouse();
$("dark").addEventListener("click", () => { const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; kept("grapevine-theme", next); theme(next); });
$("help-open").addEventListener("click", help); $("trace-open").addEventListener("click", () => trace.open());
$("health").addEventListener("click", () => { const worst = model.total?.health.broker; page.select(worst === null || worst === undefined ? null : { broker: worst }); });
$("find").addEventListener("keydown", (e) => { if (e.key === "Enter") find(e.target.value); });
$("when").addEventListener("input", (e) => lookBack(Number(e.target.value)));
addEventListener("visibilitychange", () => { if (!document.hidden) { redraw(); } });
theme(kept("grapevine-theme") ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
chosen = kept("grapevine-layout");
setTimeout(() => { if (!model.overlay && $("empty").hidden) blank("connecting", model.source.reason === "connecting" ? "the first answer of the overlay is on its way" : model.source.reason); }, 500);
globalThis.grapevine = { model, view, page, utc, reading: () => ({ ...view.stats, curves: view.curves.length }) }; // for who measures
try {
  await enter();
  follow(take, (status) => { if (status === 401) blank("this page needs its key", "open the whole address that `pubctl web` printed, with what follows the #"); else if (status === 503) banner("too many pages are open already: close one", true); else if (status === 421) blank("this name is not one of the page's", "start it with --host NAME"); },
    () => [["hello", model.hello], ["source", model.source], ...(model.overlay ? [["overlay", model.overlay], ["pulse", { g: model.overlay.g, t: model.t, b: [...model.rows.values()], l: [...model.linkRows.values()], total: model.total, whole: true }]] : []), ...model.events.slice(-200).map((event) => ["event", event])]);
} catch (error) {
  blank(error instanceof Refused && error.status === 401 ? "the key in this address is not right" : "the page's server does not answer", error.message);
}
