// Numbers and times as pubctl writes them. What is not known is a dash, never a zero.
export const DASH = "–";

export function count(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return DASH;
  for (const [limit, unit, by] of [[1e9, " G", 1e9], [1e6, " M", 1e6], [1e4, " k", 1e3]]) {
    if (Math.abs(value) >= limit) return Number((value / by).toPrecision(3)) + unit;
  }
  return Number.isInteger(value) || Math.abs(value) >= 100 ? value.toFixed(0) : value.toFixed(1);
}
export const whole = (value) => (value === null || value === undefined ? DASH : count(Math.round(value)));
export const perSecond = (value) => (value === null || value === undefined ? DASH : `${whole(value)} /s`);
export const percent = (share) => (share === null || share === undefined ? DASH : `${Math.round(100 * share)} %`);
export const ms = (value) => (value === null || value === undefined ? DASH : `${value >= 100 ? value.toFixed(0) : value.toFixed(2)} ms`);
export function size(bytes) {
  if (bytes === null || bytes === undefined) return DASH;
  for (const [limit, unit] of [[2 ** 30, "GB"], [2 ** 20, "MB"], [2 ** 10, "kB"]]) {
    if (bytes >= limit) return `${(bytes / limit).toFixed(1)} ${unit}`;
  }
  return `${bytes} B`;
}
export const several = (amount, noun) => `${count(amount)} ${noun}${amount === 1 ? "" : "s"}`;
export function clock(seconds, withSeconds = true) {
  const at = new Date(1000 * seconds), two = (n) => String(n).padStart(2, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}${withSeconds ? `:${two(at.getSeconds())}` : ""}`;
}
export const utc = (seconds) => `${new Date(1000 * seconds).toISOString().replace("T", " ").slice(0, 19)} UTC`;
export function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h ${Math.round((seconds % 3600) / 60)} min`;
  return `${Math.floor(seconds / 86400)} days`;
}
// The fixed scale of every picture: 1 px when idle, 5.2 at 100/s, 9.4 at 10,000/s.
export const lineWidth = (rate) => 1 + 2.1 * Math.log10(1 + Math.max(0, rate || 0));

// Elements without markup: names of brokers, clients and filters are other people's text.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") element.className = value;
    else if (key === "text") element.textContent = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) element.append(child);
  return element;
}
export const fill = (element, ...children) => element.replaceChildren(...children.flat().filter((child) => child !== null && child !== undefined));
