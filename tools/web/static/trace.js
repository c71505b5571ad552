// Where would this publication go, and why not there? And: does this filter mean what I think it does?
import { fill, make } from "./format.js";
import { post } from "./connection.js";

export function attributes(text) { // k=v words as pubctl takes them, or JSON
  const trimmed = text.trim();
  if (trimmed.startsWith("{")) return JSON.parse(trimmed);
  const found = {};
  for (const word of trimmed.match(/[^\s=]+=(?:'[^']*'|"[^"]*"|\S*)/g) || []) {
    const at = word.indexOf("="), name = word.slice(0, at), raw = word.slice(at + 1), bare = raw.replace(/^(['"])(.*)\1$/, "$2");
    found[name] = raw !== bare ? bare : raw === "true" ? true : raw === "false" ? false : raw !== "" && !Number.isNaN(Number(raw)) ? Number(raw) : raw;
  }
  return found;
}
const short = (label) => label.replace(/\/[0-9a-f]+\./, "/");
const which = (n) => (n.subscriptions.length ? `${short(n.subscriptions[0].id)} (${n.subscriptions[0].filter})${n.count > 1 ? ` and ${n.count - 1} more` : ""}` : "");

export class Trace {
  constructor(dialog, page) {
    this.dialog = dialog; this.page = page;
    this.given = make("input", { type: "text", id: "trace-attributes", placeholder: "class=STOCK symbol=YHOO volume=6200", "aria-label": "attributes" });
    this.filter = make("input", { type: "text", id: "trace-filter", placeholder: "class = 'STOCK' and volume > 1000", "aria-label": "a filter" });
    this.result = make("div", { id: "trace-result", "aria-live": "polite" }); this.verdict = make("div", { id: "filter-result", "aria-live": "polite" }); this.near = make("div", { id: "near-result" }); this.asked = 0;
    this.given.addEventListener("keydown", (e) => { if (e.key === "Enter") this.follow(); }); this.filter.addEventListener("input", () => this.tryFilter()); this.given.addEventListener("input", () => { if (this.filter.value) this.tryFilter(); });
    fill(dialog, make("h2", { text: "Where would this publication go?" }), make("p", { text: "Nothing is published. It starts at the broker that this page asks; attributes as name=value or as JSON." }), this.given,
      make("div", { class: "bar" }, make("button", { type: "button", id: "trace-go", text: "Trace", onclick: () => this.follow() }), make("button", { type: "button", text: "Close", onclick: () => dialog.close() })), this.result,
      make("h3", { text: "Try a filter on it" }), this.filter, this.verdict, this.near);
    dialog.addEventListener("close", () => page.light(null));
  }
  open() { this.dialog.showModal(); this.given.focus(); }
  content() { try { return attributes(this.given.value); } catch { return null; } }
  async follow() {
    const content = this.content();
    if (!content || !Object.keys(content).length) { fill(this.result, make("p", { class: "bad-text", text: "Write at least one name=value." })); return; }
    try {
      const found = await post("trace", { attributes: content });
      this.page.light(found.path); fill(this.result, this.tree(found)); this.nearly(content);
    } catch (error) { fill(this.result, make("p", { class: "bad-text", text: error.message })); }
  }
  tree(found) {
    const rows = new Map(found.path.map((row) => [row.broker, row])), first = found.path.find((row) => row.hops === 0), seen = new Set();
    const item = (row, why) => {
      seen.add(row.broker);
      const list = make("ul", { class: "path" });
      for (const client of row.clients || []) list.append(make("li", {}, make("span", { class: "yes", text: `client ${client.name}` }), ` ${which(client)}`));
      for (const n of row.neighbours || []) {
        const next = rows.get(n.name), past = n.bypasses?.length ? ` by a soft link past ${n.bypasses.join(", ")}` : "";
        if (n.taken && next && !seen.has(n.name)) list.append(item(next, `${past}${n.count ? ` for ${which(n)}` : ""}`));
        else if (n.taken) list.append(make("li", { text: `→ ${n.name}${past} ${n.reason === "suspended" ? "waits: the link is down" : `for ${which(n)}`}` }));
        else if (n.reason !== "came from there") list.append(make("li", { class: "no", text: `not to ${n.name}: ${n.reason}` }));
      }
      return make("li", {}, make("b", { text: row.broker }), ` ${row.verdict === "matched" ? why : row.verdict}`, list);
    };
    const clients = found.path.reduce((sum, row) => sum + (row.client_count ?? 0), 0);
    return [make("p", { text: `${found.path.length} brokers, ${clients} ${clients === 1 ? "client" : "clients"}${found.missing.length ? `; no answer from ${found.missing.join(", ")}` : ""}` }), make("ul", { class: "path" }, first ? item(first, "accepted here") : null)];
  }
  async nearly(content) { // of the subscriptions that there are
    try {
      const { near } = await post("filter", { filter: "true", attributes: content, known: true });
      fill(this.near, near?.length ? [make("h3", { text: "Subscriptions that match or nearly do" }), make("ul", { class: "path" }, near.map((n) => make("li", { class: n.matches ? null : "no", text: `${n.matches ? "✓" : "✕"} ${short(n.subscription)} of ${n.client}: ${n.filter}${n.matches ? "" : `, but for ${n.why}`}` })))] : []);
    } catch { fill(this.near); }
  }
  async tryFilter() {
    const text = this.filter.value.trim(), content = this.content(), number = this.asked += 1;
    if (!text) { fill(this.verdict); return; }
    try {
      const found = await post("filter", { filter: text, attributes: content && Object.keys(content).length ? content : null });
      if (number !== this.asked) return; // something else was typed meanwhile
      const lines = [];
      if (!found.ok) lines.push(make("p", { class: "bad-text", text: `✕ at character ${found.error.position + 1}: ${found.error.message}${found.error.expected.length ? `; expected ${found.error.expected.slice(0, 8).join(", ")}` : ""}` }));
      if (found.ok) lines.push(make("p", { text: `reads as: ${found.normal}` }));
      if (found.matches === true) lines.push(make("p", { class: "yes", text: "✓ it matches" }));
      if (found.matches === false) lines.push(make("p", { class: "bad-text", text: `✕ it does not match: ${found.why.join("; ") || "never true"}` }));
      fill(this.verdict, lines);
    } catch (error) { fill(this.verdict, make("p", { class: "bad-text", text: error.message })); }
  }
}
