// What the page knows: the last overlay, the latest row of every broker and link, events, ten minutes to look back.
// Rows come when they change; every thirtieth pulse has all. Facts carry their age, nobody is forgotten.
export const FLAG = { noAnswer: 1, cutOff: 2, gone: 4, slow: 8, old: 16, joining: 32, leaving: 64, left: 128 };
export const ABSENT = FLAG.noAnswer | FLAG.cutOff | FLAG.gone | FLAG.left;
export const B = { i: 0, flags: 1, inS: 2, outS: 3, accepted: 4, delivered: 5, busy: 6, cpu: 7, queue: 8, backlog: 9, slow: 10, clients: 11, slowest: 12, memory: 13, subs: 14, known: 15, dropped: 16, age: 17 };
export const L = { i: 0, ab: 1, ba: 2, abBytes: 3, baBytes: 4, unsettled: 5, rtt: 6, gain: 7 };
const KEPT = 600, EVENTS = 1000;
const KEPT_B = [B.flags, B.inS, B.outS, B.busy, B.backlog, B.slow, B.clients], KEPT_L = [L.ab, L.ba];

function packed(rows, columns) {
  let most = -1;
  for (const i of rows.keys()) if (i > most) most = i;
  const values = new Float32Array((most + 1) * columns.length).fill(NaN);
  for (const [i, row] of rows) columns.forEach((column, n) => { const v = row[column]; values[i * columns.length + n] = v === null ? NaN : v; });
  return values;
}
function unpacked(values, columns, width) {
  const rows = new Map(), step = columns.length;
  for (let i = 0; i * step < values.length; i += 1) {
    const row = new Array(width).fill(null);
    row[0] = i;
    columns.forEach((column, n) => { const v = values[i * step + n]; row[column] = Number.isNaN(v) ? null : v; });
    if (columns !== KEPT_B || row[B.flags] !== null) rows.set(i, row);
  }
  return rows;
}

export class Model {
  constructor() {
    this.hello = null; this.source = { state: "slow", asked: "", age_s: 0, reason: "connecting" };
    this.overlay = null; this.brokers = new Map(); this.links = new Map(); this.byName = new Map();
    this.children = new Map(); this.beside = new Map(); this.rows = new Map(); this.linkRows = new Map();
    this.total = null; this.t = 0; this.events = []; this.seen = new Set(); this.moves = 0; this.shape = 0;
    this.past = []; // {t, total, b, l}: what the picture shows, as float32
    this.frozen = null; // a moment of the past that is shown
  }
  takeOverlay(overlay) {
    this.overlay = overlay; this.shape += 1;
    this.brokers = new Map(overlay.brokers.map((broker) => [broker.i, broker]));
    this.byName = new Map(overlay.brokers.map((broker) => [broker.name, broker]));
    this.links = new Map(overlay.links.map((link) => [link.i, link]));
    this.children = new Map(); this.beside = new Map();
    for (const broker of overlay.brokers) {
      if (broker.parent === null || broker.parent === undefined || !this.brokers.has(broker.parent)) continue;
      if (!this.children.has(broker.parent)) this.children.set(broker.parent, []);
      this.children.get(broker.parent).push(broker.i);
    }
    for (const link of overlay.links) for (const [one, other] of [[link.a, link.b], [link.b, link.a]]) {
      if (!this.beside.has(one)) this.beside.set(one, []);
      this.beside.get(one).push(link.i);
    }
    for (const i of [...this.rows.keys()]) if (!this.brokers.has(i)) this.rows.delete(i);
    for (const i of [...this.linkRows.keys()]) if (!this.links.has(i)) this.linkRows.delete(i);
  }
  takePulse(pulse) {
    if (pulse.whole) { this.rows = new Map(); this.linkRows = new Map(); }
    for (const row of pulse.b) this.rows.set(row[0], row);
    for (const row of pulse.l) this.linkRows.set(row[0], row);
    this.total = pulse.total; this.t = pulse.t;
    this.past.push({ t: pulse.t, total: pulse.total, b: packed(this.rows, KEPT_B), l: packed(this.linkRows, KEPT_L) });
    if (this.past.length > KEPT) this.past.shift();
  }
  takeEvent(event) { // true if it is new: a stream that is resumed may repeat some
    if (this.seen.has(event.n)) return false;
    this.seen.add(event.n); this.events.push(event);
    if (this.events.length > EVENTS) this.seen.delete(this.events.shift().n);
    if (event.kind === "relocate.settled") this.moves += 1;
    return true;
  }
  get shown() { return this.frozen ?? { t: this.t, rows: this.rows, linkRows: this.linkRows, total: this.total }; }
  row(i) { return this.shown.rows.get(i); }
  linkRow(i) { return this.shown.linkRows.get(i); }
  flags(i) { const row = this.row(i); return row ? row[B.flags] : 0; }
  rate(i) { const row = this.linkRow(i); return row ? (row[L.ab] || 0) + (row[L.ba] || 0) : 0; }
  name(i) { return this.brokers.get(i)?.name ?? "?"; }
  roots() { return [...this.brokers.values()].filter((b) => b.parent === null || b.parent === undefined || !this.brokers.has(b.parent)).map((b) => b.i); }
  neighbours(i) { return (this.beside.get(i) || []).map((l) => this.links.get(l)).filter((l) => l && l.kind !== "candidate").map((l) => (l.a === i ? l.b : l.a)); }
  path(from, to) { // along primary links
    const before = new Map([[from, null]]), waiting = [from];
    while (waiting.length) {
      const at = waiting.shift();
      if (at === to) break;
      for (const l of this.beside.get(at) || []) {
        const link = this.links.get(l);
        if (link.kind !== "primary") continue;
        const next = link.a === at ? link.b : link.a;
        if (!before.has(next)) { before.set(next, at); waiting.push(next); }
      }
    }
    if (!before.has(to)) return [from, to];
    const path = [];
    for (let at = to; at !== null; at = before.get(at)) path.unshift(at);
    return path;
  }
  lookBack(index) {
    const then = index === null ? null : this.past[index];
    this.frozen = then ? { t: then.t, total: then.total, rows: unpacked(then.b, KEPT_B, 18), linkRows: unpacked(then.l, KEPT_L, 8) } : null;
  }
  state(i) {
    const broker = this.brokers.get(i);
    return broker ? broker.state : "";
  }
}
