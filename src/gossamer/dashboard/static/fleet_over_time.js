// The history of a fleet: estimates, spread, rounds per second, and refused messages. In a small fleet each agent has a
// line; a large one is shown as bands of quantiles.

import { theme, variable } from "./colors.js";
import { TimeChart, tint } from "./fleet_charts.js";
import { at, element, sampleOf, set } from "./fleet_elements.js";
import { clock, number } from "./fleet_states.js";

const none = () => "transparent";
const LINES = [
  ["--accent", []],
  ["--loss-2", [6, 3]],
  ["--alone", [2, 3]],
  ["--soft", [8, 3, 2, 3]],
];
const lineOf = (k) => LINES[k % LINES.length];

export class OverTime {
  /** panel   the panel of the chosen agent, with its own history */
  constructor(panel) {
    this.panel = panel;
    this.span = 600; // seconds; 0 means all
    const chart = (id, options = {}) => new TimeChart(at(`${id}-chart`), { onAt: (k) => this.read(k), ...options });
    this.charts = {
      estimate: chart("estimate"),
      spread: chart("spread", { log: true }),
      rate: chart("rate", { zero: true }),
      refused: chart("refused", { zero: true }),
    };
  }

  show(frame) {
    this.frame = frame;
    const { times, lines, history } = frame.arrays;
    const since = this.span ? frame.time - this.span : -Infinity;
    this.first = Math.max(0, times.findIndex((time) => time >= since));
    this.rows = history.shape[1];
    this.times = Array.from(times.subarray(this.first));
    const chosen = this.panel.historyOf(this.first);
    if (lines.shape[1]) this.drawLines(chosen);
    else this.drawBands(chosen);
    this.charts.spread.set(this.times, [{ label: "spread", y: this.column("spread"), color: () => variable("--accent") }]);
    this.charts.rate.set(this.times, this.quantiles("rate"), fills());
    this.drawRefused();
    this.read(null);
  }

  /** Plot one quantity over time; estimates are shown as differences from the center. */
  column(name) {
    const { facts, center, arrays } = this.frame;
    const k = facts.indexOf(name);
    const shift = name.startsWith("estimate") ? center : 0;
    return Float64Array.from(arrays.history.subarray(k * this.rows + this.first, (k + 1) * this.rows), (value) => value + shift);
  }

  /** A line for each agent, in its band of one standard error. */
  drawLines(chosen) {
    const { arrays, center, names } = this.frame;
    const [, agents] = arrays.lines.shape;
    const cut = (kind, agent) => {
      const start = (kind * agents + agent) * this.rows;
      return arrays.lines.subarray(start + this.first, start + this.rows);
    };
    const series = [];
    const bands = [];
    for (let k = 0; k < agents; k++) {
      const strong = chosen && names[k] === this.panel.name;
      const faint = chosen && !strong;
      const estimate = Float64Array.from(cut(0, k), (value) => value + center);
      const color = () => (faint ? tint("--accent", 0.3) : variable(strong ? "--ink" : "--accent"));
      bands.push([series.length + 1, series.length + 2, () => tint("--accent", strong ? 0.2 : (faint ? 0.1 : 0.35) / agents)]);
      series.push(...withError({ label: `${names[k]}${faint ? " faint" : ""}`, color, width: strong ? 2.4 : 1.3 }, estimate, cut(1, k)));
    }
    this.charts.estimate.set(this.times, series, bands);
  }

  /** Bands that hold all agents and most of them, the median with its standard error, and the chosen agent. */
  drawBands(chosen) {
    const series = this.quantiles("estimate");
    const bands = fills();
    const middle = this.column("estimate0.5");
    const error = this.column("error0.5");
    for (const sign of [1, -1]) {
      const y = middle.map((value, k) => value + sign * error[k]);
      series.push({ label: "error", y, color: () => variable("--soft"), width: 1, dash: [4, 4] });
    }
    if (chosen) {
      bands.push([series.length + 1, series.length + 2, () => tint("--ink", 0.12)]);
      const style = { label: this.panel.name, color: () => variable("--ink"), width: 2.2 };
      series.push(...withError(style, chosen.estimate, chosen.error));
    }
    this.charts.estimate.set(this.times, series, bands);
  }

  quantiles(what) {
    return [1, 0.9, 0.5, 0.1, 0].map((share) => ({
      label: `${what}${share}`,
      y: this.column(`${what}${share}`),
      color: share === 0.5 ? () => variable("--accent") : none,
      width: share === 0.5 ? 1.8 : 0,
    }));
  }

  drawRefused() {
    const { reasons, refused } = this.frame;
    this.reasons = reasons.filter((why) => refused[why]);
    at("refused-none").hidden = this.reasons.length > 0;
    at("refused-chart").hidden = !this.reasons.length; // the sentence takes its place
    if (!this.reasons.length) return;
    this.charts.refused.set(
      this.times,
      this.reasons.map((why, k) => ({ label: why, y: this.column(why), color: () => variable(lineOf(k)[0]), dash: lineOf(k)[1] })),
    );
  }

  /** Show the numbers under the pointer, or the newest ones, next to the titles. */
  read(k) {
    if (!this.frame) return;
    const place = k ?? this.times.length - 1;
    const value = (name, digits) => number(this.column(name)[place], digits);
    const when = k === null ? "" : `${clock(this.times[place])}  `;
    const range = (what, digits) => `from ${value(`${what}0`, digits)} to ${value(`${what}1`, digits)}`;
    const say = (what, text) => set(at(`${what}-now`), Number.isFinite(this.column(`${what}0.5`)[place]) ? `${when}${text}` : "");
    say("estimate", `${value("estimate0.5")} ± ${value("error0.5", 2)}, ${range("estimate")}`);
    say("rate", `${value("rate0.5", 3)}, ${range("rate", 3)}`);
    set(at("spread-now"), `${when}${value("spread", 3)}`);
    this.legend((why) => value(why, 2));
  }

  /** The legend of the reasons. */
  legend(value) {
    const place = at("refused-now");
    const key = `${theme()}|${this.reasons.join()}`;
    if (place.dataset.key !== key) {
      place.dataset.key = key;
      place.replaceChildren(...this.reasons.map((_, k) => element("span", {}, sampleOf(20, (pen) => inkLine(pen, k)), element("span"))));
    }
    this.reasons.forEach((why, k) => set(place.children[k].lastChild, `${why} ${value(why)}`));
  }
}

function inkLine(pen, k) {
  pen.strokeStyle = variable(lineOf(k)[0]);
  pen.setLineDash(lineOf(k)[1]);
  pen.lineWidth = 1.8;
}

/** A line, and two invisible ones that bound its band, one standard error above and below. */
function withError(style, estimate, error) {
  const aside = (sign) => ({ label: "", y: estimate.map((value, k) => value + sign * error[k]), color: none, width: 0 });
  return [{ ...style, y: estimate }, aside(1), aside(-1)];
}

/** The bands between quantiles: of all agents, and of most. */
function fills() {
  return [
    [0, 4, () => tint("--accent", 0.12)],
    [1, 3, () => tint("--accent", 0.2)],
  ];
}
