// The curves of the chart: their data, their style, and their legend.

import { LINES, theme, variable } from "./colors.js";
import { explained } from "./terms.js";

/** All curves that the results hold and a log axis can show, each with a `name` for files. */
export function curvesOf(results) {
  const colors = LINES[theme()];
  const soft = variable("--soft");
  const several = results.runs.length > 1;
  const found = [];
  const add = (name, rounds, error, look) => {
    if (error.some((value) => value > 0)) found.push({ name, label: name, x: rounds, y: error, grows: true, ...look });
  };
  const { limits } = results;
  if (limits?.network) add("network limit", limits.rounds, limits.network, { color: soft, dash: [2, 4], width: 1.5, grows: false });
  if (limits) add("centralized limit", limits.rounds, limits.centralized, { color: soft, dash: [9, 5], width: 1.5, grows: false });
  results.labels.forEach((label, k) => {
    const of = several ? `: ${label}` : "";
    const color = colors[k];
    for (const { fork, rounds, error } of results.forks.filter(({ method }) => method === k)) {
      add(`fork ${fork + 1}${of}`, rounds, error, { color, width: 2, faint: true });
    }
    const bound = results.bounds[k];
    if (bound) add(`${bound.label}${of}`, bound.rounds, bound.error, { color, dash: [1, 3], width: 2.2, aside: true });
    const exact = results.exact[k];
    if (exact) add(`expected${results.faulty ? " without faults" : ""}${of}`, exact.rounds, exact.error, { color, dash: [7, 4], width: 2 });
    const run = results.runs[k];
    if (run) add(`this run${of}`, run.rounds, run.error, { color, width: 2.4, points: true });
  });
  return found;
}

/** A note for a run that is below a limit of the expected error. */
export const LUCKY = "a run below a limit is lucky: one run may be, the mean of many cannot";

/** The first round in which a run is below a limit, which holds until round `whole`; Infinity if none is. */
export function belowLimit({ runs, limits, whole }) {
  if (!limits) return Infinity;
  const least = new Map(limits.rounds.map((round, k) => [round, limits.network?.[k] ?? limits.centralized[k]]));
  const lucky = runs.flatMap(({ rounds, error }) => rounds.filter((round, k) => error[k] !== null && error[k] < least.get(round)));
  return Math.min(...lucky.filter((round) => round <= whole));
}

/** The legend: a list of curves, each with a sample of its line. */
export function showLegend(place, curves) {
  place.replaceChildren(
    ...curves.map((curve) => {
      const item = document.createElement("span");
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
      const look = { x1: 0, y1: 5, x2: 28, y2: 5, stroke: curve.color, "stroke-width": curve.width };
      for (const [name, value] of Object.entries(look)) line.setAttribute(name, value);
      if (curve.dash) line.setAttribute("stroke-dasharray", curve.dash.join(" "));
      if (curve.faint) line.setAttribute("opacity", 0.35);
      svg.setAttribute("width", 28);
      svg.setAttribute("height", 10);
      svg.setAttribute("aria-hidden", "true");
      svg.append(line);
      item.append(svg, ...explained(curve.label));
      return item;
    }),
  );
}

/** Notes [label, text] in one line; a note of several methods appears once. */
export function together(notes) {
  const said = new Map();
  for (const [label, text] of notes) said.set(text, [...(said.get(text) ?? []), label]);
  return [...said].map(([text, labels]) => [labels.filter(Boolean).join(" and "), text].filter(Boolean).join(": ")).join(" · ");
}

/** The curves as a table: one row per number of rounds, one column per curve. */
export function curvesCsv(curves) {
  const rounds = [...new Set(curves.flatMap((curve) => curve.x))].sort((a, b) => a - b);
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const columns = curves.map((curve) => new Map(curve.x.map((x, k) => [x, curve.y[k]])));
  const rows = rounds.map((x) => [x, ...columns.map((column) => column.get(x) ?? "")].join(","));
  return [["rounds", ...curves.map((curve) => quoted(curve.name))].join(","), ...rows].join("\n") + "\n";
}
