// Every number, sortable and filterable: the picture's twin for who cannot or does not want to see it.
import { ABSENT, B, L } from "./model.js";
import { count, DASH, fill, make, percent } from "./format.js";

const natural = new Intl.Collator(undefined, { numeric: true });
const BROKERS = [["broker", (m, b) => b.name, true], ["state", (m, b) => b.state, true], ["parent", (m, b) => (b.parent === null || b.parent === undefined ? "" : m.name(b.parent)), true], ["host", (m, b) => b.host, true],
  ...[["in/s", B.inS], ["out/s", B.outS], ["accepted/s", B.accepted], ["delivered/s", B.delivered], ["busy", B.busy, percent], ["cpu", B.cpu, percent], ["queue ms", B.queue], ["worst turn ms", B.slowest], ["backlog", B.backlog], ["slow", B.slow], ["clients", B.clients], ["subs", B.subs], ["known", B.known], ["dropped", B.dropped]].map(([title, column, show]) => [title, (m, b) => m.row(b.i)?.[column] ?? null, false, show ?? count])];
const LINKS = [["from", (m, l) => m.name(l.a), true], ["to", (m, l) => m.name(l.b), true], ["kind", (m, l) => l.kind, true], ["past", (m, l) => l.bypasses.map((i) => m.name(i)).join(" "), true],
  ...[["→ /s", L.ab], ["← /s", L.ba], ["unsettled", L.unsettled], ["rtt ms", L.rtt], ["gain", L.gain]].map(([title, column]) => [title, (m, l) => m.linkRow(l.i)?.[column] ?? null, false, count])];

export class Table {
  constructor(model, place, page) { this.model = model; this.place = place; this.page = page; this.of = "brokers"; this.sort = 0; this.down = false; this.filter = ""; }
  get columns() { return this.of === "brokers" ? BROKERS : LINKS; }
  things() {
    const model = this.model, list = this.of === "brokers" ? [...model.brokers.values()] : [...model.links.values()].filter((l) => l.kind !== "candidate");
    const [, value, text] = this.columns[this.sort] ?? this.columns[0], wanted = this.filter.toLowerCase();
    const kept = wanted ? list.filter((one) => this.columns.some(([, v, words]) => words && String(v(model, one)).toLowerCase().includes(wanted))) : list;
    kept.sort((a, b) => { const x = value(model, a), y = value(model, b); return text ? natural.compare(x ?? "", y ?? "") : (x ?? -Infinity) - (y ?? -Infinity); });
    return this.down ? kept.reverse() : kept;
  }
  draw() {
    const rows = this.things(), most = 500;
    const bar = make("div", { class: "bar" },
      ...["brokers", "links"].map((of) => make("button", { type: "button", "aria-pressed": String(this.of === of), text: of, onclick: () => { this.of = of; this.sort = 0; this.draw(); } })),
      make("label", {}, make("span", { class: "quiet", text: "only rows with" }), make("input", { type: "search", placeholder: "only rows with", value: this.filter, oninput: (e) => { this.filter = e.target.value; this.body(); } })),
      make("button", { type: "button", text: "Copy as CSV", onclick: () => navigator.clipboard?.writeText(this.csv()) }),
      make("span", { text: rows.length > most ? `the first ${most} of ${rows.length}: narrow them` : `${rows.length} rows` }));
    const head = make("thead", {}, make("tr", {}, this.columns.map(([title], n) => make("th", { scope: "col", "aria-sort": n === this.sort ? (this.down ? "descending" : "ascending") : null }, make("button", { type: "button", class: "link-button", text: `${title}${n === this.sort ? (this.down ? " ▼" : " ▲") : ""}`, onclick: () => { this.down = this.sort === n ? !this.down : !this.columns[n][2]; this.sort = n; this.draw(); } })))));
    this.rows = make("tbody"); fill(this.place, bar, make("table", {}, make("caption", { class: "quiet", text: `All ${this.of} of the overlay` }), head, this.rows)); this.body(rows);
  }
  body(rows = this.things()) {
    fill(this.rows, rows.slice(0, 500).map((one) => {
      const absent = this.of === "brokers" && this.model.flags(one.i) & ABSENT, what = this.of === "brokers" ? { broker: one.i } : { link: one.i };
      return make("tr", {}, this.columns.map(([title, value, text, show], n) => {
        const found = value(this.model, one), shown = text ? String(found ?? "") : show(found);
        return n === 0 ? make("td", {}, make("button", { class: "link-button", type: "button", text: shown, onclick: () => this.page.select(what) })) : make("td", { class: `${text ? "text" : ""}${absent && title === "state" ? " bad" : ""}` || null, text: shown === "" ? DASH : shown });
      }));
    }));
  }
  refresh() { if (document.activeElement?.closest?.("#table tbody")) return; if (this.rows) this.body(); else this.draw(); }
  csv() {
    const quote = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
    return [this.columns.map(([title]) => title).join(","), ...this.things().map((one) => this.columns.map(([, value]) => quote(String(value(this.model, one) ?? ""))).join(","))].join("\n");
  }
}
