// What is selected, in words and numbers; nothing selected: the worst of each kind.
import { ABSENT, B, FLAG, L } from "./model.js";
import { count, DASH, duration, clock, fill, make, ms, percent, perSecond, several, size, utc, whole } from "./format.js";
import { read } from "./connection.js";
import { Chart } from "./chart.js";

const row = (label, value, bad = false) => make("div", { class: "row" }, make("span", { text: label }), make("span", { class: bad ? "bad-text" : null, text: value }));
const head = (...titles) => make("thead", {}, make("tr", {}, titles.map((text) => make("th", { text, scope: "col" }))));
const cell = (text, kind = null) => make("td", { class: kind, text: text === null || text === undefined ? DASH : String(text) });

export class Panel {
  constructor(model, place, page) { this.model = model; this.place = place; this.page = page; this.what = null; this.asked = 0; this.chart = null; this.more = null; }
  show(what) { // {broker} | {link} | {client} | {publisher} | null
    this.what = what; this.more = null; this.wrong = ""; this.chart = null;
    this.place.scrollTop = 0; this.refresh(true);
  }
  refresh(ask = false) {
    const what = this.what;
    if (!this.model.overlay) { fill(this.place); return; }
    if (what?.broker !== undefined) this.broker(what.broker, ask);
    else if (what?.link !== undefined) this.link(what.link, ask);
    else if (what?.client !== undefined) this.client(what.client, ask);
    else if (what?.publisher !== undefined) this.publisher(what.publisher, ask);
    else this.nothing();
  }
  async ask(path, key) { // details that a broker must be asked for, at most every two seconds
    const now = performance.now();
    if (this.askedFor === key && now - this.asked < 2000) return;
    this.asked = now; this.askedFor = key;
    try { const found = await read(path); if (JSON.stringify(this.what) === key) { this.more = found; this.wrong = ""; this.refresh(); } } catch (error) { if (JSON.stringify(this.what) === key) { this.wrong = error.message; this.refresh(); } }
  }
  open(text, what) { return make("button", { class: "link-button", type: "button", text, onclick: () => this.page.select(what) }); }
  // --- nothing -------------------------------------------------------------------------------------
  nothing() {
    const { model } = this, rows = [...model.shown.rows.values()].filter((r) => !(r[B.flags] & ABSENT));
    const worst = (column, least) => rows.filter((r) => (r[column] ?? 0) > least).sort((a, b) => b[column] - a[column]).slice(0, 5);
    const brokers = (title, list, value) => list.length ? [make("h3", { text: title }), make("table", {}, make("tbody", {}, list.map((r) => make("tr", {}, make("td", {}, this.open(model.name(r[0]), { broker: r[0] })), cell(value(r))))))] : [];
    const links = [...model.shown.linkRows.values()].filter((r) => model.links.has(r[0]));
    const table = (title, list, value) => list.length ? [make("h3", { text: title }), make("table", {}, make("tbody", {}, list.map((r) => { const link = model.links.get(r[0]); return make("tr", {}, make("td", {}, this.open(`${model.name(link.a)} ${link.kind === "soft" ? "⇢" : "–"} ${model.name(link.b)}`, { link: r[0] })), cell(value(r))); })))] : [];
    const absent = [...model.brokers.values()].filter((b) => model.flags(b.i) & ABSENT);
    const publishers = model.overlay.publishers ?? [];
    fill(this.place, make("h2", { text: "The overlay" }), make("p", { text: `asked at ${model.overlay.asked || DASH}, ${model.overlay.kind}${model.overlay.settings["overlay.delta"] ? `, Δ ${model.overlay.settings["overlay.delta"]}` : ""}` }),
      absent.length ? [make("h3", { text: "Not there" }), make("table", {}, make("tbody", {}, absent.slice(0, 12).map((b) => make("tr", {}, make("td", {}, this.open(b.name, { broker: b.i })), cell(`${b.state}${b.since ? `, since ${clock(b.since, false)}` : ""}`, "bad")))))] : null,
      brokers("Busiest brokers", worst(B.busy, 0.02), (r) => percent(r[B.busy])), brokers("Most traffic", worst(B.outS, 0), (r) => perSecond(r[B.outS])),
      brokers("Slow clients at", worst(B.slow, 0), (r) => `${several(r[B.slow], "client")}, ${count(r[B.backlog])} wait`),
      table("Most unsettled links", links.filter((r) => r[L.unsettled] > 0).sort((a, b) => b[L.unsettled] - a[L.unsettled]).slice(0, 5), (r) => count(r[L.unsettled])),
      table("Busiest links", links.filter((r) => (r[L.ab] ?? 0) + (r[L.ba] ?? 0) > 0).sort((a, b) => b[L.ab] + b[L.ba] - a[L.ab] - a[L.ba]).slice(0, 5), (r) => perSecond((r[L.ab] ?? 0) + (r[L.ba] ?? 0))),
      publishers.length ? [make("h3", { text: "Publishers" }), make("table", {}, make("tbody", {}, publishers.slice(0, 12).map((p) => make("tr", {}, make("td", {}, this.open(p.name, { publisher: p.name })), cell(`at ${model.name(p.at)}`)))))] : null);
  }
  // --- a broker ------------------------------------------------------------------------------------
  broker(i, ask) {
    const { model } = this, broker = model.brokers.get(i), r = model.row(i);
    if (!broker) { this.show(null); return; }
    const flags = r ? r[B.flags] : 0, absent = flags & ABSENT, more = this.more;
    const parent = broker.parent === null || broker.parent === undefined ? "root" : `parent ${model.name(broker.parent)}`;
    const since = absent ? (broker.since ? `since ${clock(broker.since, false)}` : "") : broker.incarnation ? `up ${duration(Math.max(0, model.t - broker.incarnation))}` : "";
    if (ask && !absent) { this.ask(`broker/${encodeURIComponent(broker.name)}`, JSON.stringify(this.what)); this.history(i); }
    const links = (model.beside.get(i) || []).map((l) => model.links.get(l)).filter((l) => l && l.kind !== "candidate");
    const slow = (more?.clients ?? []).filter((c) => c.state === "slow" || c.dropped).sort((a, b) => b.backlog - a.backlog), others = (more?.clients ?? []).filter((c) => !slow.includes(c));
    const chart = this.chart?.place ?? make("div", { class: "mini" });
    fill(this.place, make("h2", { text: broker.name }), make("p", {}, make("span", { class: absent ? "bad-text" : null, text: `${absent ? "✕ " : ""}${broker.state}` }), ` · ${parent} · ${broker.addresses[0]?.replace("tcp://", "") ?? "no address"} · ${since}`),
      flags & FLAG.old && !absent ? make("p", { class: "bad-text", text: `last heard ${duration(r[B.age])} ago` }) : null,
      absent ? [make("p", { text: `What is shown was so ${r?.[B.age] ? `${duration(r[B.age])} ago` : "when it was last heard"}.` }), broker.state === "gone" || broker.state === "left" ? make("div", { class: "acts" }, make("button", { type: "button", text: "Dismiss", onclick: () => this.page.dismiss(broker.name) })) : null] : null,
      make("h3", { text: "Now" }), row("publications in", perSecond(r?.[B.inS])), row("publications out", perSecond(r?.[B.outS])), row("accepted, delivered", `${perSecond(r?.[B.accepted])}, ${perSecond(r?.[B.delivered])}`), row("loop busy", percent(r?.[B.busy])), row("processor", percent(r?.[B.cpu])), row("queue delay, worst turn", `${ms(r?.[B.queue])}, ${ms(r?.[B.slowest])}`), row("clients, subscriptions", `${count(r?.[B.clients])}, ${count(r?.[B.subs])}`), row("known subscriptions", count(r?.[B.known])), row("waiting for slow clients", count(r?.[B.backlog]), r?.[B.backlog] > 0), row("dropped so far", count(r?.[B.dropped]), r?.[B.dropped] > 0), row("memory", size(r?.[B.memory])),
      make("h3", { text: "Publications in and out, last 10 minutes" }), chart,
      make("h3", { text: "Links" }), make("table", {}, head("to", "out /s", "in /s", "rtt ms", "unsettled"), make("tbody", {}, links.map((link) => this.linkLine(i, link)))),
      slow.length ? [make("h3", { text: "Slow clients" }), ...slow.map((c) => this.slowClient(c))] : null,
      others.length ? [make("h3", { text: `Clients (${more.client_count})` }), make("table", {}, head("client", "subs", "published", "delivered"), make("tbody", {}, others.slice(0, 20).map((c) => make("tr", {}, make("td", {}, this.open(c.name, { client: c.name })), cell(count(c.subscriptions)), cell(count(c.published)), cell(count(c.delivered))))))] : null,
      more?.broker?.refused && Object.keys(more.broker.refused).length ? [make("h3", { text: "Refused" }), ...Object.entries(more.broker.refused).map(([why, n]) => row(why, count(n)))] : null,
      this.wrong ? make("p", { class: "bad-text", text: this.wrong }) : null, this.page.acts(broker));
    if (this.chart && this.chart.place !== chart) this.chart.place = chart;
  }
  slowClient(c) {
    const on = c.behind_on;
    return make("div", {}, make("div", { class: "row" }, this.open(`! ${c.name}`, { client: c.name }), make("span", { text: `${count(c.backlog)} wait, ${count(c.dropped)} dropped, ${c.policy}` })), on ? make("p", { text: `most for ${on.subscription.replace(/\/[0-9a-f]+\./, "/")} (${on.filter}), ${percent(on.share)} of what waits` }) : null);
  }
  linkLine(i, link) {
    const { model } = this, r = model.linkRow(link.i), there = link.a === i ? link.b : link.a, out = r ? (link.a === i ? r[L.ab] : r[L.ba]) : null, into = r ? (link.a === i ? r[L.ba] : r[L.ab]) : null;
    return make("tr", {}, make("td", { class: link.kind === "soft" ? "soft" : null }, this.open(`${model.name(there)}${link.kind === "primary" ? "" : ` ${link.kind}`}`, { link: link.i })), cell(whole(out)), cell(whole(into)), cell(r?.[L.rtt] === null || r?.[L.rtt] === undefined ? DASH : r[L.rtt].toFixed(1)), cell(count(r?.[L.unsettled])));
  }
  async history(i) {
    const key = JSON.stringify(this.what), place = make("div", { class: "mini" });
    this.chart = { place };
    try {
      const [into, out] = await Promise.all(["in_s", "out_s"].map((name) => read(`series?of=b:${i}:${name}&range=600`)));
      if (JSON.stringify(this.what) !== key) return;
      const chart = new Chart(place, ["in", "out"], ["accent", "soft-link"], { height: 96 });
      this.chart = chart; this.into = into; this.refresh(); chart.set(into.t, into.v, out.v);
    } catch { /* the numbers stand above it */ }
  }
  pulse() { // a new row for the chart of what is open
    const i = this.what?.broker;
    if (i === undefined || !this.chart?.data || this.model.frozen) return;
    const r = this.model.row(i), [t, a, b] = this.chart.data;
    t.push(this.model.t); a.push(r?.[B.inS] ?? null); b.push(r?.[B.outS] ?? null);
    if (t.length > 600) for (const list of [t, a, b]) list.shift();
    this.chart.set(t, a, b);
  }
  // --- a link --------------------------------------------------------------------------------------
  link(l, ask) {
    const { model } = this, link = model.links.get(l), r = model.linkRow(l);
    if (!link) { this.show(null); return; }
    const a = model.name(link.a), b = model.name(link.b), ends = this.more?.ends ?? {};
    if (ask) this.ask(`link/${encodeURIComponent(a)}/${encodeURIComponent(b)}`, JSON.stringify(this.what));
    const why = link.kind === "soft" ? `It is there because what it carries would otherwise pass ${link.bypasses.map((i) => model.name(i)).join(", ")}: its gain is ${count(r?.[L.gain])}.` : link.kind === "candidate" ? "A candidate carries nothing; it counts what it would carry." : "A link of the tree.";
    fill(this.place, make("h2", {}, this.open(a, { broker: link.a }), link.kind === "soft" ? " ⇢ " : " – ", this.open(b, { broker: link.b })), make("p", { text: `${link.kind}${link.up ? "" : ", no connection"}` }), make("p", { text: why }),
      make("h3", { text: "Now" }), row(`${a} → ${b}`, perSecond(r?.[L.ab])), row(`${b} → ${a}`, perSecond(r?.[L.ba])), row("unsettled", count(r?.[L.unsettled]), r?.[L.unsettled] > 10000), row("round trip", ms(r?.[L.rtt])), link.kind === "soft" ? row("gain", count(r?.[L.gain])) : null,
      Object.entries(ends).map(([name, rows]) => rows.filter((e) => (e.kind === "primary") === (link.kind === "primary")).map((e) => [make("h3", { text: `As ${name} sees it` }), row("state", e.state), row("sent so far", count(e.sent)), row("received so far", count(e.received)), row("unsettled", count(e.unsettled))])).flat(2),
      this.wrong ? make("p", { class: "bad-text", text: this.wrong }) : null);
  }
  // --- a client, a publisher -----------------------------------------------------------------------
  client(name, ask) {
    if (ask) this.ask(`client/${encodeURIComponent(name)}`, JSON.stringify(this.what));
    const found = this.more?.at ?? [];
    fill(this.place, make("h2", { text: name }), make("p", { text: "a client" }), found.filter((at) => at.client).map((at) => [
      make("h3", { text: `At ${at.name}` }), row("state", at.client.state, at.client.state === "slow"), row("published, delivered", `${count(at.client.published)}, ${count(at.client.delivered)}`), row("in flight", count(at.client.in_flight)), row("waiting", count(at.client.backlog), at.client.backlog > 0), row("dropped", count(at.client.dropped), at.client.dropped > 0), row("policy when slow", at.client.policy ?? DASH),
      at.client.behind_on ? [make("h3", { text: "Does not keep up with" }), make("p", { class: "bad-text", text: `${at.client.behind_on.filter}  (${percent(at.client.behind_on.share)} of what waits)` })] : null,
      at.subscriptions.length ? [make("h3", { text: "Subscriptions" }), ...at.subscriptions.slice(0, 50).map((s) => make("p", { text: `${s.number}: ${s.filter}` }))] : null, at.advertisements.length ? [make("h3", { text: "Advertises" }), ...at.advertisements.slice(0, 20).map((text) => make("p", { text }))] : null]).flat(3),
      this.wrong ? make("p", { class: "bad-text", text: this.wrong }) : null);
  }
  publisher(name, ask) {
    if (ask) this.ask("relocate", JSON.stringify(this.what));
    const p = (this.more?.publishers ?? []).find((one) => one.publisher === name);
    fill(this.place, make("h2", { text: name }), make("p", { text: "a publisher" }),
      p ? [row("at", p.at), row("traces so far", `${count(p.traces)} of ${count(p.threshold)}`), row("would go to", p.target ?? DASH), row("hops from here", count(p.path)), row("saves", percent(p.saves)), row("what came of it", p.outcome || DASH), p.moving ? make("p", { class: "bad-text", text: "it moves now" }) : null, make("div", { class: "acts" }, make("button", { type: "button", text: "Its client", onclick: () => this.page.select({ client: name }) })), this.page.publisherActs(p)] : null,
      this.wrong ? make("p", { class: "bad-text", text: this.wrong }) : null);
  }
}
export { utc };
