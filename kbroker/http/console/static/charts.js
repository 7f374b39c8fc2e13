// Charts over time with uPlot, in the page's colours.
import { h } from "./dom.js";

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const live = new Set();

// Highest value of an axis. floor: what it shows at least, so that a quiet chart has whole numbers at its side.
export const ceiling = (high, floor) => Math.max((high ?? 0) * 1.12, floor);

export class Chart {
  // series: [{key, color: "a" | "b" | "c", fill}], show: number -> text, floor: see ceiling
  constructor(series, show, floor) {
    this.series = series; this.show = show; this.floor = floor; this.points = [];
    this.element = h("div", { class: "chart", role: "img" });
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.element);
    live.add(this);
  }

  size() { return { width: Math.max(120, this.element.clientWidth - 20), height: 154 }; }
  resize() { if (this.plot) this.plot.setSize(this.size()); else this.draw(); }

  draw() {
    if (!this.element.isConnected || !this.element.clientWidth) return;
    this.plot?.destroy();
    const axis = { stroke: color("--muted"), font: "11px system-ui, sans-serif", grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
    this.plot = new uPlot({
      ...this.size(), cursor: { y: false, points: { size: 7 } }, legend: { show: true, live: true }, padding: [10, 26, 0, 0],
      scales: { x: { time: true }, y: { range: (_, low, high) => [0, ceiling(high, this.floor)] } },
      axes: [{ ...axis, grid: { show: false }, space: 70, size: 26, values: (_, ticks) => ticks.map((tick) => new Date(tick * 1000).toTimeString().slice(0, 8)) },
        { ...axis, size: 64, space: 34, values: (_, ticks) => ticks.map((tick) => this.show(tick)) }],
      series: [{}, ...this.series.map((one) => ({ label: one.label, stroke: color(`--${one.color}`), width: 1.75, points: { show: false }, spanGaps: false,
        fill: one.fill ? color(`--${one.color}`) + "1c" : undefined }))],
    }, this.data(), this.element);
    this.element.setAttribute("aria-label", this.series.map((one) => one.label).join(", "));
  }

  data() { return [this.points.map((point) => point.at_ms / 1000), ...this.series.map((one) => this.points.map((point) => point[one.key]))]; }
  set(points) {
    this.points = points;
    if (this.plot) this.plot.setData(this.data()); else this.draw();
    if (this.plot) this.element.dataset.ticks = (this.plot.axes[1]._values ?? []).join(" ");
  }
  close() { live.delete(this); this.observer.disconnect(); this.plot?.destroy(); }
}

export function redraw() { for (const chart of live) chart.draw(); }
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
