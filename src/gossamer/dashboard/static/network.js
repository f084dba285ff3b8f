// The network on a canvas: circles colored by a number, links between them. Dead agents are hollow
// and crossed out, cut links are dashed, so colors are never the only difference. Links have their own layer, which is
// redrawn only when they change.

import { RAMPS, stepOf, theme, variable } from "./colors.js";

const MARGIN = 26;
const REACH = 12; // pixels within which a pointer hits
const WIDEST = 1.8; // largest ratio of the two sides of a network
const CROSSES = 24; // largest number of cut links that are marked with a cross
export const RING = 0.6; // the width of a ring, relative to the radius inside it
export const HOLLOW = 0.5; // relative size of an agent without an answer

export class NetworkCanvas {
  /**
   * canvas     the element; it gets the keyboard's focus
   * handlers   onAgent(agent), onLink(link), onLasso(agents), onHover({agent} | {link} | null, event): all optional
   */
  constructor(canvas, handlers = {}) {
    this.canvas = canvas;
    this.handlers = handlers;
    this.layer = document.createElement("canvas");
    this.network = null;
    this.frame = {};
    this.hover = null;
    this.chosen = null; // by the keyboard: {agent, link}
    this.lasso = null;
    this.draws = 0;
    this.drawTime = 0;
    new ResizeObserver(() => this.resize()).observe(canvas);
    document.addEventListener("themechange", () => this.redraw(true));
    this.listen();
  }

  /** positions (N, 2) in the unit square, with equal scales if `square`; links (E, 2); names of the agents. */
  setNetwork({ positions, links, names, square = false }) {
    this.network = { positions, links, names: names ?? null, agents: positions.length / 2, square };
    this.gap = square ? gapOf(positions) : Infinity;
    this.frame = {};
    this.chosen = null;
    this.hover = null;
    this.index();
    this.redraw(true);
  }

  /**
   * Update what is shown; entries that are left out keep their values.
   *
   * values      (N,) the agents' numbers; NaN if unknown
   * told        (N,) another number each, for a ring around the agents; null: no rings
   * range       [low, high] of the colors
   * dead        (N,) 1 where an agent is absent
   * cut         (E,) 1 where a link is cut
   * shades      (E,) opacity of the links, from 0 to 1
   * marked      a set of agents
   * positions   (N, 2), where agents move
   * links       (E, 2), where links come and go
   */
  setFrame(frame) {
    const moved = frame.links !== undefined || frame.positions !== undefined;
    const faded = frame.dead !== undefined || frame.cut !== undefined || frame.shades !== undefined;
    if (moved) {
      this.network = {
        ...this.network,
        positions: frame.positions ?? this.network.positions,
        links: frame.links ?? this.network.links,
      };
      this.index();
    }
    Object.assign(this.frame, frame);
    this.redraw(moved || faded);
  }

  /** The neighbors of each agent, for the keyboard. */
  index() {
    this.neighbors = null;
  }

  linksOf(agent) {
    if (this.neighbors === null) {
      this.neighbors = Array.from({ length: this.network.agents }, () => []);
      const { links } = this.network;
      for (let k = 0; k < links.length / 2; k++) {
        this.neighbors[links[2 * k]].push(k);
        this.neighbors[links[2 * k + 1]].push(k);
      }
    }
    return this.neighbors[agent];
  }

  name(agent) {
    return this.network.names?.[agent] ?? `${agent}`;
  }

  // --- drawing

  resize() {
    const scale = devicePixelRatio || 1;
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth || !clientHeight) return;
    for (const each of [this.canvas, this.layer]) {
      each.width = Math.round(clientWidth * scale);
      each.height = Math.round(clientHeight * scale);
    }
    this.redraw(true);
  }

  redraw(links = false) {
    this.stale = this.stale || links;
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = null;
      this.draw();
    });
  }

  place(agent) {
    const { positions, square } = this.network;
    let width = this.canvas.clientWidth - 2 * MARGIN;
    let height = this.canvas.clientHeight - 2 * MARGIN;
    const [wide, high] = [width, height];
    const most = square ? 1 : WIDEST; // largest ratio of the two sides
    width = Math.min(wide, most * high);
    height = Math.min(high, most * wide);
    const left = MARGIN + (wide - width) / 2;
    const top = MARGIN + (high - height) / 2;
    return [left + positions[2 * agent] * width, top + (1 - positions[2 * agent + 1]) * height];
  }

  radius() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const side = Math.min(width, height);
    const area = this.network.square ? side ** 2 : width * height;
    const most = Math.min(12, 0.22 * Math.sqrt(area / this.network.agents), 0.46 * this.gap * (side - 2 * MARGIN));
    return Math.max(2.6, this.frame.told ? most / (1 + RING) : most);
  }

  draw() {
    if (!this.network || !this.canvas.width) return;
    const began = performance.now();
    if (this.stale) this.drawLinks();
    this.stale = false;
    const pen = this.canvas.getContext("2d");
    const scale = this.canvas.width / this.canvas.clientWidth;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    pen.drawImage(this.layer, 0, 0);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.drawAgents(pen);
    this.drawAttention(pen);
    this.draws += 1;
    this.drawTime += performance.now() - began;
  }

  drawLinks() {
    const pen = this.layer.getContext("2d");
    const scale = this.layer.width / this.canvas.clientWidth;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, this.layer.width, this.layer.height);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    const { links } = this.network;
    const { cut, dead, shades } = this.frame;
    const count = links.length / 2;
    const plain = [];
    const broken = [];
    for (let k = 0; k < count; k++) {
      const gone = cut?.[k] || dead?.[links[2 * k]] || dead?.[links[2 * k + 1]];
      (gone ? broken : plain).push(k);
    }
    pen.strokeStyle = variable("--link");
    pen.lineWidth = count > 3000 ? 0.6 : 1.2;
    if (shades) {
      for (const k of plain) {
        pen.globalAlpha = 0.15 + 0.85 * Math.min(1, Math.max(0, shades[k]));
        this.lines(pen, [k]);
      }
    } else {
      pen.globalAlpha = Math.min(1, Math.max(0.35, 3000 / count));
      this.lines(pen, plain);
    }
    pen.globalAlpha = 1;
    pen.setLineDash([2, 5]);
    pen.strokeStyle = variable("--broken");
    this.lines(pen, broken);
    pen.setLineDash([]);
    const apart = broken.filter((k) => cut?.[k]);
    if (apart.length <= CROSSES) this.crosses(pen, apart);
  }

  lines(pen, which) {
    const { links } = this.network;
    pen.beginPath();
    for (const k of which) {
      pen.moveTo(...this.place(links[2 * k]));
      pen.lineTo(...this.place(links[2 * k + 1]));
    }
    pen.stroke();
  }

  /** A small cross in the middle of a link that is cut. */
  crosses(pen, which) {
    pen.lineWidth = 1.6;
    pen.beginPath();
    for (const k of which) {
      const [x, y] = this.middle(k);
      pen.moveTo(x - 4, y - 4);
      pen.lineTo(x + 4, y + 4);
      pen.moveTo(x + 4, y - 4);
      pen.lineTo(x - 4, y + 4);
    }
    pen.stroke();
  }

  middle(link) {
    const { links } = this.network;
    const [a, b] = this.place(links[2 * link]);
    const [c, d] = this.place(links[2 * link + 1]);
    return [(a + c) / 2, (b + d) / 2];
  }

  drawAgents(pen) {
    const { agents } = this.network;
    const { values, told, dead, range = [0, 1] } = this.frame;
    const ramp = RAMPS[theme()];
    const radius = this.radius();
    const paper = variable("--paper");
    const gone = [];
    pen.strokeStyle = variable("--rim");
    pen.lineWidth = radius > 5 ? 1.2 : 0.7;
    for (let agent = 0; agent < agents; agent++) {
      if (dead?.[agent]) {
        gone.push(agent);
        continue;
      }
      const step = values ? stepOf(values[agent], ...range) : -1;
      const [x, y] = this.place(agent);
      pen.fillStyle = step < 0 ? paper : ramp[step];
      pen.beginPath();
      pen.arc(x, y, step < 0 ? HOLLOW * radius : radius, 0, 2 * Math.PI);
      pen.fill();
      pen.stroke();
      const outer = told ? stepOf(told[agent], ...range) : -1;
      if (step < 0 || outer < 0) continue;
      const wide = RING * radius;
      pen.lineWidth = wide;
      pen.strokeStyle = ramp[outer];
      this.ring(pen, agent, radius + wide / 2 + 1);
      pen.lineWidth = radius > 5 ? 1.2 : 0.7;
      pen.strokeStyle = variable("--rim");
      this.ring(pen, agent, radius + wide + 1);
    }
    this.drawDead(pen, gone, radius);
  }

  drawDead(pen, members, radius) {
    pen.fillStyle = variable("--paper");
    pen.strokeStyle = variable("--broken");
    pen.lineWidth = 1.4;
    pen.beginPath();
    for (const agent of members) {
      const [x, y] = this.place(agent);
      pen.moveTo(x + radius, y);
      pen.arc(x, y, radius, 0, 2 * Math.PI);
    }
    pen.fill();
    pen.stroke();
    const arm = 0.62 * radius;
    pen.beginPath();
    for (const agent of members) {
      const [x, y] = this.place(agent);
      pen.moveTo(x - arm, y - arm);
      pen.lineTo(x + arm, y + arm);
      pen.moveTo(x + arm, y - arm);
      pen.lineTo(x - arm, y + arm);
    }
    pen.stroke();
  }

  drawAttention(pen) {
    const radius = this.radius();
    pen.strokeStyle = variable("--accent");
    pen.lineWidth = 2;
    for (const agent of this.frame.marked ?? []) this.ring(pen, agent, radius + 3);
    const keyboard = document.activeElement === this.canvas ? this.chosen : null;
    for (const which of [this.hover, keyboard]) {
      if (which?.agent !== undefined && which.agent !== null) this.ring(pen, which.agent, radius + 4);
      if (which?.link !== undefined && which.link !== null) {
        pen.lineWidth = 3;
        this.lines(pen, [which.link]);
        pen.lineWidth = 2;
      }
    }
    if (this.lasso?.length > 1) {
      pen.setLineDash([4, 4]);
      pen.beginPath();
      this.lasso.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.closePath();
      pen.stroke();
      pen.setLineDash([]);
    }
  }

  ring(pen, agent, radius) {
    const [x, y] = this.place(agent);
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.stroke();
  }

  // --- pointer and keyboard

  listen() {
    const { canvas } = this;
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || !this.network) return;
      this.pressed = at(event);
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!this.network) return;
      const here = at(event);
      if (this.pressed && this.handlers.onLasso && distance(here, this.pressed) > 6) {
        this.lasso = [...(this.lasso ?? [this.pressed]), here];
        this.look(null, event);
      } else if (!this.pressed) {
        this.look(this.hit(here), event);
      }
    });
    canvas.addEventListener("pointerup", (event) => {
      if (!this.pressed) return;
      const { lasso } = this;
      this.pressed = this.lasso = null;
      if (lasso) {
        const inside = this.inside(lasso);
        if (inside.length) this.handlers.onLasso(inside);
      } else {
        this.act(this.hit(at(event)));
      }
      this.redraw();
    });
    canvas.addEventListener("pointercancel", () => {
      this.pressed = this.lasso = null;
      this.redraw();
    });
    canvas.addEventListener("pointerleave", (event) => this.look(null, event));
    canvas.addEventListener("focus", () => this.redraw());
    canvas.addEventListener("blur", () => {
      this.handlers.onHover?.(null, null);
      this.redraw();
    });
    canvas.addEventListener("keydown", (event) => this.press(event));
  }

  look(found, event) {
    this.hover = found;
    this.handlers.onHover?.(found, event);
    this.redraw();
  }

  act(found) {
    if (found?.agent !== undefined) this.handlers.onAgent?.(found.agent);
    else if (found?.link !== undefined) this.handlers.onLink?.(found.link);
  }

  /** The agent, or otherwise the link, at a position. */
  hit(here) {
    const { agents, links } = this.network;
    let best = Math.max(REACH, this.radius() + 3);
    let found = null;
    for (let agent = 0; agent < agents; agent++) {
      const away = distance(here, this.place(agent));
      if (away < best) [best, found] = [away, { agent }];
    }
    if (found || !this.handlers.onLink) return found;
    best = 6;
    for (let link = 0; link < links.length / 2; link++) {
      const away = fromLine(here, this.place(links[2 * link]), this.place(links[2 * link + 1]));
      if (away < best) [best, found] = [away, { link }];
    }
    return found;
  }

  inside(loop) {
    const found = [];
    for (let agent = 0; agent < this.network.agents; agent++) {
      if (within(this.place(agent), loop)) found.push(agent);
    }
    return found;
  }

  /** Arrows walk from agent to agent, [ and ] through an agent's links, Enter acts, m marks. */
  press(event) {
    if (!this.network) return;
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const now = this.chosen ?? { agent: 0, link: null };
    if (ways[event.key]) {
      const agent = this.chosen ? this.toward(now.agent, ways[event.key]) : 0;
      this.chosen = { agent, link: null };
    } else if (event.key === "[" || event.key === "]") {
      const mine = this.linksOf(now.agent);
      const step = event.key === "]" ? 1 : mine.length - 1;
      const next = now.link === null ? 0 : (mine.indexOf(now.link) + step) % mine.length;
      this.chosen = { agent: now.agent, link: mine.length ? mine[next] : null };
    } else if (event.key === "Enter") {
      this.act(now.link === null ? { agent: now.agent } : { link: now.link });
    } else if (event.key === "m" && this.handlers.onMark) {
      this.handlers.onMark(now.agent);
    } else {
      return;
    }
    event.preventDefault();
    const shown = this.chosen?.link != null ? { link: this.chosen.link } : this.chosen && { agent: this.chosen.agent };
    this.handlers.onHover?.(shown, null);
    this.redraw();
  }

  /** The nearest agent in a direction. */
  toward(agent, [dx, dy]) {
    const [x, y] = this.place(agent);
    let best = Infinity;
    let found = agent;
    for (let other = 0; other < this.network.agents; other++) {
      const [a, b] = this.place(other);
      const along = (a - x) * dx + (b - y) * dy;
      const across = Math.abs((a - x) * dy + (b - y) * dx);
      if (other !== agent && along > 1 && along + 2 * across < best) [best, found] = [along + 2 * across, other];
    }
    return found;
  }
}

/** How far the nearest agent is, of most agents. */
function gapOf(positions) {
  const at = (k) => [positions[2 * k], positions[2 * k + 1]];
  const agents = positions.length / 2;
  const nearest = Array.from({ length: agents }, (_, k) => {
    let best = Infinity;
    for (let j = 0; j < agents; j++) if (j !== k) best = Math.min(best, distance(at(k), at(j)));
    return best;
  });
  return nearest.sort((a, b) => a - b)[agents >> 1];
}

function distance([a, b], [c, d]) {
  return Math.hypot(a - c, b - d);
}

function fromLine([x, y], [a, b], [c, d]) {
  const length = (c - a) ** 2 + (d - b) ** 2;
  const part = length ? Math.min(1, Math.max(0, ((x - a) * (c - a) + (y - b) * (d - b)) / length)) : 0;
  return distance([x, y], [a + part * (c - a), b + part * (d - b)]);
}

function within([x, y], loop) {
  let inside = false;
  for (let k = 0, j = loop.length - 1; k < loop.length; j = k++) {
    const [a, b] = loop[k];
    const [c, d] = loop[j];
    if (b > y !== d > y && x < ((c - a) * (y - b)) / (d - b) + a) inside = !inside;
  }
  return inside;
}
