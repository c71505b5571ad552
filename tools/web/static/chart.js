// Lines over time, by uPlot. Where a value is not known the line has a gap.
import { clock, count } from "./format.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
export class Chart {
  constructor(place, labels, colours, options = {}) { this.place = place; this.labels = labels; this.colours = colours; this.options = options; this.plot = null; this.data = [[], ...labels.map(() => [])]; }
  build() {
    this.plot?.destroy();
    const width = Math.max(120, this.place.clientWidth - 4), height = this.options.height ?? 112;
    const axis = { stroke: colour("soft"), grid: { stroke: colour("faint"), width: 1 }, ticks: { show: false }, font: "11px 'DejaVu Sans', sans-serif" };
    this.plot = new uPlot({
      width, height, padding: [8, 8, 0, 0], cursor: { drag: { x: false, y: false }, points: { size: 6 } }, legend: { show: false },
      scales: { x: { time: true }, y: { range: (u, low, high) => [0, Math.max(1, (high || 0) * 1.1)] } },
      axes: [{ ...axis, size: 24, space: 76, values: (u, ticks) => ticks.map((t) => clock(t)) }, { ...axis, size: 48, values: (u, ticks) => ticks.map(count) }],
      series: [{}, ...this.labels.map((label, n) => ({ label, stroke: colour(this.colours[n]), width: 1.6, dash: n ? [6, 3] : undefined, points: { show: false } }))],
    }, this.data, this.place);
  }
  set(times, ...values) { this.data = [times, ...values]; if (!this.plot || this.width !== this.place.clientWidth) { this.width = this.place.clientWidth; this.build(); } else this.plot.setData(this.data); }
  repaint() { if (this.plot) this.build(); }
}
