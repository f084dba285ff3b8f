// The networks of all methods in lockstep, their color scale, and the tooltip.

import { LINES, RAMPS, theme } from "./colors.js";
import { NetworkCanvas } from "./network.js";

const short = (value) => (Math.abs(value) < 1e-12 ? "0" : Math.abs(value) >= 100 ? value.toFixed(1) : value.toPrecision(4));

export class Stage {
  /** handlers: onAgent, onLink([a, b]), onLasso(agents), onMark(agent); cutLink([a, b], round) returns whether a link is cut. */
  constructor(handlers) {
    this.handlers = handlers;
    this.views = [];
    this.network = null;
    this.runs = [];
    this.round = 1;
    this.span = "run";
    this.marked = new Set();
    this.shown = null; // key of the dead agents and cut links that the canvases show
    this.isCut = () => false;
    this.isDead = () => false;
    this.breaks = () => ""; // returns a key of the dead agents and cut links
    document.addEventListener("themechange", () => {
      this.drawRamp();
      this.showCaptions();
    });
  }

  setNetwork(frame) {
    this.network = frame;
    this.pointed = null;
    this.steady = !frame.changing;
    this.moving = frame.arrays.positions.shape.length === 3;
    this.marked.clear();
    // Covers 19 of 20 means, because a single outlier must not make all others look the same.
    const away = [...frame.arrays.means].map((mean) => Math.abs(mean - frame.target)).sort((a, b) => a - b);
    this.spread = away[Math.floor(0.95 * (away.length - 1))] || away.at(-1) || 1;
    this.views.forEach((view) => this.place(view));
  }

  /** Set the number of networks, one per method; `keep` shows the previous runs until new ones arrive. */
  setMethods(labels, keep) {
    this.labels = labels;
    this.pointed = null; // what the tooltip is about
    if (!keep) this.runs = [];
    const place = document.getElementById("networks");
    while (this.views.length > labels.length) this.views.pop().figure.remove();
    while (this.views.length < labels.length) {
      const number = this.views.length;
      const figure = document.createElement("figure");
      const caption = document.createElement("figcaption");
      const canvas = document.createElement("canvas");
      canvas.tabIndex = 0;
      canvas.setAttribute("role", "application");
      canvas.setAttribute("aria-roledescription", "network");
      figure.append(caption, canvas);
      place.append(figure);
      const view = { figure, caption, canvas: null };
      view.canvas = new NetworkCanvas(canvas, {
        onAgent: this.handlers.onAgent,
        onLink: this.handlers.onLink && ((link) => this.handlers.onLink(this.ends(link))),
        onLasso: this.handlers.onLasso,
        onMark: this.handlers.onMark,
        onHover: (found, event) => this.tell(number, found, event),
      });
      this.views.push(view);
      if (this.network) this.place(view);
    }
    this.showCaptions();
  }

  place(view) {
    this.shown = null;
    const { positions, links } = this.network.arrays;
    const size = 2 * this.network.agents;
    view.canvas.setNetwork({
      positions: this.moving ? positions.subarray(0, size) : positions,
      links: this.steady ? links : links.subarray(0, 0),
      names: this.network.names,
      square: this.network.square,
    });
  }

  /** Show nothing until a network is set. */
  clear() {
    this.network = null;
    this.marked.clear();
    this.setMethods([], false);
    document.getElementById("tip").hidden = true;
    for (const words of document.querySelectorAll("#ramp span, #ramp p")) words.textContent = "";
  }

  setRun(frame) {
    this.runs[frame.method] = frame;
    this.showCaptions();
  }

  name(agent) {
    return this.network?.names?.[agent] ?? `${agent}`;
  }

  links() {
    const { links, starts } = this.network.arrays;
    if (this.steady) return links;
    const at = Math.min(this.round - 1, this.network.rounds - 1);
    return links.subarray(2 * starts[at], 2 * starts[at + 1]);
  }

  ends(link) {
    const links = this.links();
    return [links[2 * link], links[2 * link + 1]];
  }

  estimates(number) {
    return this.values(number, "estimates");
  }

  /** The estimates of the same run without masks; null if it has none. */
  unmasked(number) {
    return this.values(number, "unmasked");
  }

  values(number, name) {
    const all = this.runs[number]?.arrays[name];
    if (!all) return null;
    const [rounds, agents] = all.shape;
    const at = Math.min(this.round, rounds) - 1;
    return all.subarray(at * agents, (at + 1) * agents);
  }

  /** The average of the agents that are present: after a crash, that of the survivors. */
  target() {
    const { means } = this.network.arrays;
    const key = this.breaks(this.round);
    if (this.averaged?.key !== key || this.averaged.means !== means) {
      const there = [...means].filter((_, agent) => !this.isDead(agent, this.round));
      const all = there.length === means.length || !there.length;
      const value = all ? this.network.target : there.reduce((sum, mean) => sum + mean, 0) / there.length;
      this.averaged = { key, means, value };
    }
    return this.averaged.value;
  }

  /** The range of the color scale, symmetric around the average. */
  range() {
    const target = this.target();
    let most = 0;
    if (this.span === "round") {
      for (let number = 0; number < this.views.length; number++) {
        for (const value of this.estimates(number) ?? []) {
          if (Number.isFinite(value)) most = Math.max(most, Math.abs(value - target));
        }
      }
    }
    most = this.span === "round" ? most || 1e-9 : this.spread;
    return [target - most, target + most];
  }

  /** Show a round with the agents' estimates after it. */
  show(round) {
    this.round = round;
    if (!this.network) return;
    const range = this.range();
    const links = this.links();
    const size = 2 * this.network.agents;
    const at = Math.min(round - 1, this.network.rounds - 1);
    const broken = this.broken(links, round);
    this.views.forEach((view, number) => {
      const values = this.estimates(number);
      const unmasked = this.unmasked(number);
      const told = unmasked && values;
      const frame = { values: unmasked ?? values, told, range, marked: this.marked, ...broken };
      if (!this.steady) frame.links = links;
      if (this.moving) frame.positions = this.network.arrays.positions.subarray(at * size, (at + 1) * size);
      view.canvas.setFrame(frame);
      this.remark(view, values);
    });
    this.drawRamp();
    if (this.pointed?.[1].agent !== undefined) this.tell(...this.pointed); // its estimate in this round
  }

  /** Why agents of a run that are alive have no answer. */
  reason(number) {
    return this.runs[number]?.notes.some((note) => note.startsWith("diverges")) ? "diverged" : "no answer yet";
  }

  /** The text next to a method's name: that it has no answer or, if there is only one method, the network. */
  remark(view, values) {
    const none = values?.every((value, agent) => !Number.isFinite(value) || this.isDead(agent, this.round));
    const text = none ? this.reason(this.views.indexOf(view)) : this.views.length > 1 || !this.network ? "" : this.network.name;
    const place = view.caption.lastChild;
    if (place.textContent !== text) place.textContent = text;
  }

  /** Update dead agents and cut links if they changed. */
  broken(links, round) {
    const key = `${this.views.length} ${this.breaks(round)}`;
    if (this.steady && this.shown === key) return {};
    this.shown = key;
    const dead = Uint8Array.from({ length: this.network.agents }, (_, k) => +this.isDead(k, round));
    const cut = new Uint8Array(links.length / 2);
    for (let k = 0; k < cut.length; k++) cut[k] = +this.isCut([links[2 * k], links[2 * k + 1]], round);
    return { dead, cut };
  }

  showCaptions() {
    this.views.forEach((view, number) => {
      const label = this.labels[number];
      const name = document.createElement("b");
      name.textContent = label;
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const dot = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      for (const [key, value] of Object.entries({ cx: 5, cy: 5, r: 4, fill: LINES[theme()][number] })) {
        dot.setAttribute(key, value);
      }
      svg.setAttribute("width", 10);
      svg.setAttribute("height", 10);
      svg.setAttribute("aria-hidden", "true");
      svg.append(dot);
      const left = document.createElement("span");
      left.append(svg, " ", name);
      view.caption.replaceChildren(left, document.createElement("span"));
      this.remark(view, this.network && this.estimates(number));
      view.canvas.canvas.setAttribute(
        "aria-label",
        `Network of ${this.network?.agents ?? 0} agents running ${label}. Arrow keys choose an agent.`,
      );
    });
  }

  /** Label the ends and the middle of the color scale. */
  scale() {
    const [low, high] = this.range().map(short);
    const [less, more] = this.span === "run" ? [" or less", " or more"] : ["", ""];
    return [low + less, `average ${short(this.target())}`, high + more];
  }

  /** What disc and ring are, with masks. */
  key() {
    if (!this.runs.some((run) => run?.arrays.unmasked)) return "";
    return "Ring: what an agent tells, its answer with masks. Disc: its answer in the same run without masks.";
  }

  drawRamp() {
    const place = document.getElementById("ramp");
    if (!place.firstChild) {
      const canvas = document.createElement("canvas");
      canvas.width = 256;
      canvas.height = 1;
      const words = document.createElement("div");
      words.append(...["", "", ""].map(() => document.createElement("span")));
      place.append(canvas, words, document.createElement("p"));
    }
    const [canvas, words, key] = place.children;
    if (key.textContent !== this.key()) key.textContent = this.key();
    if (place.dataset.theme !== theme()) {
      const pen = canvas.getContext("2d");
      const ramp = RAMPS[theme()];
      for (let x = 0; x < 256; x++) {
        pen.fillStyle = ramp[Math.floor((x * ramp.length) / 256)];
        pen.fillRect(x, 0, 1, 1);
      }
      place.dataset.theme = theme();
    }
    if (!this.network) return;
    this.scale().forEach((text, k) => {
      if (words.children[k].textContent !== text) words.children[k].textContent = text;
    });
  }

  /** Describe the agent or link under the pointer or chosen by keyboard. */
  tell(number, found, event) {
    const tip = document.getElementById("tip");
    tip.hidden = !found;
    this.pointed = found ? [number, found, event] : null;
    if (!found || !this.network) return;
    if (found.agent !== undefined) {
      const value = this.estimates(number)?.[found.agent];
      const mean = this.network.arrays.means[found.agent];
      const none = this.isDead(found.agent, this.round) ? "stopped" : this.reason(number);
      const plain = this.unmasked(number)?.[found.agent];
      const without = Number.isFinite(plain) ? `, without masks ${short(plain)}` : "";
      const known = Number.isFinite(value) ? `estimate ${short(value)}${without}` : none;
      tip.textContent = `agent ${this.name(found.agent)}: ${known}\nits own mean ${short(mean)}`;
      const hidden = this.network.arrays.hidden?.[found.agent]; // with masks
      if (hidden !== undefined) {
        tip.textContent += `\na curious neighbor knows it ${hidden ? `up to ± ${short(hidden)}` : "exactly"}`;
      }
    } else {
      const [a, b] = this.ends(found.link);
      const cut = this.isCut([a, b], this.round);
      tip.textContent = `link ${this.name(a)}–${this.name(b)}${cut ? ", cut" : ""}`;
    }
    const view = this.views[number].canvas;
    let [x, y] = event ? [event.clientX, event.clientY] : [0, 0];
    if (!event) {
      const box = view.canvas.getBoundingClientRect();
      const [a, b] = found.agent !== undefined ? view.place(found.agent) : view.middle(found.link);
      [x, y] = [box.left + a, box.top + b];
    }
    tip.style.left = `${Math.min(x + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(y + 14, innerHeight - tip.offsetHeight - 8)}px`;
  }
}
