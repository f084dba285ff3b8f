// The table of all agents, which can be sorted and filtered; only cells that changed are updated.

import { count, kindOf, number, percent, showState } from "./fleet_states.js";

const COLUMNS = [
  ["Agent", ({ names }, k) => names[k]],
  ["State", ({ states }, k) => states[k]],
  ["Estimate", ({ arrays }, k) => arrays.estimate[k], (v) => number(v)],
  ["± s.e.", ({ arrays }, k) => arrays.error[k], (v) => number(v, 2)],
  ["Distance", ({ arrays }, k) => arrays.distance[k], (v) => number(v, 2)],
  ["Rounds", ({ arrays }, k) => arrays.rounds[k], count],
  ["per s", ({ arrays }, k) => arrays.rate[k], (v) => number(v, 3)],
  ["Observations", ({ arrays }, k) => arrays.samples[k], count],
  ["Lost", ({ arrays }, k) => arrays.loss[k], percent],
  ["Refused", ({ arrays }, k) => arrays.rejected[k], count],
  ["Epoch", ({ arrays }, k) => arrays.epochs[k], (v) => (v ? `${v}` : "–")],
  ["Problem", ({ problems }, k) => problems[k]],
];

export class AgentTable {
  constructor(table, filter, choose) {
    this.body = table.tBodies[0];
    this.filter = filter;
    this.choose = choose;
    this.rows = new Map();
    this.sort = null; // [column, 1 or -1]; null sorts by severity
    this.head(table.tHead);
    filter.addEventListener("input", () => this.last && this.show(...this.last));
  }

  head(place) {
    const row = place.insertRow();
    COLUMNS.forEach(([label, , format], k) => {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.className = format ? "number" : "";
      const button = document.createElement("button");
      button.type = "button";
      button.className = "quiet";
      button.textContent = label;
      button.addEventListener("click", () => this.sortBy(k));
      cell.append(button);
      row.append(cell);
    });
    this.heads = row.cells;
  }

  /** Cycle through ascending order, descending order, and order by severity. */
  sortBy(k) {
    const first = COLUMNS[k][2] ? -1 : 1;
    const [column, way] = this.sort ?? [null, 0];
    this.sort = column !== k ? [k, first] : way === first ? [k, -first] : null;
    [...this.heads].forEach((cell, j) => {
      const now = this.sort?.[0] === j ? (this.sort[1] > 0 ? "ascending" : "descending") : "none";
      cell.setAttribute("aria-sort", now);
    });
    if (this.last) this.show(...this.last);
  }

  show(frame, chosen) {
    this.last = [frame, chosen];
    const words = this.filter.value.trim().toLowerCase();
    const order = this.order(frame).filter((k) => !words || `${frame.names[k]} ${frame.states[k]}`.toLowerCase().includes(words));
    const shown = order.map((k) => this.row(frame, k, chosen));
    for (const name of [...this.rows.keys()]) if (!frame.names.includes(name)) this.rows.delete(name);
    shown.forEach((row, k) => {
      if (this.body.children[k] !== row) this.body.insertBefore(row, this.body.children[k] ?? null);
    });
    while (this.body.children.length > shown.length) this.body.lastChild.remove();
  }

  order(frame) {
    if (!this.sort) return frame.worst;
    const [column, way] = this.sort;
    const value = (k) => COLUMNS[column][1](frame, k);
    const text = !COLUMNS[column][2];
    const compare = (a, b) => {
      if (text) return value(a).localeCompare(value(b), "en", { numeric: true });
      const [x, y] = [value(a), value(b)];
      if (Number.isNaN(x) || Number.isNaN(y)) return way * (Number.isNaN(x) - Number.isNaN(y)); // always at the end
      return x - y;
    };
    return [...frame.worst].sort((a, b) => way * compare(a, b) || a - b);
  }

  row(frame, k, chosen) {
    const name = frame.names[k];
    if (!this.rows.has(name)) this.rows.set(name, this.made(name));
    const row = this.rows.get(name);
    row.classList.toggle("chosen", name === chosen);
    row.dataset.kind = kindOf(frame.states[k]);
    COLUMNS.forEach(([, value, format], j) => {
      if (j === 0) return;
      if (j === 1) {
        const again = frame.arrays.restarts[k];
        const mixing = frame.states[k] === "running" && frame.arrays.settled[k] === 0 ? ", mixing" : "";
        showState(row.cells[1].firstChild, frame.states[k], mixing + (again ? ` ↻${count(again)}` : ""));
        return;
      }
      const text = format ? format(value(frame, k)) : value(frame, k);
      const cell = row.cells[j];
      if (cell.textContent !== text) cell.textContent = text;
    });
    return row;
  }

  made(name) {
    const row = document.createElement("tr");
    COLUMNS.forEach(([, , format], j) => {
      const cell = row.insertCell();
      cell.className = format ? "number" : j === COLUMNS.length - 1 ? "problem" : "";
    });
    const button = document.createElement("button");
    button.type = "button";
    button.className = "quiet name";
    button.textContent = name;
    row.cells[0].append(button);
    const badge = document.createElement("span");
    badge.className = "badge";
    row.cells[1].append(badge);
    row.addEventListener("click", () => this.choose(name));
    return row;
  }
}
