// Charts of a fleet over time, drawn by uPlot. Data arrive twice a second, so a plot is kept and only its data change.

import { power, powers, ticks } from "./chart.js";
import { variable } from "./colors.js";
import { clock, number } from "./fleet_states.js";

/* global uPlot */

const DAY = 86400;

/** A color of the page, which must be #rrggbb, with an opacity. */
export function tint(name, opacity) {
  return `${variable(name)}${Math.round(255 * opacity).toString(16).padStart(2, "0")}`;
}

export class TimeChart {
  /**
   * place   the parent element
   * log     the numbers' axis is logarithmic
   * zero    the numbers' axis begins at 0
   * onAt    gets the index of the data under the pointer, or null
   */
  constructor(place, { log = false, zero = false, onAt, sync = "fleet" } = {}) {
    Object.assign(this, { place, log, zero, onAt, sync });
    this.plot = null;
    this.shape = "";
    this.series = [];
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(place);
    document.addEventListener("themechange", () => {
      this.shape = "";
      if (this.last) this.set(...this.last);
    });
  }

  /**
   * x       times in seconds, ascending
   * series  [{label, y, color, width, dash}], y NaN where values are missing; colors are functions without arguments
   * bands   [[upper, lower, fill]], indices into the list of series, and a color as above
   */
  set(x, series, bands = []) {
    this.last = [x, series, bands];
    if (x.length === 0) return;
    const data = [x, ...series.map(({ y }) => Array.from(y, (v) => (Number.isFinite(v) && (!this.log || v > 0) ? v : null)))];
    const shape = JSON.stringify([series.map(({ label, width, dash }) => [label, width, dash]), bands.map((band) => band.slice(0, 2))]);
    if (this.plot && shape === this.shape) {
      this.plot.setData(data);
      return;
    }
    this.plot?.destroy();
    this.shape = shape;
    this.plot = new uPlot(this.options(series, bands), data, this.place);
  }

  size() {
    return { width: Math.max(160, this.place.clientWidth), height: Math.max(110, this.place.clientHeight) };
  }

  options(series, bands) {
    const ink = variable("--soft");
    const font = `11px ${variable("--font")}`;
    const axis = (size, values, space, filter, gap = 4) => ({
      font,
      ...(filter ? { filter, splits: ticks } : {}),
      stroke: ink,
      size,
      space,
      gap,
      values,
      grid: { stroke: variable("--rule"), width: 1, ...(filter ? { filter } : {}) },
      ticks: { show: false },
    });
    const range = this.log ? undefined : (_, low, high) => padded(low, high, this.zero);
    return {
      ...this.size(),
      padding: [8, 26, 0, 0],
      legend: { show: false },
      cursor: { points: { show: false }, drag: { x: false, y: false }, y: false, sync: { key: this.sync } },
      scales: { x: { time: true }, y: this.log ? { distr: 3, log: 10 } : { range } },
      axes: [
        axis(30, (plot, splits) => splits.map((at) => label(at, plot.scales.x.max - plot.scales.x.min)), 70, undefined, 8),
        this.log
          ? axis(54, (_, splits) => splits.map(power), 24, (plot, splits, k) => roomy(powers(plot, splits, k)))
          : axis(54, (_, splits) => splits.map((value) => tidy(value, splits)), 34),
      ],
      series: [
        {},
        ...series.map(({ color, width = 1.8, dash }) => ({
          stroke: color,
          width,
          dash,
          points: { show: false },
          spanGaps: false,
        })),
      ],
      bands: bands.map(([upper, lower, fill]) => ({ series: [upper + 1, lower + 1], fill })),
      hooks: { setCursor: [(plot) => this.onAt?.(plot.cursor.idx ?? null)] },
    };
  }
}

/** Of the ticks of a short logarithmic axis, those that fit: 1, 2 and 5 times a power of ten. */
function roomy(splits) {
  const lead = (value) => Math.round(value / 10 ** Math.floor(Math.log10(value) + 1e-9));
  return splits.map((value) => (value !== null && [1, 2, 5, 10].includes(lead(value)) ? value : null));
}

/** The ends of an axis, with a margin around its data. */
function padded(low, high, zero) {
  if (low === null || low === undefined || !Number.isFinite(low)) return [0, 1];
  const pad = 0.08 * (high - low) || 0.1 * Math.abs(high) || 0.5;
  return [zero ? 0 : low - pad, high + pad];
}

/** A time on the axis; the seconds only if the axis is short. */
function label(at, span) {
  const time = clock(at);
  if (span > 2 * DAY) return new Date(1000 * at).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return span > 600 ? time.slice(0, 5) : time;
}

/** A number on the axis with as many digits as its step needs. */
function tidy(value, splits) {
  if (value === null || value === undefined) return "";
  const step = Math.abs(splits[1] - splits[0]) || 1;
  let digits = Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9)));
  if (digits < 8 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6) digits += 1; // 0.25
  return Math.abs(value) >= 1e5 ? number(value, 3) : value.toFixed(digits).replace("-", "−");
}
