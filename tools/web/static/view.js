// The picture in three layers: links below, flow between, brokers in front. Links and brokers are drawn when a pulse
// comes or the view moves; flow at most thirty times a second, and not at all in a hidden tab or for who wants no motion.
import { ABSENT, B, FLAG, L } from "./model.js";
import { busyStep, LAYOUTS } from "./layouts.js";
import { clock, lineWidth, several, whole } from "./format.js";

const FRAME_MS = 1000 / 30, PARTICLES = 1400, SOFT_MOST = 60;
const COLOURS = ["page", "card", "ink", "soft", "rule", "faint", "line", "soft-link", "candidate", "bad", "warn", "move", "accent", "flow", "focus", "r0", "r1", "r2", "r3", "r4", "r5", "on-light", "on-dark"];

export class View {
  constructor(model, stage) {
    this.model = model; this.stage = stage; this.layout = "tree"; this.selected = null; this.cursor = null; this.lit = new Map();
    this.canvases = ["base", "flow", "front"].map((id) => document.getElementById(id));
    this.contexts = this.canvases.map((canvas) => canvas.getContext("2d"));
    this.zoom = 1; this.x = 0; this.y = 0; this.shapes = new Map(); this.curves = []; this.moving = []; this.marks = [];
    this.candidates = false; this.softMost = SOFT_MOST; this.frozen = false; this.scale = 1; this.shapeSeen = -1; this.fitted = false;
    this.still = matchMedia("(prefers-reduced-motion: reduce)"); this.stats = { flow: 0, frames: 0, draw: 0, draws: 0 };
    this.readColours();
    new ResizeObserver(() => this.resize()).observe(stage);
    this.resize();
    let last = 0;
    const tick = (now) => { requestAnimationFrame(tick); if (now - last < FRAME_MS - 2 || document.hidden) return; last = now; this.flow(now); };
    requestAnimationFrame(tick);
  }
  readColours() {
    const style = getComputedStyle(document.documentElement);
    this.c = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.hatch = null;
  }
  resize() {
    const { clientWidth: w, clientHeight: h } = this.stage;
    if (!w || !h) return;
    this.width = w; this.height = h; this.scale = Math.min(2, devicePixelRatio || 1);
    for (const canvas of this.canvases) { canvas.width = w * this.scale; canvas.height = h * this.scale; }
    this.place(); this.draw();
  }
  get thin() { return this.shapes.size > 200 ? 0.62 : 1; } // of every width in a crowded picture; the legend follows
  setLayout(name) { this.layout = name; this.fitted = false; this.place(); this.draw(); }
  place() { // also when the overlay has another shape
    if (!this.model.overlay || !LAYOUTS[this.layout]) return;
    this.plan = LAYOUTS[this.layout](this.model, this.width, this.height);
    this.shapes = this.plan.places; this.shapeSeen = this.model.shape;
    if (!this.fitted) this.fit();
  }
  fit() {
    const [w, h] = this.plan?.size ?? [this.width, this.height];
    this.zoom = Math.min(1, this.width / w, this.height / h); this.x = (this.width - w * this.zoom) / 2; this.y = Math.max(0, (this.height - 50 - h * this.zoom) / 2); this.fitted = true; this.draw();
  }
  zoomBy(factor, px = this.width / 2, py = this.height / 2) {
    const zoom = Math.max(0.15, Math.min(8, this.zoom * factor));
    this.x = px - ((px - this.x) * zoom) / this.zoom; this.y = py - ((py - this.y) * zoom) / this.zoom; this.zoom = zoom; this.draw();
  }
  toWorld(px, py) { return [(px - this.x) / this.zoom, (py - this.y) / this.zoom]; }
  begin(context) {
    context.setTransform(1, 0, 0, 1, 0, 0); context.clearRect(0, 0, context.canvas.width, context.canvas.height);
    context.setTransform(this.scale * this.zoom, 0, 0, this.scale * this.zoom, this.scale * this.x, this.scale * this.y);
  }
  draw() {
    if (!this.model.overlay || !this.plan) return;
    const began = performance.now();
    if (this.shapeSeen !== this.model.shape) this.place();
    this.drawLinks(); this.drawBrokers();
    this.stats.draw += performance.now() - began; this.stats.draws += 1;
  }
  // --- links ---------------------------------------------------------------------------------------
  curve(link) { // [x1, y1, cx, cy, x2, y2], from a to b
    const a = this.shapes.get(link.a), b = this.shapes.get(link.b);
    if (!a || !b) return null;
    const kind = link.kind;
    if (this.plan.ring && kind === "successor") {
      const { cx, cy, radius } = this.plan.ring, turn = (a.turn + b.turn) / 2 + (Math.abs(a.turn - b.turn) > Math.PI ? Math.PI : 0);
      return [a.x, a.y, cx + radius * 1.06 * Math.cos(turn), cy + radius * 1.06 * Math.sin(turn), b.x, b.y];
    }
    if (kind === "primary" || !this.plan.boxes) {
      const bend = kind === "primary" ? 0 : 0.22;
      const [cx, cy] = this.plan.centre ?? [this.width / 2, this.height / 2];
      const mx = (a.x + b.x) / 2, my = (a.y + b.y) / 2;
      return [a.x, a.y, mx + (cx - mx) * bend * (kind === "primary" ? 0 : 1), my + (cy - my) * bend, b.x, b.y];
    }
    const dx = b.x - a.x, dy = b.y - a.y, length = Math.hypot(dx, dy) || 1, bow = Math.min(120, 40 + length * 0.16);
    return [a.x, a.y, (a.x + b.x) / 2 - (dy / length) * bow, (a.y + b.y) / 2 - (Math.abs(dx) / length) * bow, b.x, b.y];
  }
  visibleLinks() {
    if (this.plan.links === false) return [];
    const links = [...this.model.links.values()];
    const soft = links.filter((l) => l.kind === "soft").sort((one, other) => this.model.rate(other.i) - this.model.rate(one.i));
    const busiest = new Set(soft.slice(0, this.softMost).map((l) => l.i));
    return links.filter((l) => (l.kind === "soft" ? busiest.has(l.i) || this.lit.has(l.i) : l.kind === "candidate" ? this.candidates : l.kind === "finger" ? l.a === this.selected || l.b === this.selected || this.model.rate(l.i) > 0 : true));
  }
  drawLinks() {
    const g = this.contexts[0], model = this.model;
    this.begin(g); g.lineCap = "round"; this.curves = [];
    this.drawGround(g);
    const small = this.thin;
    for (const link of this.visibleLinks()) {
      const curve = this.curve(link);
      if (!curve) continue;
      const [x1, y1, cx, cy, x2, y2] = curve, row = model.linkRow(link.i), rate = model.rate(link.i);
      const down = !link.up || (model.flags(link.a) | model.flags(link.b)) & ABSENT;
      g.lineWidth = Math.max(0.7, lineWidth(rate) * small);
      g.strokeStyle = down ? this.c.bad : link.kind === "soft" ? this.c["soft-link"] : link.kind === "candidate" ? this.c.candidate : this.c.line;
      g.setLineDash(down ? [4, 5] : link.kind === "soft" ? [10, 6] : link.kind === "candidate" ? [2, 5] : []);
      g.globalAlpha = down ? 0.9 : rate || link.kind !== "primary" ? 0.9 : 0.55;
      g.beginPath(); g.moveTo(x1, y1); g.quadraticCurveTo(cx, cy, x2, y2); g.stroke();
      const lit = this.lit.get(link.i);
      if (lit || this.selectedLink === link.i) { g.setLineDash([]); g.globalAlpha = 0.55; g.strokeStyle = lit === "path" ? this.c.accent : this.c.focus; g.lineWidth += 6; g.stroke(); }
      if (!down && rate > 0 && row) this.curves.push({ curve, link, ab: row[L.ab] || 0, ba: row[L.ba] || 0, length: Math.hypot(cx - x1, cy - y1) + Math.hypot(x2 - cx, y2 - cy) });
    }
    g.globalAlpha = 1; g.setLineDash([]);
    this.seed();
  }
  drawGround(g) {
    const plan = this.plan;
    if (plan.ring) { g.strokeStyle = this.c.rule; g.lineWidth = 1.5; g.beginPath(); g.arc(plan.ring.cx, plan.ring.cy, plan.ring.radius, 0, 7); g.stroke(); }
    for (const frame of plan.frames || []) {
      g.fillStyle = this.c.faint; g.strokeStyle = this.c.rule; g.lineWidth = 1; g.beginPath(); g.roundRect(frame.x, frame.y, frame.w, frame.h, 10); g.fill(); g.stroke();
      g.fillStyle = this.c.soft; g.font = "600 13px 'DejaVu Sans', sans-serif"; g.fillText(frame.text, frame.x + 12, frame.y + 20);
    }
    for (const bar of plan.bars || []) {
      if (bar.label) {
        g.fillStyle = this.c.ink; g.font = "600 13px 'DejaVu Sans', sans-serif"; g.textAlign = "right"; g.fillText(bar.label, bar.x, bar.y + 4);
        g.font = "11px 'DejaVu Sans', sans-serif"; g.fillStyle = this.c.soft; g.textAlign = "left"; g.fillText(String(bar.low), bar.x + 10, bar.below + 14); g.textAlign = "right"; g.fillText(String(bar.high), bar.end, bar.below + 14); g.textAlign = "left";
        continue;
      }
      const step = Math.max(0, Math.min(5, Math.floor((bar.load ?? 0) * 6)));
      g.fillStyle = this.c[`r${step}`]; g.strokeStyle = bar.i === this.selected ? this.c.focus : this.c.soft; g.lineWidth = bar.i === this.selected ? 3 : 1;
      g.beginPath(); g.roundRect(bar.x + 1, bar.y, Math.max(2, bar.w - 2), bar.h, 5); g.fill(); g.stroke();
      if (bar.w > 34) { g.fillStyle = this.inkOn(step); g.font = "600 12px 'DejaVu Sans', sans-serif"; g.textAlign = "center"; g.fillText(this.model.name(bar.i), bar.x + bar.w / 2, bar.y + bar.h / 2 + 4); g.textAlign = "left"; }
    }
    for (const flow of plan.flows || []) {
      const place = (end) => (Array.isArray(end) ? end : [this.shapes.get(end)?.x ?? 0, this.shapes.get(end)?.y ?? 0]);
      const [x1, y1] = place(flow.from), [x2, y2] = place(flow.to), middle = (x1 + x2) / 2;
      g.strokeStyle = this.c.line; g.globalAlpha = 0.6; g.lineWidth = Math.max(1, Math.min(22, 1.5 * Math.sqrt(flow.weight))); g.beginPath(); g.moveTo(x1, y1); g.bezierCurveTo(middle, y1, middle, y2, x2, y2); g.stroke(); g.globalAlpha = 1;
    }
    for (const end of plan.ends || []) {
      g.textAlign = end.side === "left" ? "right" : "left"; const x = end.x + (end.side === "left" ? -10 : 10);
      g.fillStyle = this.c.ink; g.font = "600 13px 'DejaVu Sans', sans-serif"; g.fillText(end.text, x, end.y); g.fillStyle = this.c.soft; g.font = "12px 'DejaVu Sans', sans-serif"; g.fillText(end.sub, x, end.y + 16); g.textAlign = "left";
    }
  }
  // --- brokers -------------------------------------------------------------------------------------
  inkOn(step) { const dark = document.documentElement.dataset.theme === "dark"; return step >= (dark ? 4 : 3) ? (dark ? this.c["on-light"] : this.c["on-dark"]) : dark ? this.c["on-dark"] : this.c["on-light"]; }
  drawBrokers() {
    const g = this.contexts[2];
    this.begin(g); g.textBaseline = "alphabetic";
    const worst = this.worst();
    for (const [i, at] of this.shapes) {
      if (at.bar) continue;
      if (this.plan.boxes && !this.plan.small) this.drawBox(g, i, at);
      else if (this.plan.boxes) this.drawCell(g, i, at);
      else this.drawDot(g, i, at, worst);
    }
    this.drawMarks(g);
  }
  worst() {
    const rows = [...this.model.shown.rows.values()], found = new Set(this.model.roots());
    for (const row of rows) if (row[B.flags] & (ABSENT | FLAG.slow)) found.add(row[0]);
    for (const row of rows.filter((r) => r[B.busy]).sort((a, b) => b[B.busy] - a[B.busy]).slice(0, 3)) found.add(row[0]);
    if (found.size > 40) return new Set([...found].slice(0, 40));
    return found;
  }
  drawBox(g, i, at) {
    const row = this.model.row(i), flags = row ? row[B.flags] : 0, broker = this.model.brokers.get(i), step = busyStep(row), gone = flags & ABSENT;
    const x = at.x - at.w / 2, y = at.y - at.h / 2;
    g.beginPath(); g.roundRect(x, y, at.w, at.h, 8);
    g.fillStyle = gone ? this.c.card : this.c[`r${Math.max(0, step)}`]; g.fill();
    if (flags & FLAG.cutOff) this.hatched(g);
    this.outline(g, i, flags);
    const ink = gone ? this.c.bad : this.inkOn(Math.max(0, step));
    g.fillStyle = ink; g.font = "650 14px 'DejaVu Sans', sans-serif"; g.fillText(this.clip(g, broker.name, at.w - 52), x + 8, y + 20);
    g.font = "12px 'DejaVu Sans', sans-serif";
    if (gone) { g.fillText(this.absence(flags, broker), x + 8, y + 38); this.badge(g, x + at.w - 12, y + 12, "✕"); return; }
    const state = flags & FLAG.joining ? "joining" : flags & FLAG.leaving ? "leaving" : "";
    g.fillText(state || `↓${whole(row?.[B.inS])} ↑${whole(row?.[B.outS])} /s`, x + 8, y + 38);
    if (row?.[B.clients]) { g.textAlign = "right"; g.fillText(`${row[B.clients]} cl`, x + at.w - (flags & FLAG.slow ? 26 : 8), y + 20); g.textAlign = "left"; }
    if (flags & FLAG.slow) this.badge(g, x + at.w - 12, y + 12, "!");
    if (flags & FLAG.old) { g.fillStyle = this.c.warn; g.fillText("old", x + at.w - 30, y + 38); }
  }
  absence(flags, broker) { return flags & FLAG.noAnswer ? "no answer" : flags & FLAG.cutOff ? "cut off" : `${flags & FLAG.left ? "left" : "gone since"} ${clock(broker.since ?? 0, false)}`; }
  drawCell(g, i, at) {
    const row = this.model.row(i), flags = row ? row[B.flags] : 0, step = Math.max(0, busyStep(row)), gone = flags & ABSENT;
    g.beginPath(); g.roundRect(at.x - at.w / 2, at.y - at.h / 2, at.w, at.h, 4); g.fillStyle = gone ? this.c.card : this.c[`r${step}`]; g.fill(); this.outline(g, i, flags);
    g.fillStyle = gone ? this.c.bad : this.inkOn(step); g.font = "11px 'DejaVu Sans', sans-serif"; g.textAlign = "center"; g.fillText(this.clip(g, `${gone ? "✕ " : flags & FLAG.slow ? "! " : ""}${this.model.name(i)}`, at.w - 4), at.x, at.y + 4); g.textAlign = "left";
  }
  drawDot(g, i, at, worst) {
    const row = this.model.row(i), flags = row ? row[B.flags] : 0, step = busyStep(row), gone = flags & ABSENT;
    g.beginPath(); g.arc(at.x, at.y, at.r, 0, 7); g.fillStyle = gone ? this.c.card : this.c[`r${Math.max(0, step)}`]; g.fill();
    this.outline(g, i, flags, at.r < 6 ? 0.9 : 1.6);
    const named = worst.has(i) || i === this.selected || i === this.cursor || this.zoom > 2.2 || this.shapes.size <= 60;
    if (gone) this.cross(g, at); else if (flags & FLAG.slow) this.badge(g, at.x + at.r, at.y - at.r, "!", 1 / Math.max(1, this.zoom));
    if (!named) return;
    const right = at.turn === undefined || Math.cos(at.turn) >= -0.01, px = 12 / Math.max(1, this.zoom * 0.7);
    g.font = `${i === this.selected ? 650 : 400} ${px}px 'DejaVu Sans', sans-serif`; g.textAlign = right ? "left" : "right";
    const text = gone ? `${this.model.name(i)} ${this.absence(flags, this.model.brokers.get(i))}` : this.model.name(i), x = at.x + (right ? 1 : -1) * (at.r + 4), w = g.measureText(text).width;
    g.fillStyle = this.c.page; g.globalAlpha = 0.8; g.fillRect(right ? x - 1 : x - w - 1, at.y - px * 0.8, w + 2, px * 1.15); g.globalAlpha = 1;
    g.fillStyle = gone ? this.c.bad : this.c.ink; g.fillText(text, x, at.y + px * 0.34); g.textAlign = "left";
  }
  cross(g, at) { const r = Math.max(3, at.r * 0.7); g.strokeStyle = this.c.bad; g.lineWidth = 1.6; g.setLineDash([]); g.beginPath(); g.moveTo(at.x - r, at.y - r); g.lineTo(at.x + r, at.y + r); g.moveTo(at.x + r, at.y - r); g.lineTo(at.x - r, at.y + r); g.stroke(); }
  outline(g, i, flags, width = 1.4) {
    const picked = i === this.selected || i === this.cursor || this.lit.has(`b${i}`);
    g.setLineDash(flags & FLAG.noAnswer ? [5, 4] : flags & (FLAG.gone | FLAG.left) ? [2, 4] : []);
    g.lineWidth = picked ? 3 : width; g.strokeStyle = picked ? (this.lit.has(`b${i}`) && i !== this.selected ? this.c.accent : this.c.focus) : flags & ABSENT ? this.c.bad : this.c.soft; g.stroke(); g.setLineDash([]);
  }
  badge(g, x, y, sign, scale = 1) { g.beginPath(); g.arc(x, y, 8 * scale, 0, 7); g.fillStyle = this.c.bad; g.fill(); g.fillStyle = this.c.card; g.font = `700 ${11 * scale}px 'DejaVu Sans', sans-serif`; g.textAlign = "center"; g.fillText(sign, x, y + 4 * scale); g.textAlign = "left"; }
  hatched(g) {
    if (!this.hatch) {
      const tile = new OffscreenCanvas(8, 8), t = tile.getContext("2d");
      t.strokeStyle = this.c.bad; t.globalAlpha = 0.5; t.beginPath(); t.moveTo(0, 8); t.lineTo(8, 0); t.stroke(); this.hatch = g.createPattern(tile, "repeat");
    }
    g.fillStyle = this.hatch; g.fill();
  }
  clip(g, text, width) {
    if (g.measureText(text).width <= width) return text;
    let cut = text;
    while (cut.length > 1 && g.measureText(`${cut}…`).width > width) cut = cut.slice(0, -1);
    return `${cut}…`;
  }
  // --- what moves ----------------------------------------------------------------------------------
  mark(i, seconds = 10) { if (this.shapes.has(i)) { this.marks.push({ i, until: performance.now() + 1000 * seconds }); this.draw(); setTimeout(() => this.draw(), 1000 * seconds + 50); } }
  drawMarks(g) {
    const now = performance.now(); this.marks = this.marks.filter((m) => m.until > now);
    for (const { i } of this.marks) { const at = this.shapes.get(i); if (!at) continue; g.beginPath(); if (at.w) g.roundRect(at.x - at.w / 2 - 5, at.y - at.h / 2 - 5, at.w + 10, at.h + 10, 11); else g.arc(at.x, at.y, at.r + 6, 0, 7); g.strokeStyle = this.c.move; g.lineWidth = 2.5; g.stroke(); }
  }
  travel(name, from, to) { // a publisher on its way; without motion both places are ringed, no more
    this.mark(from); this.mark(to);
    if (!this.still.matches) this.moving.push({ name, path: this.model.path(from, to), began: performance.now(), ms: 3500 });
  }
  seed() { // how many particles each link has, and how fast
    const total = this.curves.reduce((sum, c) => sum + 1 + Math.log10(1 + c.ab + c.ba), 0) || 1;
    for (const c of this.curves) c.count = Math.max(1, Math.min(6, Math.round((PARTICLES / Math.max(PARTICLES / 3, total * 1.2)) * Math.log10(1 + c.ab + c.ba) * 0.8)));
  }
  flow(now) {
    const g = this.contexts[1];
    if (this.still.matches || this.frozen || !this.plan || !this.model.overlay) { if (this.drew) { this.begin(g); this.drew = false; } return; }
    if (!this.curves.length && !this.moving.length) { if (this.drew) this.begin(g); this.drew = false; return; }
    const began = performance.now(); this.begin(g); this.drew = true;
    const size = this.shapes.size > 200 ? 2.4 : 4, half = size / 2;
    g.fillStyle = this.c.flow;
    for (const { curve: [x1, y1, cx, cy, x2, y2], ab, ba, count: many, length } of this.curves) {
      const speed = (40 + 30 * Math.log10(1 + ab + ba)) / Math.max(60, length) / 1000, both = ab > 0 && ba > 0;
      for (let n = 0; n < many; n += 1) {
        let t = (now * speed + n / many) % 1;
        if (both ? n % 2 : ba > ab) t = 1 - t;
        const u = 1 - t, x = u * u * x1 + 2 * u * t * cx + t * t * x2, y = u * u * y1 + 2 * u * t * cy + t * t * y2;
        g.fillRect(x - half, y - half, size, size);
      }
    }
    this.drawTravel(g, now);
    this.stats.flow += performance.now() - began; this.stats.frames += 1;
  }
  drawTravel(g, now) {
    this.moving = this.moving.filter((m) => now - m.began < m.ms + 600);
    for (const { name, path, began, ms } of this.moving) {
      const along = Math.min(1, (now - began) / ms) * (path.length - 1), leg = Math.min(path.length - 2, Math.floor(along)), t = along - leg;
      const a = this.shapes.get(path[leg]), b = this.shapes.get(path[leg + 1] ?? path[leg]);
      if (!a || !b) continue;
      const x = a.x + (b.x - a.x) * t, y = a.y + (b.y - a.y) * t;
      g.beginPath(); g.arc(x, y, 8, 0, 7); g.fillStyle = this.c.move; g.fill(); g.font = "650 13px 'DejaVu Sans', sans-serif";
      const w = g.measureText(name).width; g.fillStyle = this.c.card; g.fillRect(x + 10, y - 20, w + 6, 18); g.fillStyle = this.c.move; g.fillText(name, x + 13, y - 6);
    }
  }
  // --- finding -------------------------------------------------------------------------------------
  at(px, py) {
    const [x, y] = this.toWorld(px, py);
    for (const [i, p] of this.shapes) if (p.w ? Math.abs(x - p.x) <= p.w / 2 && Math.abs(y - p.y) <= p.h / 2 : Math.hypot(x - p.x, y - p.y) <= Math.max(p.r, 7 / this.zoom)) return { broker: i };
    for (const bar of this.plan?.bars || []) if (bar.i !== undefined && x >= bar.x && x <= bar.x + bar.w && y >= bar.y && y <= bar.y + bar.h) return { broker: bar.i };
    let best = null, nearest = 8 / this.zoom;
    for (const link of this.plan ? this.visibleLinks() : []) {
      const curve = this.curve(link);
      if (!curve) continue;
      const [x1, y1, cx, cy, x2, y2] = curve;
      for (let t = 0.05; t < 1; t += 0.05) { const u = 1 - t, d = Math.hypot(x - (u * u * x1 + 2 * u * t * cx + t * t * x2), y - (u * u * y1 + 2 * u * t * cy + t * t * y2)); if (d < nearest) { nearest = d; best = { link: link.i }; } }
    }
    return best;
  }
  walk(key) { // to the neighbour that lies in this direction
    const from = this.cursor ?? this.selected ?? this.model.roots()[0], at = this.shapes.get(from);
    if (!at) return null;
    const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key];
    let best = null, score = Infinity;
    const near = new Set(this.model.neighbours(from));
    for (const [i, p] of this.shapes) {
      if (i === from) continue;
      const along = (p.x - at.x) * dx + (p.y - at.y) * dy, across = Math.abs((p.x - at.x) * dy) + Math.abs((p.y - at.y) * dx);
      if (along <= 1) continue;
      const value = along + 2 * across + (near.has(i) ? 0 : 400);
      if (value < score) { score = value; best = i; }
    }
    if (best !== null) { this.cursor = best; this.draw(); }
    return best;
  }
  describe() {
    const total = this.model.total, model = this.model;
    if (!total) return "Nothing is known yet.";
    const absent = [...model.brokers.values()].filter((b) => model.flags(b.i) & ABSENT).map((b) => b.name);
    return `${several(total.brokers, "broker")}, ${total.well} ready. ${total.health.text}. ${whole(total.accepted_s)} publications accepted and ${whole(total.delivered_s)} delivered a second, ${several(total.slow, "slow client")}.${absent.length ? ` Not there: ${absent.join(", ")}.` : ""} Press t for the same as a table.`;
  }
}
