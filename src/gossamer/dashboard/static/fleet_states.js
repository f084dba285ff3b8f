// States of agents and links. Each has a word, a mark and a color, so that colors are never the only difference.

import { variable } from "./colors.js";

const KINDS = {
  running: { mark: "", color: "--well" },
  degraded: { mark: "!", color: "--degraded" },
  alone: { mark: "◦", color: "--alone" },
  starting: { mark: "›", color: "--away" },
  silent: { mark: "…", color: "--away" },
  unreachable: { mark: "?", color: "--away" },
  unknown: { mark: "?", color: "--away" },
  stopped: { mark: "■", color: "--away" },
  gone: { mark: "×", color: "--gone" },
};

/** Return one of the kinds above; any other state describes how a process ended. */
export function kindOf(state) {
  return KINDS[state] ? state : "gone";
}

export function markOf(state) {
  return KINDS[kindOf(state)].mark;
}

export function colorOf(state) {
  return variable(KINDS[kindOf(state)].color);
}

/** A state as a small label, optionally followed by more elements. */
export function showState(place, state, more = "") {
  place.dataset.kind = kindOf(state);
  if (place.textContent !== state + more) place.textContent = state + more;
}

/** Split refused messages by reason: late ones, which honest neighbors send too, and those worth investigating. */
export function apart(refused) {
  const late = ([why]) => why === "late" || why === "stale";
  const all = Object.entries(refused);
  return [all.filter(late), all.filter((each) => !late(each))];
}

// --- formatting numbers

const MINUS = "−";

/** Format a number with at most this many significant digits, without trailing zeros. */
export function number(value, digits = 5) {
  if (!Number.isFinite(value)) return "–";
  if (value !== 0 && (Math.abs(value) >= 1e7 || Math.abs(value) < 1e-4)) {
    const [mantissa, exponent] = value.toExponential(Math.max(0, Math.min(digits, 3) - 1)).split("e");
    return `${mantissa}e${Number(exponent)}`.replaceAll("-", MINUS);
  }
  if (value === 0) return "0";
  const before = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(digits))))) + 1; // 9.998 with 3 digits is 10.0
  return value.toFixed(Math.max(0, digits - before)).replace("-", MINUS);
}

/** Format a count; from ten thousand on it is abbreviated. */
export function count(value) {
  if (!Number.isFinite(value)) return "–";
  const rounded = Number(value.toPrecision(3)); // first, because 999,600 is 1.00M
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (rounded >= size && value >= 1e4) return `${(rounded / (unit === "k" ? 1e3 : size)).toPrecision(3)}${unit}`;
  }
  return `${Math.round(value)}`;
}

export function percent(value) {
  if (!Number.isFinite(value)) return "–";
  return `${value > 0 && value < 0.1 ? (100 * value).toFixed(1) : Math.round(100 * value)}%`;
}

/** A time span in the largest unit that fits. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  if (seconds < 120) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} days`;
}

/** The time of day. */
export function clock(seconds) {
  return new Date(1000 * seconds).toLocaleTimeString("en-GB");
}
