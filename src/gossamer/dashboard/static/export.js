// The view as an image: networks above, curves below. One SVG serves both formats.

import { power } from "./chart.js";
import { RAMPS, stepOf, theme, variable } from "./colors.js";
import { curvesOf } from "./curves.js";
import { HOLLOW, RING } from "./network.js";

const WIDTH = 1200;
const TOP = 560;
const CHART = 380;
const HEIGHT = TOP + CHART;

const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

/** An SVG of what a playground shows. */
export function drawing({ results, stage, round, chart }) {
  const parts = [`<rect width="${WIDTH}" height="${HEIGHT}" fill="${variable("--paper")}"/>`];
  const each = WIDTH / results.labels.length;
  results.labels.forEach((label, k) => parts.push(network(stage, k, label, k * each, each, round)));
  parts.push(scale(stage));
  parts.push(curves(curvesOf(results), round, chart.heights()));
  const font = 'font-family="Inter, Helvetica, Arial, sans-serif"';
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${HEIGHT}" width="${WIDTH}" height="${HEIGHT}" ${font}>${parts.join("\n")}</svg>`;
}

/** The color scale with its labels. */
function scale(stage) {
  const ramp = RAMPS[theme()];
  const [left, wide, top] = [WIDTH / 2 - 200, 400, TOP - 34];
  const stops = ramp.map((color, k) => `<stop offset="${k / (ramp.length - 1)}" stop-color="${color}"/>`);
  const texts = stage.scale().map((text, k) => {
    const anchor = ["start", "middle", "end"][k];
    return `<text x="${left + (k * wide) / 2}" y="${top + 24}" font-size="13" text-anchor="${anchor}" fill="${variable("--soft")}">${text}</text>`;
  });
  const key = `<text x="${WIDTH / 2}" y="${top - 6}" font-size="13" text-anchor="middle" fill="${variable("--soft")}">${stage.key()}</text>`;
  return `${stage.key() && key}<linearGradient id="ramp">${stops.join("")}</linearGradient><rect x="${left}" y="${top}" width="${wide}" height="8" rx="4" fill="url(#ramp)"/>${texts.join("")}`;
}

function network(stage, number, label, left, width, round) {
  const { canvas } = stage.views[number];
  const { positions, agents } = canvas.network;
  const { links } = canvas.network;
  const room = TOP - 132; // between the title and the key of the colors
  const size = Math.min(width - 60, room);
  const top = 56 + (room - size) / 2;
  const place = (agent) => [
    (left + (width - size) / 2 + positions[2 * agent] * size).toFixed(1),
    (top + (1 - positions[2 * agent + 1]) * size).toFixed(1),
  ];
  const parts = [
    `<text x="${left + width / 2}" y="32" text-anchor="middle" font-size="16" fill="${variable("--ink")}">${escaped(label)}, round ${round}</text>`,
  ];
  const { cut, dead, values, told, range } = canvas.frame;
  for (let k = 0; k < links.length / 2; k++) {
    const [a, b] = [links[2 * k], links[2 * k + 1]];
    const gone = cut?.[k] || dead?.[a] || dead?.[b];
    const look = gone ? `stroke="${variable("--broken")}" stroke-dasharray="2 5"` : `stroke="${variable("--link")}"`;
    const [[x1, y1], [x2, y2]] = [place(a), place(b)];
    parts.push(`<line x1="${x1}" y1="${y1}" x2="${x2}" y2="${y2}" ${look}/>`);
  }
  const most = Math.min(12, (0.24 * size) / Math.sqrt(agents), 0.46 * canvas.gap * size);
  const radius = Math.max(2.5, told ? most / (1 + RING) : most);
  for (let agent = 0; agent < agents; agent++) {
    const [x, y] = place(agent);
    const step = values ? stepOf(values[agent], ...range) : -1;
    const paper = variable("--paper");
    const fill = dead?.[agent] || step < 0 ? paper : RAMPS[theme()][step];
    const shown = step < 0 && !dead?.[agent] ? HOLLOW * radius : radius;
    parts.push(`<circle cx="${x}" cy="${y}" r="${shown.toFixed(1)}" fill="${fill}" stroke="${variable("--rim")}"/>`);
    const outer = told && step >= 0 && !dead?.[agent] ? stepOf(told[agent], ...range) : -1;
    if (outer >= 0) {
      const [wide, color] = [RING * radius, RAMPS[theme()][outer]];
      parts.push(
        `<circle cx="${x}" cy="${y}" r="${(radius + wide / 2 + 1).toFixed(1)}" fill="none" stroke="${color}" stroke-width="${wide.toFixed(1)}"/>`,
        `<circle cx="${x}" cy="${y}" r="${(radius + wide + 1).toFixed(1)}" fill="none" stroke="${variable("--rim")}"/>`,
      );
    }
    if (dead?.[agent]) {
      const r = 0.6 * radius;
      parts.push(
        `<path d="M${x - r} ${y - r}L${+x + r} ${+y + r}M${+x + r} ${y - r}L${x - r} ${+y + r}" stroke="${variable("--broken")}"/>`,
      );
    }
  }
  return `<g>${parts.join("")}</g>`;
}

function curves(found, round, heights) {
  const widest = Math.max(...found.map(({ label }) => label.length));
  const box = { left: 80, right: WIDTH - Math.max(190, 70 + 7 * widest), top: TOP + 20, bottom: HEIGHT - 50 };
  const points = found.flatMap((curve) => curve.x.map((x, k) => [x, curve.y[k]])).filter(([, y]) => y > 0);
  if (!points.length) return "";
  const logs = [points.map((point) => Math.log10(point[0])), heights.map((y) => Math.log10(y))];
  const [[x0, x1], [y0, y1]] = logs.map((values) => [Math.min(...values), Math.max(...values) + 1e-9]);
  const x = (value) => box.left + ((Math.log10(value) - x0) / (x1 - x0)) * (box.right - box.left);
  const y = (value) => box.bottom - ((Math.log10(value) - y0) / (y1 - y0)) * (box.bottom - box.top);
  const soft = variable("--soft");
  const clip = `<clipPath id="chart"><rect x="${box.left}" y="${box.top}" width="${box.right - box.left}" height="${box.bottom - box.top}"/></clipPath>`;
  const parts = [clip];
  for (let each = Math.ceil(x0); each <= x1; each++) {
    const at = x(10 ** each);
    parts.push(
      `<line x1="${at}" x2="${at}" y1="${box.top}" y2="${box.bottom}" stroke="${variable("--rule")}"/>`,
      `<text x="${at}" y="${box.bottom + 20}" font-size="13" text-anchor="middle" fill="${soft}">${power(10 ** each)}</text>`,
    );
  }
  const every = Math.ceil((22 * (y1 - y0)) / (box.bottom - box.top)); // decades between labels
  for (let each = every * Math.ceil(y0 / every); each <= y1; each += every) {
    const at = y(10 ** each);
    parts.push(
      `<line x1="${box.left}" x2="${box.right}" y1="${at}" y2="${at}" stroke="${variable("--rule")}"/>`,
      `<text x="${box.left - 8}" y="${at + 4}" font-size="13" text-anchor="end" fill="${soft}">${power(10 ** each)}</text>`,
    );
  }
  found.forEach((curve, k) => {
    const line = curve.x.map((value, i) => [value, curve.y[i]]).filter(([, value]) => value > 0);
    const text = line.map(([a, b]) => `${x(a).toFixed(1)},${y(b).toFixed(1)}`).join(" ");
    const dash = curve.dash ? `stroke-dasharray="${curve.dash.join(" ")}"` : "";
    const look = `stroke="${curve.color}" stroke-width="${curve.width}" ${dash} opacity="${curve.faint ? 0.35 : 1}"`;
    const top = box.top + 14 + 22 * k;
    parts.push(
      `<polyline points="${text}" fill="none" clip-path="url(#chart)" ${look}/>`,
      `<line x1="${box.right + 20}" x2="${box.right + 50}" y1="${top - 5}" y2="${top - 5}" ${look}/>`,
      `<text x="${box.right + 58}" y="${top}" font-size="13" fill="${variable("--ink")}">${escaped(curve.label)}</text>`,
    );
  });
  if (Math.log10(round) >= x0) {
    parts.push(`<line x1="${x(round)}" x2="${x(round)}" y1="${box.top}" y2="${box.bottom}" stroke="${variable("--accent")}"/>`);
  }
  parts.push(
    `<text x="${(box.left + box.right) / 2}" y="${HEIGHT - 10}" font-size="13" text-anchor="middle" fill="${soft}">rounds</text>`,
    `<text transform="translate(22 ${(box.top + box.bottom) / 2}) rotate(-90)" font-size="13" text-anchor="middle" fill="${soft}">total error</text>`,
  );
  return `<g>${parts.join("")}</g>`;
}

/** Render an SVG as a PNG at twice its resolution. */
export async function rasterize(svg) {
  const address = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = 2 * WIDTH;
    canvas.height = 2 * HEIGHT;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  } finally {
    URL.revokeObjectURL(address);
  }
}
