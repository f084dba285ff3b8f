// Curves drawn by uPlot, on logarithmic or linear axes, with a vertical line at the current round.

import { variable } from "./colors.js";

/* global uPlot */

export class Chart {
  /**
   * place    the parent element
   * options  log: both axes logarithmic; xLabel, yLabel; onPick(x, y): a click on the curves
   */
  constructor(place, { log = true, xLabel, yLabel, onPick, time = false }) {
    Object.assign(this, { place, log, xLabel, yLabel, onPick, time });
    this.curves = [];
    this.bands = [];
    this.at = null;
    this.grow = false; // whether curves with `grows` end at the line
    this.guess = null; // a marked point {x, y}
    this.plot = null;
    new ResizeObserver(() => this.plot?.setSize(this.size())).observe(place);
    document.addEventListener("themechange", () => this.build());
  }

  /**
   * Show curves: [{label, x, y, color, dash, width, faint, points, aside, grows}], x ascending, y null for missing values.
   * `bands` are pairs of indices into the list between which the chart is filled: [[upper, lower, color]];
   * `instead` is a text that takes the place of no curves.
   */
  set(curves, bands = [], instead = "") {
    Object.assign(this, { curves, bands, instead });
    this.build();
  }

  /** Move the line. */
  setAt(x) {
    this.at = x;
    if (this.grow) this.plot?.setData(this.table(), false);
    this.plot?.redraw(this.grow, false);
  }

  size() {
    return { width: Math.max(200, this.place.clientWidth), height: Math.max(140, this.place.clientHeight) };
  }

  /**
   * The range of the vertical axis: all curves except those with `aside`, which may leave the chart, as may squares of
   * rounding errors.
   */
  heights() {
    const main = this.curves.filter((curve) => !curve.aside);
    const drawn = (main.length ? main : this.curves).map((curve) => curve.y.filter((y) => y > 0 && y < 1e300));
    const values = drawn.flat();
    if (!values.length) return [0.1, 10];
    const least = 1e-32 * Math.max(...drawn.flatMap((y) => y.slice(0, 1)));
    return [Math.max(least, Math.min(...values)) / 1.6, 1.6 * Math.max(...values)];
  }

  /** All curves on one common axis, as uPlot wants them. */
  table() {
    const x = [...new Set(this.curves.flatMap((curve) => [...curve.x]))].sort((a, b) => a - b);
    const where = new Map(x.map((value, k) => [value, k]));
    const columns = this.curves.map((curve) => {
      const column = new Array(x.length).fill(null);
      curve.x.forEach((value, k) => {
        const y = this.grow && curve.grows && value > this.at ? null : curve.y[k];
        column[where.get(value)] = Number.isFinite(y) && (!this.log || y > 0) ? y : null;
      });
      return column;
    });
    return [x, ...columns];
  }

  build() {
    this.plot?.destroy();
    this.plot = null;
    this.place.textContent = this.curves.length ? "" : this.instead;
    if (!this.curves.length) return;
    const ink = variable("--soft");
    const rule = variable("--rule");
    const font = `12px ${variable("--font")}`;
    const axis = (label, size) => ({
      label,
      labelFont: font,
      font,
      stroke: ink,
      size,
      labelSize: 18,
      labelGap: 0,
      grid: { stroke: rule, width: 1, ...(this.log ? { filter: powers } : {}) },
      ticks: { stroke: rule, width: 1, size: 4, ...(this.log ? { filter: powers } : {}) },
      ...(this.log ? { values: (_, splits) => splits.map(power), splits: ticks, filter: powers, incrs: whole } : {}),
    });
    const scale = this.log ? { distr: 3, log: 10 } : {};
    const snug = this.log ? { range: (_, low, high) => [low, Math.max(high, 1.01 * low)] } : {};
    const airy = this.log ? { range: () => this.heights() } : {};
    const options = {
      ...this.size(),
      legend: { show: false },
      cursor: { points: { show: false }, drag: { x: false, y: false }, y: false },
      scales: { x: { time: this.time, ...scale, ...snug }, y: { ...scale, ...airy } },
      axes: [axis(this.xLabel, 28), axis(this.yLabel, 52)],
      series: [
        {},
        ...this.curves.map((curve) => ({
          label: curve.label,
          stroke: curve.color,
          width: curve.width ?? 2,
          dash: curve.dash,
          alpha: curve.faint ? 0.35 : 1,
          spanGaps: curve.gaps !== true,
          points: { show: curve.points === true, size: 4, fill: curve.color },
        })),
      ],
      bands: this.bands.map(([upper, lower, fill]) => ({ series: [upper + 1, lower + 1], fill })),
      hooks: { draw: [(plot) => this.drawAt(plot), (plot) => this.drawGuess(plot)] },
    };
    this.plot = new uPlot(options, this.table(), this.place);
    if (this.onPick) {
      this.plot.over.addEventListener("click", () => {
        const { left, top } = this.plot.cursor;
        if (left >= 0) this.onPick(this.plot.posToVal(left, "x"), this.plot.posToVal(top, "y"));
      });
    }
  }

  drawGuess(plot) {
    if (!this.guess) return;
    const { ctx } = plot;
    const [x, y] = [plot.valToPos(this.guess.x, "x", true), plot.valToPos(this.guess.y, "y", true)];
    ctx.save();
    ctx.setLineDash([]);
    ctx.strokeStyle = variable("--accent");
    ctx.lineWidth = 2 * devicePixelRatio;
    ctx.beginPath();
    ctx.arc(x, y, 7 * devicePixelRatio, 0, 2 * Math.PI);
    ctx.stroke();
    ctx.restore();
  }

  drawAt(plot) {
    if (this.at === null || (this.log && this.at <= 0)) return;
    const x = plot.valToPos(this.at, "x", true);
    const { ctx, bbox } = plot;
    if (!(x >= bbox.left && x <= bbox.left + bbox.width)) return;
    ctx.save();
    ctx.setLineDash([]); // uPlot leaves that of the last curve
    ctx.strokeStyle = variable("--accent");
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    ctx.restore();
  }
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

const isPower = (value) => value > 0 && Math.abs(value / 10 ** Math.round(Math.log10(value)) - 1) < 1e-6;

/** The ticks of a logarithmic axis, whatever its range: uPlot's own search never ends below 1e-32. */
export function ticks(_plot, _axis, low, high) {
  const found = [];
  for (let exponent = Math.floor(Math.log10(low)); 10 ** exponent <= high; exponent++) {
    for (let digit = 1; digit < 10; digit++) found.push(digit * 10 ** exponent);
  }
  return found.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
}

const whole = (_plot, _axis, low, high) => [high - low]; // of uPlot's steps, none is large enough beyond 1e32

/** Of the ticks that an axis offers, the powers of ten that fit; all of them on a short axis with few powers of ten. */
export function powers(plot, splits, axis) {
  const found = splits.filter(isPower);
  if (found.length < 2) return splits;
  const length = (axis ? plot.bbox.height : plot.bbox.width) / devicePixelRatio;
  const every = Math.max(1, Math.ceil((22 * found.length) / length));
  return splits.map((value) => (isPower(value) && Math.round(Math.log10(value)) % every === 0 ? value : null));
}

/** Label powers of ten; ticks between them have no label. */
export function power(value) {
  if (value === null || value === undefined) return "";
  if (!isPower(value)) return `${+value.toPrecision(2)}`;
  const exponent = Math.round(Math.log10(value));
  if (exponent >= -2 && exponent <= 3) return `${10 ** exponent}`.length > 4 ? "0.01" : `${+(10 ** exponent).toPrecision(1)}`;
  return `10${[...`${exponent}`].map((digit) => RAISED[digit]).join("")}`;
}
