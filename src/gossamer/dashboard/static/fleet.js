// The live view of a fleet. The page requests the next frame after drawing the previous one, but not while it is hidden
// or paused, so it always continues with the newest state. Every frame is complete (see fleet_page.py).

import { RAMPS, theme } from "./colors.js";
import { AgentPanel } from "./fleet_agent.js";
import { at, element, known, median, sampleOf, set } from "./fleet_elements.js";
import { FleetCanvas, inkLink } from "./fleet_network.js";
import { OverTime } from "./fleet_over_time.js";
import { apart, clock, count, duration, kindOf, markOf, number, percent } from "./fleet_states.js";
import { AgentTable } from "./fleet_table.js";
import { notify, showState, startFrame } from "./frame.js";
import { Live } from "./live.js";

const view = {
  frame: null,
  layout: "", // which network is on the canvas
  byState: false,
  paused: false,
  waiting: false, // for a frame that was asked for
};

startFrame();

const canvas = new FleetCanvas(at("network"), { onAgent: (agent) => choose(view.frame.names[agent]), onLink: () => {}, onHover: tip });
const table = new AgentTable(at("agents"), at("filter"), choose);
const panel = new AgentPanel(at("agent"), choose);
const overTime = new OverTime(panel);

globalThis.fleet = { view, canvas, overTime, panel }; // for tests and the browser's console

const live = new Live("/fleet", {
  onFrame: (frame) => {
    if (frame.type === "fleet") {
      view.waiting = false;
      view.frame = frame;
      requestAnimationFrame(draw); // browsers do not call it while the page is hidden
    } else if (frame.type === "agent") {
      panel.show(frame);
    } else if (frame.message) {
      notify(frame.message);
    }
  },
  onState: (state) => {
    view.waiting = false;
    view.connected = state === "live";
    showConnection();
    if (state === "live") {
      if (panel.name) live.send("look", { agent: panel.name });
      askForNext();
    }
  },
});

function askForNext() {
  if (view.waiting || view.paused || document.hidden) return;
  view.waiting = true;
  live.send("next");
}

document.addEventListener("visibilitychange", askForNext);

at("pause").addEventListener("click", () => {
  view.paused = !view.paused;
  at("pause").setAttribute("aria-pressed", `${view.paused}`);
  at("pause").textContent = view.paused ? "Resume" : "Pause";
  showConnection();
  askForNext();
});

function showConnection() {
  if (!view.connected) showState("lost", "disconnected, reconnecting");
  else if (view.paused) showState("busy", `paused at ${view.frame ? clock(view.frame.time) : "the start"}`);
  else showState("live", view.frame ? `live, ${clock(view.frame.time)}` : "live");
}

for (const button of document.querySelectorAll("[data-color]")) {
  button.addEventListener("click", () => {
    view.byState = button.dataset.color === "state";
    press(button, "[data-color]");
    if (view.frame) drawNetwork(view.frame);
  });
}

for (const button of document.querySelectorAll("[data-span]")) {
  button.addEventListener("click", () => {
    overTime.span = Number(button.dataset.span);
    press(button, "[data-span]");
    if (view.frame) overTime.show(view.frame);
  });
}

function press(button, group) {
  for (const other of document.querySelectorAll(group)) other.setAttribute("aria-pressed", `${other === button}`);
}

document.addEventListener("themechange", () => view.frame && draw(false));
addEventListener("hashchange", () => follow());
addEventListener("keydown", (event) => event.key === "Escape" && choose(""));

/** Show one agent, or none; the address holds its name. */
function choose(name) {
  if (inAddress() === name) return;
  history.replaceState(null, "", name ? `#${encodeURIComponent(name)}` : location.pathname);
  follow();
}

function follow() {
  panel.choose(inAddress());
  live.send("look", { agent: panel.name });
  if (view.frame) draw(false);
}

panel.choose(inAddress());

function inAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return location.hash.slice(1); // a broken escape, so not the name of an agent
  }
}

// --- drawing a frame

function draw(fresh = true) {
  const { frame } = view;
  drawFacts(frame);
  drawNotes(frame);
  drawNetwork(frame);
  overTime.show(frame);
  table.show(frame, panel.name);
  drawEvents(frame);
  showConnection();
  document.documentElement.dataset.number = frame.number;
  if (fresh !== false) askForNext();
}

function drawFacts({ name, network, epoch, summary, arrays, refused, dimension }) {
  set(at("fleet-name"), network || name);
  set(at("fleet-network"), `${network ? `fleet ${name}, ` : ""}epoch ${epoch}`);
  const errors = known(arrays.error);
  const rates = known(arrays.rate);
  const [harmless, worrying] = apart(refused);
  const facts = [
    ["Agents", words(summary.states)],
    [dimension > 1 ? "Estimate (first of " + dimension + ")" : "Estimate", summary.estimate === null ? "–" : `${number(summary.estimate)} ± ${number(median(errors), 2)}`],
    ["Spread", number(summary.spread ?? NaN, 3)],
    ["Rounds per second", number(median(rates), 3)],
    ["Rounds", count(summary.rounds)],
    ["Observations", count(summary.samples)],
    ["Refused, late", [worrying, harmless].map((some) => count(total(some))).join(", ")],
  ];
  const list = at("facts");
  if (list.children.length !== facts.length) {
    list.replaceChildren(...facts.map(() => element("div", {}, element("dt"), element("dd"))));
  }
  facts.forEach(([label, value], k) => {
    const [term, said] = list.children[k].children;
    set(term, label);
    if (k) set(said, value);
    else if (said.dataset.said !== JSON.stringify(value)) {
      said.dataset.said = JSON.stringify(value);
      said.replaceChildren(...value.map(([state, many]) => badge(state, `${many} ${state}`)));
    }
  });
}

function total(counts) {
  return counts.reduce((sum, [, many]) => sum + many, 0);
}

function words(states) {
  return Object.entries(states).sort((a, b) => b[1] - a[1]);
}

function badge(state, text) {
  return element("span", { className: "badge", kind: kindOf(state) }, text);
}

function drawNotes({ notes, states, problems, names, arrays }) {
  const said = states
    .map((state, k) => [state, problems[k], names[k]])
    .filter(([, problem]) => problem)
    .map(([state, problem, name]) => `${name} (${state}): ${problem.startsWith(`${name}: `) ? problem.slice(name.length + 2) : problem}`);
  const silence = "No agent speaks: none is running, or they run on other hosts and their metrics are not known here.";
  const all = [...(arrays.speaking.some(Boolean) ? [] : [silence]), ...notes, ...said.slice(0, 3), ...(said.length > 3 ? [`and ${said.length - 3} more with a problem`] : [])];
  const place = at("notes");
  if (place.dataset.said === all.join("\n")) return;
  place.dataset.said = all.join("\n");
  place.hidden = !all.length;
  place.replaceChildren(...all.map((text) => element("li", {}, text)));
}

function drawNetwork({ names, states, arrays, square }) {
  const layout = `${names.join(" ")}|${arrays.links.join()}`;
  if (layout !== view.layout) {
    view.layout = layout;
    canvas.setNetwork({ positions: arrays.positions, links: arrays.links, names, square });
  }
  const here = Array.from(arrays.estimate, (value, k) => (arrays.speaking[k] ? value : NaN));
  const range = around(known(here), median(known(arrays.error)));
  const quiet = quietAfter(median(known(arrays.rate)));
  const mine = names.indexOf(panel.name);
  canvas.setFleet({
    states,
    byState: view.byState,
    values: here,
    range,
    loss: arrays.linkLoss,
    heard: arrays.linkHeard,
    quiet,
    down: Array.from(arrays.linkState, (state, k) => isDown(state, [arrays.links[2 * k], arrays.links[2 * k + 1]], states, arrays.speaking)),
    marked: new Set(mine < 0 ? [] : [mine]),
  });
  drawLegend(range, states, quiet);
}

/** Seconds without a message after which a link is quiet: two seconds or five rounds, whichever is longer. */
function quietAfter(rate) {
  return Math.max(2, Math.round(rate > 0 ? 5 / rate : 0));
}

/** Whether a link is down: one end declared the other dead or has ended, or neither reports it. */
function isDown(state, ends, states, speaking) {
  const ended = ends.some((end) => ["gone", "stopped"].includes(kindOf(states[end])));
  return state >= 4 || ended || !ends.some((end) => speaking[end]);
}

/**
 * An interval around the median that holds all numbers and their standard error. Agents that differ by less than their
 * standard error thus have the middle color and do not flicker.
 */
function around(values, error) {
  if (!values.length) return [0, 1];
  const middle = median(values);
  const least = error > 0 ? error : Math.abs(middle) * 1e-9 || 1e-9;
  const reach = Math.max(...values.map((value) => Math.abs(value - middle)), least);
  return [middle - reach, middle + reach];
}

function drawLegend([low, high], states, quiet) {
  const place = at("legend");
  const seen = [...new Set(states.map(kindOf))];
  const said = [theme(), view.byState, view.byState ? "" : [low, high].map((v) => number(v)).join(), seen.join(), quiet].join("|");
  if (place.dataset.said === said) return;
  place.dataset.said = said;
  const items = [];
  if (view.byState) items.push(...seen.map((state) => badge(state, state)));
  else {
    const strip = element("canvas", { className: "strip", width: RAMPS.light.length, height: 1 });
    const pen = strip.getContext("2d");
    RAMPS[theme()].forEach((color, k) => {
      pen.fillStyle = color;
      pen.fillRect(k, 0, 1, 1);
    });
    if (states.some((state) => kindOf(state) === "running")) {
      items.push(element("span", { className: "scale" }, number(low), strip, number(high)));
    }
    items.push(...seen.filter((state) => markOf(state)).map((state) => badge(state, state)));
  }
  const samples = [["0 1", "link"], ["2 1", "loses 10%"], ["3 1", "30% or more"], ["0 0", `not heard for ${quiet} s`], ["down", "down"]];
  items.push(...samples.map(([key, text]) => element("span", {}, sampleOf(28, (pen) => inkLink(pen, key)), text)));
  place.replaceChildren(...items);
}

// --- events and the tooltip

function drawEvents({ events, names }) {
  const place = at("events");
  const key = events.length ? `${events.length} ${events.at(-1)[0]} ${events.at(-1)[1]}` : "";
  if (place.dataset.key === key) return;
  place.dataset.key = key;
  at("events-none").hidden = events.length > 0;
  place.replaceChildren(
    ...events.toReversed().map(([time, agent, text, bad]) => {
      const here = names.includes(agent); // otherwise several agents, or one that left
      const name = element(here ? "button" : "b", { className: here ? "quiet" : "", textContent: agent });
      if (here) name.addEventListener("click", () => choose(agent));
      return element("li", { bad: `${bad}` }, element("time", {}, clock(time)), name, element("span", {}, text));
    }),
  );
}

function tip(found, event) {
  const place = document.querySelector(".tip");
  const text = found && view.frame ? describe(found, view.frame) : "";
  place.hidden = !text;
  if (!text) return;
  place.textContent = text;
  const [x, y] = event ? [event.clientX, event.clientY] : beside(found);
  place.style.left = `${Math.min(x + 14, innerWidth - place.offsetWidth - 8)}px`;
  place.style.top = `${Math.min(y + 16, innerHeight - place.offsetHeight - 8)}px`;
}

function beside({ agent, link }) {
  const box = at("network").getBoundingClientRect();
  const [x, y] = agent !== undefined ? canvas.place(agent) : canvas.middle(link);
  return [box.left + x, box.top + y];
}

function describe({ agent, link }, { names, states, arrays, linkStates }) {
  if (agent !== undefined) {
    if (agent >= names.length) return "";
    const rate = arrays.rate[agent];
    return `${names[agent]}, ${states[agent]}\n${number(arrays.estimate[agent])} ± ${number(arrays.error[agent], 2)}${Number.isFinite(rate) ? `\n${number(rate, 3)} rounds per second` : ""}`;
  }
  const [a, b] = [arrays.links[2 * link], arrays.links[2 * link + 1]];
  const lost = arrays.linkLoss[link];
  const heard = arrays.linkHeard[link];
  return [
    `${names[a]} to ${names[b]}, ${linkStates[arrays.linkState[link]]}`,
    `lost lately: ${percent(lost)}`,
    Number.isFinite(heard) ? `last message ${duration(heard)} ago` : "no message yet",
  ].join("\n");
}
