// Colors for numbers: two arms of constant hue whose lightness (in OKLab) changes evenly, blue below the middle and
// orange above it, so equal steps look equal, also to people with red-green color blindness. In the light theme the
// middle is pale, in the dark one it is dark: agents that agree fade into the page.

const STEPS = 128;
const ENDS = {
  light: { low: [0.43, -0.035, -0.135], middle: [0.955, 0.0, 0.006], high: [0.55, 0.085, 0.118] },
  dark: { low: [0.83, -0.045, -0.09], middle: [0.32, 0.0, -0.008], high: [0.83, 0.04, 0.125] },
};

function toRgb([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return linear.map((value) => {
    const clipped = Math.min(1, Math.max(0, value));
    const shown = clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055;
    return Math.round(255 * shown);
  });
}

function ramp({ low, middle, high }) {
  return Array.from({ length: STEPS }, (_, k) => {
    const place = (2 * k) / (STEPS - 1) - 1;
    const end = place < 0 ? low : high;
    const part = Math.abs(place);
    return `rgb(${toRgb(middle.map((from, i) => from + part * (end[i] - from))).join(" ")})`;
  });
}

export const RAMPS = { light: ramp(ENDS.light), dark: ramp(ENDS.dark) };

/** The index of a value among the steps of a ramp; -1 for NaN. */
export function stepOf(value, low, high) {
  if (!Number.isFinite(value)) return -1;
  const part = high > low ? (value - low) / (high - low) : 0.5;
  return Math.min(STEPS - 1, Math.max(0, Math.round(part * (STEPS - 1))));
}

/** Line colors by the number of a method, distinguishable with color blindness (after Okabe and Ito). */
export const LINES = {
  light: ["#0b62a4", "#c2560b", "#0b7a5c"],
  dark: ["#6bb5f0", "#f2a35e", "#58c9a3"],
};

export function theme() {
  return document.documentElement.dataset.shown ?? "light";
}

/** The current value of a CSS variable. */
export function variable(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
