// Where everything stands: pure functions from the model and a size to places {x, y, w, h | r} in pixels.
import { B } from "./model.js";

export const BOX = { w: 126, h: 50 };
const natural = new Intl.Collator(undefined, { numeric: true });
const sorted = (model, list) => [...list].sort((a, b) => natural.compare(model.name(a), model.name(b)));

function depthFirst(model) { // leaves in order, depth of each; a cycle or a lost parent leaves nobody out
  const depth = new Map(), leaves = [], order = [];
  const visit = (root) => {
    const stack = [[root, 0]];
    while (stack.length) {
      const [i, level] = stack.pop();
      if (depth.has(i)) continue;
      depth.set(i, level); order.push(i);
      const below = sorted(model, (model.children.get(i) || []).filter((c) => !depth.has(c)));
      if (!below.length) leaves.push(i);
      for (const child of below.reverse()) stack.push([child, level + 1]);
    }
  };
  for (const root of sorted(model, model.roots())) visit(root);
  for (const i of model.brokers.keys()) if (!depth.has(i)) visit(i);
  return { depth, leaves, order };
}

function spread(model, order, leaves, at) { // parents over the middle of their children
  const place = new Map(leaves.map((i, n) => [i, at(n)]));
  for (const i of [...order].reverse()) {
    if (place.has(i)) continue;
    const below = (model.children.get(i) || []).map((c) => place.get(c)).filter((v) => v !== undefined);
    place.set(i, below.length ? (Math.min(...below) + Math.max(...below)) / 2 : at(0));
  }
  return place;
}

export function tree(model, width, height) {
  const { depth, leaves, order } = depthFirst(model), places = new Map();
  const step = Math.max(BOX.w + 14, (width - 40) / Math.max(1, leaves.length));
  const layers = Math.max(...depth.values(), 0) + 1;
  const rise = Math.min(175, Math.max(BOX.h + 36, (height - 120) / Math.max(1, layers)));
  const columns = spread(model, order, leaves, (n) => 20 + step * (n + 0.5));
  for (const i of order) places.set(i, { x: columns.get(i), y: 46 + BOX.h / 2 + depth.get(i) * rise, ...BOX });
  return { places, boxes: true, size: [Math.max(width, step * leaves.length + 40), 110 + layers * rise] };
}

export function radial(model, width, height) { // leaves on the rim, inner brokers by depth
  const { depth, leaves, order } = depthFirst(model), places = new Map();
  const most = Math.max(...depth.values(), 1), cx = width / 2, cy = (height - 30) / 2;
  const rx = width / 2 - 60, ry = cy - 40;
  const turns = spread(model, order, leaves, (n) => (2 * Math.PI * n) / Math.max(1, leaves.length) - Math.PI / 2);
  const leaf = new Set(leaves), small = order.length > 200;
  for (const i of order) {
    const root = depth.get(i) === 0 && model.roots().length === 1;
    const out = root ? 0 : leaf.has(i) ? 1 : (0.9 * Math.sqrt(depth.get(i))) / Math.sqrt(most);
    const turn = turns.get(i);
    places.set(i, { x: cx + rx * out * Math.cos(turn), y: cy + ry * out * Math.sin(turn), r: leaf.has(i) ? (small ? 3.2 : 7) : small ? 4.6 : 9, turn });
  }
  return { places, boxes: false, size: [width, height], centre: [cx, cy] };
}

export function ring(model, width, height) { // a circle by id; successors are arcs, fingers chords of the selected
  const places = new Map(), cx = width / 2, cy = (height - 30) / 2, radius = Math.min(cx, cy) - 64;
  const turnOf = (broker, n) => {
    const at = broker.ring?.position ?? (broker.ring?.id ? parseInt(String(broker.ring.id).slice(0, 8), 16) / 2 ** 32 : n / model.brokers.size);
    return 2 * Math.PI * at - Math.PI / 2;
  };
  sorted(model, model.brokers.keys()).forEach((i, n) => {
    const turn = turnOf(model.brokers.get(i), n);
    places.set(i, { x: cx + radius * Math.cos(turn), y: cy + radius * Math.sin(turn), r: model.brokers.size > 60 ? 5 : 11, turn });
  });
  return { places, boxes: false, size: [width, height], centre: [cx, cy], ring: { cx, cy, radius } };
}

export function hosts(model, width, height) { // what one machine's failure would take
  const groups = new Map();
  for (const i of sorted(model, model.brokers.keys())) {
    const host = model.brokers.get(i).host || "unknown host";
    if (!groups.has(host)) groups.set(host, []);
    groups.get(host).push(i);
  }
  const places = new Map(), frames = [], small = model.brokers.size > 150;
  const cell = small ? { w: 58, h: 24 } : { w: BOX.w + 10, h: BOX.h + 10 };
  let x = 20, y = 20, tallest = 0;
  const list = [...groups].sort(([a], [b]) => natural.compare(a, b));
  const inRow = Math.max(1, Math.floor((width - 60) / cell.w));
  for (const [host, members] of list) {
    const across = Math.min(inRow, Math.max(1, Math.ceil(Math.sqrt(members.length * (list.length > 1 ? 1 : 3)))));
    const w = across * cell.w + 20, h = Math.ceil(members.length / across) * cell.h + 40;
    if (x + w > width - 10 && x > 20) { x = 20; y += tallest + 16; tallest = 0; }
    frames.push({ x, y, w, h, text: `${host}: ${members.length} ${members.length === 1 ? "broker" : "brokers"}` });
    members.forEach((i, n) => places.set(i, { x: x + 10 + cell.w * ((n % across) + 0.5), y: y + 32 + cell.h * (Math.floor(n / across) + 0.5), w: cell.w - 10, h: cell.h - 8 }));
    x += w + 16; tallest = Math.max(tallest, h);
  }
  return { places, boxes: true, frames, size: [width, Math.max(height, y + tallest + 60)], small, links: false };
}

export function segments(model, width, height) { // a bar per dimension, cut into the matchers' segments
  const dimensions = new Map(), places = new Map(), bars = [], dispatchers = [];
  for (const broker of model.overlay.brokers) {
    if (broker.roles.includes("dispatcher")) dispatchers.push(broker.i);
    for (const part of broker.segments || []) {
      if (!dimensions.has(part.dimension)) dimensions.set(part.dimension, []);
      dimensions.get(part.dimension).push({ ...part, i: broker.i });
    }
  }
  const left = 120, wide = width - left - 40, tall = Math.min(64, (height - 210) / Math.max(1, dimensions.size) - 26);
  sorted(model, dispatchers).forEach((i, n) => places.set(i, { x: left + (wide * (n + 0.5)) / dispatchers.length, y: 48, ...BOX }));
  [...dimensions].forEach(([name, parts], row) => {
    const y = 120 + row * (tall + 34), ends = parts.flatMap((p) => [p.low, p.high]).filter((v) => typeof v === "number" && Number.isFinite(v)).sort((a, b) => a - b);
    const reach = ends.length > 1 && ends.at(-1) > ends[0] ? (ends.at(-1) - ends[0]) * 0.15 : 1, open = parts.some((p) => typeof p.low !== "number" || typeof p.high !== "number" || !Number.isFinite(p.high - p.low));
    const low = (ends[0] ?? 0) - (open ? reach : 0), high = (ends.at(-1) ?? 1) + (open ? reach : 0), within = (v, other) => (typeof v === "number" && Number.isFinite(v) ? v : other); // an open end reaches beyond the last cut
    for (const given of parts) {
      const part = { ...given, low: within(given.low, low), high: within(given.high, high), load: given.load ?? model.row(given.i)?.[B.busy] ?? 0 };
      const x = left + (wide * (part.low - low)) / (high - low || 1), w = (wide * (part.high - part.low)) / (high - low || 1);
      bars.push({ ...part, name, x, y, w, h: tall });
      if (!places.has(part.i)) places.set(part.i, { x: x + w / 2, y: y + tall / 2, w: Math.max(4, w - 2), h: tall, bar: true });
    }
    bars.push({ label: name, x: left - 10, y: y + tall / 2, low: open ? "…" : low, high: open ? "…" : high, end: left + wide, below: y + tall });
  });
  const rest = [...model.brokers.keys()].filter((i) => !places.has(i)); // joining, or without a segment yet
  sorted(model, rest).forEach((i, n) => places.set(i, { x: left + (wide * (n + 0.5)) / rest.length, y: height - 110, ...BOX }));
  return { places, boxes: true, bars, size: [width, height], links: dispatchers.length > 0 };
}

export function channels(model, width, height) { // back-end subscriptions, brokers, front-end subscriptions
  const places = new Map(), flows = [], columns = [width * 0.14, width * 0.5, width * 0.86];
  const serving = sorted(model, model.overlay.brokers.filter((b) => b.channels).map((b) => b.i)), backs = new Map();
  for (const i of serving) for (const back of model.brokers.get(i).channels.backend || []) {
    if (!backs.has(back.name)) backs.set(back.name, []);
    backs.get(back.name).push([i, back]);
  }
  const at = (n, of) => 60 + ((height - 150) * (n + 0.5)) / Math.max(1, of);
  serving.forEach((i, n) => places.set(i, { x: columns[1], y: at(n, serving.length), ...BOX }));
  const ends = [];
  [...backs].forEach(([name, uses], n) => {
    const y = at(n, backs.size);
    ends.push({ x: columns[0], y, text: name, sub: `${uses.length} broker${uses.length === 1 ? "" : "s"}${uses[0][1].next_s !== undefined ? `, next run in ${Math.round(uses[0][1].next_s)} s` : ""}`, side: "left" });
    for (const [i, back] of uses) flows.push({ from: [columns[0], y], to: i, weight: back.subscriptions || 1 });
  });
  serving.forEach((i, n) => {
    const said = model.brokers.get(i).channels, y = at(n, serving.length);
    ends.push({ x: columns[2], y, text: `${said.frontend ?? 0} subscribers`, sub: [said.load !== undefined ? `F = ${Number(said.load).toPrecision(3)}` : "", said.moved ? `${said.moved} moved` : ""].filter(Boolean).join(", "), side: "right" });
    flows.push({ from: i, to: [columns[2], y], weight: said.frontend || 1 });
  });
  return { places, boxes: true, flows, ends, size: [width, height], links: false };
}

export const LAYOUTS = { tree, radial, ring, segments, channels, hosts };
export const NAMES = { tree: "Tree", radial: "Radial", ring: "Ring", segments: "Segments", channels: "Channels", hosts: "Hosts", table: "Table" };
export const TREE_MOST = 40, PICTURE_MOST = 2000;

export function available(model) {
  const overlay = model.overlay;
  if (!overlay) return ["tree"];
  if (overlay.brokers.length > PICTURE_MOST) return ["hosts", "table"];
  const found = overlay.kind === "chord" || overlay.brokers.some((b) => b.ring) ? ["ring", "radial"] : ["tree", "radial"];
  if (overlay.brokers.some((b) => b.segments && b.segments.length)) found.unshift("segments");
  if (overlay.brokers.some((b) => b.channels)) found.push("channels");
  return [...found, "hosts", "table"];
}
export function suited(model) {
  const found = available(model), count = model.overlay?.brokers.length ?? 0;
  if (found[0] === "tree" && count > TREE_MOST) return "radial";
  return found[0];
}
export const busyStep = (row) => { const busy = row ? row[B.busy] ?? row[B.cpu] : null; return busy === null || busy === undefined ? -1 : Math.min(5, Math.floor(busy * 6)); };
