// The panel of one agent: what it publishes, its neighbors, and the end of its log.

import { variable } from "./colors.js";
import { TimeChart, tint } from "./fleet_charts.js";
import { at } from "./fleet_elements.js";
import { apart, count, duration, number, percent, showState } from "./fleet_states.js";

const HEADS = ["Name", "State", "Distance", "Round trip", "Lost", "Last heard"];

export class AgentPanel {
  constructor(place, choose) {
    this.place = place;
    this.name = "";
    this.frame = null;
    at("agent-close").addEventListener("click", () => choose(""));
    const row = at("agent-neighbors").tHead.insertRow();
    for (const [k, label] of HEADS.entries()) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = label;
      cell.className = k > 1 ? "number" : "";
      row.append(cell);
    }
    this.chart = new TimeChart(at("agent-chart"), { sync: "agent" });
    this.pick = choose;
  }

  /** Show this agent; null closes the panel. */
  choose(name) {
    this.name = name;
    this.frame = null;
    this.place.hidden = !name;
    document.body.classList.toggle("with-agent", Boolean(name));
    at("agent-name").textContent = name;
    at("agent-log").replaceChildren();
    at("agent-log").dataset.said = "";
    at("agent-facts").replaceChildren();
    at("agent-neighbors").tBodies[0].replaceChildren();
  }

  show(frame) {
    if (frame.name !== this.name) return; // a frame of the previously chosen agent
    this.frame = frame;
    if (frame.missing) {
      showState(at("agent-state"), "unknown");
      this.say("It is not a member of this fleet.");
      return;
    }
    showState(at("agent-state"), frame.state);
    this.say(frame.problem);
    this.facts(frame);
    this.neighbors(frame);
    this.log(frame);
    const { times, estimate, error } = frame.arrays;
    this.chart.set(
      Array.from(times),
      [
        { label: "estimate", y: estimate, color: () => variable("--accent") },
        { label: "", y: estimate.map((v, k) => v + error[k]), color: () => "transparent", width: 0 },
        { label: "", y: estimate.map((v, k) => v - error[k]), color: () => "transparent", width: 0 },
      ],
      [[1, 2, () => tint("--accent", 0.18)]],
    );
  }

  /** Its estimates and errors from a row of the history on, for the chart of the fleet; null if unknown. */
  historyOf(first) {
    if (!this.frame || this.frame.missing) return null;
    const { estimate, error } = this.frame.arrays;
    return { estimate: estimate.subarray(first), error: error.subarray(first) };
  }

  say(problem) {
    at("agent-problem").textContent = problem;
    at("agent-problem").hidden = !problem;
  }

  facts({ details, endpoint, rejected }) {
    const vector = (value, digits) => (Array.isArray(value) ? value : [value]).map((v) => number(v ?? NaN, digits)).join(", ");
    const [late, refused] = apart(rejected).map((some) => some.map(([why, many]) => `${why} ${count(many)}`).join(", "));
    const expires = details.certificate_expires;
    const pairs = [
      ["Estimate", details.estimate === undefined ? "–" : vector(details.estimate)],
      ["Standard error", details.standard_error === undefined ? "–" : vector(details.standard_error, 2)],
      ["Rounds", count(details.rounds ?? NaN)],
      ["Observations", count(details.samples ?? NaN)],
      ["Messages", `${count(details.sent ?? NaN)} sent, ${count(details.received ?? NaN)} received`],
      ["Refused", refused || "none"],
      ["Late", late || "none"],
      ["Endpoint", endpoint],
      ["Process", details.pid === undefined ? "on another host" : `${details.pid}`],
      ["Certificate", typeof expires === "number" ? `ends in ${duration(expires - Date.now() / 1000)}` : "none"],
      ["Version", details.version ?? "–"],
    ];
    at("agent-facts").replaceChildren(
      ...pairs.flatMap(([label, value]) => {
        const term = document.createElement("dt");
        const said = document.createElement("dd");
        term.textContent = label;
        said.textContent = value;
        return [term, said];
      }),
    );
  }

  neighbors({ neighbors, losses }) {
    const body = at("agent-neighbors").tBodies[0];
    const names = Object.keys(neighbors);
    while (body.rows.length > names.length) body.deleteRow(-1);
    while (body.rows.length < names.length) {
      const row = body.insertRow();
      for (let k = 0; k < HEADS.length; k++) row.insertCell().className = k > 1 ? "number" : "";
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet name";
      button.addEventListener("click", () => this.pick(button.textContent));
      row.cells[0].append(button);
    }
    names.forEach((name, k) => {
      const { state, distance, round_trip: trip, last_heard: heard } = neighbors[name];
      const { cells } = body.rows[k];
      cells[0].firstChild.textContent = name;
      [state, number(distance ?? NaN, 2), duration(trip ?? NaN), percent(losses[name] ?? NaN), duration(heard ?? NaN)].forEach(
        (text, j) => {
          cells[j + 1].textContent = text;
        },
      );
    });
  }

  log({ log, logProblem }) {
    const place = at("agent-log");
    at("agent-no-log").textContent = logProblem;
    at("agent-no-log").hidden = !logProblem;
    place.hidden = !log.length;
    const said = JSON.stringify(log);
    if (place.dataset.said === said) return;
    place.dataset.said = said;
    const atEnd = place.scrollTop + place.clientHeight >= place.scrollHeight - 8;
    place.replaceChildren(
      ...log.map(({ time, level, message, more }) => {
        const line = document.createElement("li");
        line.dataset.level = level;
        const when = document.createElement("time");
        when.textContent = time.slice(11, 19);
        const word = document.createElement("b");
        word.textContent = level === "info" ? "" : level;
        const text = document.createElement("span");
        text.textContent = more ? `${message}\n${more}` : message;
        line.append(when, word, text);
        return line;
      }),
    );
    if (atEnd) place.scrollTop = place.scrollHeight;
  }
}
