// Plays a run: networks, curves and controls. The playground gets the run from a server; a saved page contains it.

import { Chart } from "./chart.js";
import { belowLimit, curvesOf, LUCKY, showLegend, together } from "./curves.js";
import * as happen from "./events.js";
import { Stage } from "./stage.js";
import { complete } from "./state.js";
import { explainPage } from "./terms.js";

export const at = (id) => document.getElementById(id);

const TYPED = "input:not([type=range], [type=checkbox], [type=file]), textarea";
const PRESSED = "button, select, summary, a, [type=file], [type=checkbox]"; // elements that handle Space themselves

export class Viewer {
  /** handlers   called when the user acts on agents and links, see `Stage`; without them the view is read-only */
  constructor(handlers = {}) {
    this.scenario = complete({});
    this.dead = new Set(); // agents that stop or join at some time
    this.round = 1;
    this.playing = false;
    this.results = null;
    this.stage = new Stage(handlers);
    this.stage.isCut = (ends, round) => happen.isCut(this.scenario.events, ends, round);
    this.stage.isDead = (agent, round) => this.dead.has(agent) && !happen.aliveAt(this.scenario.events, agent, round);
    this.stage.breaks = (round) => happen.breaks(this.scenario.events, round);
    this.chart = new Chart(at("chart"), {
      xLabel: "rounds",
      yLabel: "total error",
      onPick: (x, y) => this.pick(Math.round(x), y),
    });
    document.addEventListener("themechange", () => this.drawCurves());
    this.listenToPlayer();
    explainPage();
  }

  /** Use the events of a scenario, which determine the agents that may be dead. */
  setScenario(scenario) {
    this.scenario = complete(scenario);
    const gone = this.scenario.events.filter((event) => ["crash", "join"].includes(event.kind));
    this.dead = new Set(gone.map((event) => event.agent));
    this.whole = Math.min(...gone.map((event) => (event.kind === "crash" ? event.round : 0))); // until then no agent is absent
  }

  /** Show skeletons until the results of another scenario arrive. */
  clear() {
    this.playing = false;
    at("play").textContent = "Play";
    this.results = null;
    this.stage.clear();
    this.chart.guess = null;
    this.chart.set([]);
    at("legend").replaceChildren();
    this.lucky = Infinity;
    this.judge();
    this.note();
  }

  /** Begin new results with the frame of a network; an unchanged network keeps its picture. */
  begin(frame) {
    const same = this.results && sameNetwork(this.results.network, frame);
    this.results = {
      network: frame,
      labels: this.scenario.methods.map(([name]) => name),
      faulty: this.scenario.events.length > 0,
      whole: this.whole,
      runs: [],
      exact: [],
      bounds: [],
      forks: [],
      limits: null,
      notes: [],
    };
    if (!same) this.chart.guess = null;
    if (same) this.stage.network = frame;
    else this.stage.setNetwork(frame);
    this.going = same && this.stage.labels.length === this.results.labels.length;
    this.stage.setMethods(this.results.labels, this.going);
    this.round = Math.min(this.round, frame.rounds);
    at("scrub").max = frame.rounds;
    if (!this.speedChosen) at("speed").value = [4, 12, 40, 120, 400].find((each) => each * 15 >= frame.rounds) ?? 400;
  }

  /** Add a frame to the results; return whether it is part of them. */
  take(frame) {
    const { results } = this;
    if (frame.type === "network") {
      this.begin(frame);
    } else if (frame.type === "run") {
      results.runs[frame.method] = frame;
      results.labels[frame.method] = frame.label;
      for (const note of frame.notes) results.notes.push([frame.label, note]);
      this.stage.labels = results.labels;
      this.stage.setRun(frame);
      this.goTo(this.round);
    } else if (frame.type === "missing") {
      delete this.stage.runs[frame.method];
      results.labels[frame.method] = frame.label;
      this.stage.showCaptions();
    } else if (frame.type === "unknown") {
      if (results.runs[frame.method]) results.notes.push(["", frame.message]);
    } else if (frame.type === "exact" || frame.type === "bound") {
      (frame.type === "exact" ? results.exact : results.bounds)[frame.method] = frame;
    } else if (frame.type === "limits") {
      results.limits = frame;
    } else if (frame.type === "fork") {
      results.forks.push(frame);
    } else {
      return false;
    }
    return true;
  }

  drawCurves() {
    if (!this.results) return;
    const curves = curvesOf(this.results);
    showLegend(at("legend"), curves);
    const runs = this.results.runs.filter(Boolean);
    const exact = runs.length && runs.every(({ error }) => error.every((value) => value === 0));
    this.chart.set(curves, [], exact ? "The error is 0 in every round." : "");
    this.lucky = belowLimit(this.results);
    this.note();
  }

  /** Show the notes of the results, about curves that grow only as far as they are drawn. */
  note() {
    const lucky = Number.isFinite(this.lucky) && (!this.chart.grow || this.round >= this.lucky);
    const text = together([...(this.results?.notes ?? []), ...(lucky ? [["", LUCKY]] : [])]);
    if (at("notes").textContent !== text) at("notes").textContent = text;
  }

  // --- predict, then play

  /** Let the curves grow as the run plays, so that it can be predicted; otherwise show the whole run. */
  setGrowing(growing) {
    at("whole").checked = !growing;
    this.chart.grow = growing;
    this.chart.guess = null;
    this.judge();
    this.drawCurves();
  }

  /** Handle a click on the curves: rounds already played are shown again, later ones are predicted. */
  pick(round, error) {
    if (!this.chart.grow || round <= this.round) {
      this.goTo(round);
      return;
    }
    this.chart.guess = { x: round, y: error };
    this.chart.setAt(this.round);
    this.judge();
  }

  /** Show the prediction and, once the run has reached it, how far off it was. */
  judge() {
    const { guess, grow } = this.chart;
    at("prediction").hidden = !grow;
    let text = "Predict, then play: click where the error will be.";
    if (guess) {
      const said = `Your prediction for round ${guess.x}: ${guess.y.toPrecision(2)}.`;
      const runs = this.results.runs.filter(Boolean).map((run) => `${run.label}: ${compared(run, guess)}`);
      text = `${said} ${this.round < guess.x ? "Play to see." : `${runs.join("; ")}.`}`;
    }
    if (at("prediction").textContent !== text) at("prediction").textContent = text;
  }

  // --- the player

  goTo(round) {
    this.round = Math.max(1, Math.min(round, this.results?.network.rounds ?? 1));
    at("scrub").value = this.round;
    at("scrub").setAttribute("aria-valuetext", `round ${this.round}`);
    at("round").textContent = `round ${this.round}`;
    this.stage.show(this.round);
    this.chart.setAt(this.round);
    this.judge();
    this.note();
  }

  play() {
    if (this.playing || !this.results) return;
    if (this.round >= this.results.network.rounds) this.goTo(1);
    this.playing = true;
    at("play").textContent = "Pause";
    let last = performance.now();
    let owed = 0;
    const tick = (now) => {
      if (!this.playing) return;
      owed += ((now - last) / 1000) * Number(at("speed").value);
      if (now - last > 1000) owed = 0; // the page was suspended: continue from here
      last = now;
      if (owed >= 1) {
        this.goTo(this.round + Math.floor(owed));
        owed %= 1;
      }
      if (this.round >= this.results.network.rounds) this.pause();
      else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  pause() {
    const was = this.playing;
    this.playing = false;
    at("play").textContent = "Play";
    if (was) this.remember();
  }

  step(by) {
    if (!this.results) return;
    this.pause();
    this.goTo(this.round + by);
    this.remember();
  }

  /** Store the view for later; a saved page does not. */
  remember() {}

  listenToPlayer() {
    at("play").addEventListener("click", () => (this.playing ? this.pause() : this.play()));
    at("back").addEventListener("click", () => this.step(-1));
    at("forth").addEventListener("click", () => this.step(1));
    at("scrub").addEventListener("input", () => {
      this.pause();
      this.goTo(Number(at("scrub").value));
    });
    at("scrub").addEventListener("change", () => this.remember());
    at("speed").addEventListener("change", () => (this.speedChosen = true));
    at("whole").addEventListener("change", () => {
      this.setGrowing(!at("whole").checked);
      this.remember();
    });
    at("span").addEventListener("change", () => {
      this.stage.span = at("span").value;
      this.stage.show(this.round);
      this.remember();
    });
    document.addEventListener("pointerdown", () => (this.tabbed = false)); // the focus came from a pointer, not from Tab
    document.addEventListener("keydown", (event) => this.press(event));
  }

  /** Space plays, comma and period step, wherever the focus is, except in text fields, dialogs and on elements reached by Tab. */
  press(event) {
    if (event.key === "Tab") this.tabbed = true;
    if (event.target.closest(`${TYPED}, dialog`) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " " && this.tabbed && event.target.closest(PRESSED)) return;
    const keys = { " ": () => (this.playing ? this.pause() : this.play()), ",": () => this.step(-1), ".": () => this.step(1) };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }
}

/** The error of a run, in words, next to the one that was predicted. */
function compared({ rounds, error }, guess) {
  const value = error[Math.max(0, rounds.findLastIndex((round) => round <= guess.x))];
  if (!Number.isFinite(value)) return "no answer";
  const ratio = value / guess.y;
  const factor = Math.max(ratio, 1 / ratio);
  const far = `${factor.toPrecision(2)} times ${ratio > 1 ? "more" : "less"}`;
  return `${value.toPrecision(2)}, ${factor < 1.25 ? "about as predicted" : far}`;
}

/** Whether two frames hold the same network at the same positions, so that its picture can be kept. */
function sameNetwork(one, other) {
  const same = (a, b) => a?.length === b?.length && (!a || a.every((value, k) => value === b[k]));
  return ["positions", "links", "means", "starts"].every((name) => same(one.arrays[name], other.arrays[name]));
}
