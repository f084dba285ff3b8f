// The network of a fleet: agents colored by estimate or state, links drawn by loss and time since the last message.

import { RAMPS, stepOf, theme, variable } from "./colors.js";
import { colorOf, kindOf, markOf } from "./fleet_states.js";
import { NetworkCanvas } from "./network.js";

const LOSSES = [0.02, 0.1, 0.3]; // thresholds of loss from which a link is drawn thicker

/** The level of a link's loss, from 0 to 3. */
export function gradeOf(loss) {
  return Number.isFinite(loss) ? LOSSES.filter((limit) => loss >= limit).length : 0;
}

export class FleetCanvas extends NetworkCanvas {
  /**
   * states   of the agents, words
   * byState  whether their colors show these instead of values
   * loss, heard, down   of the links: share lost, seconds since a message, and 1 where an end gave the other up
   * quiet    seconds since the last message after which a link fades
   */
  setFleet(fleet) {
    this.fleet = { ...this.fleet, ...fleet };
    this.setFrame({ values: fleet.values ?? this.frame.values, range: fleet.range ?? this.frame.range, marked: fleet.marked ?? this.frame.marked });
    this.redraw(true);
  }

  drawLinks() {
    const pen = this.layer.getContext("2d");
    const scale = this.layer.width / this.canvas.clientWidth;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.layer.width, this.layer.height);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    if (!this.fleet) return;
    const { loss, heard, down, quiet } = this.fleet;
    const groups = new Map();
    for (let k = 0; k < this.network.links.length / 2; k++) {
      const key = down[k] ? "down" : `${gradeOf(loss[k])} ${Number.isFinite(heard[k]) && heard[k] <= quiet ? 1 : 0}`;
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(k);
    }
    for (const [key, which] of groups) {
      inkLink(pen, key);
      this.lines(pen, which);
    }
    pen.globalAlpha = 1;
    pen.setLineDash([]);
  }

  drawAgents(pen) {
    const { agents } = this.network;
    const { values, range = [0, 1] } = this.frame;
    if (!this.fleet) return;
    const ramp = RAMPS[theme()];
    const radius = this.radius();
    pen.lineWidth = radius > 5 ? 1.2 : 0.7;
    for (let agent = 0; agent < agents; agent++) {
      const state = this.fleet.states[agent];
      const well = kindOf(state) === "running";
      const here = well || kindOf(state) === "degraded" || kindOf(state) === "alone";
      const step = here ? stepOf(values?.[agent], ...range) : -1;
      const [x, y] = this.place(agent);
      const fill = this.fleet.byState ? (here ? colorOf(state) : variable("--paper")) : step < 0 ? variable("--paper") : ramp[step];
      pen.fillStyle = fill;
      pen.strokeStyle = well ? variable("--rim") : colorOf(state);
      pen.lineWidth = well ? (radius > 5 ? 1.2 : 0.7) : 1.8;
      pen.beginPath();
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      pen.fill();
      pen.stroke();
      if (!well) this.mark(pen, state, x, y, radius, here);
    }
  }

  /** The mark of a state: inside a hollow circle, next to a filled one. */
  mark(pen, state, x, y, radius, beside) {
    const mark = markOf(state);
    pen.strokeStyle = pen.fillStyle = colorOf(state);
    if (mark === "×") {
      const arm = 0.5 * radius;
      pen.lineWidth = Math.max(1.4, radius / 5);
      pen.beginPath();
      pen.moveTo(x - arm, y - arm);
      pen.lineTo(x + arm, y + arm);
      pen.moveTo(x + arm, y - arm);
      pen.lineTo(x - arm, y + arm);
      pen.stroke();
      return;
    }
    pen.font = `700 ${Math.max(9, Math.round((beside ? 1 : 1.3) * radius))}px ${variable("--font")}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    if (beside) {
      const [a, b] = [x + 0.85 * radius, y - 0.85 * radius];
      pen.beginPath();
      pen.arc(a, b, Math.max(5, 0.6 * radius), 0, 2 * Math.PI);
      pen.fill();
      pen.fillStyle = variable("--paper");
      pen.fillText(mark, a, b + 0.5);
    } else {
      pen.fillText(mark, x, y + 0.5);
    }
  }
}

/** Set a pen for a link: thicker and warmer with loss, faint without recent messages, dashed if it is down. */
export function inkLink(pen, key) {
  if (key === "down") {
    pen.setLineDash([2, 5]);
    pen.strokeStyle = variable("--gone");
    pen.lineWidth = 1.4;
    pen.globalAlpha = 0.55;
    return;
  }
  const [grade, fresh] = key.split(" ").map(Number);
  pen.setLineDash(fresh ? [] : [6, 4]);
  pen.strokeStyle = variable(["--link", "--loss-1", "--loss-2", "--loss-3"][grade]);
  pen.lineWidth = [1.3, 2, 2.8, 3.8][grade];
  pen.globalAlpha = fresh ? 1 : 0.55;
}
