// Helpers of the fleet's page.

export const at = (id) => document.getElementById(id);

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.dataset[name] = value;
  }
  made.append(...children);
  return made;
}

export function set(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

export function known(values) {
  return Array.from(values).filter(Number.isFinite);
}

export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const half = sorted.length >> 1;
  return sorted.length ? (sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2) : NaN;
}

/** A short line in a legend, drawn with a pen that `ink` sets. */
export function sampleOf(width, ink) {
  const made = element("canvas", { className: "sample", width: 2 * width, height: 16 });
  const pen = made.getContext("2d");
  pen.scale(2, 2);
  ink(pen);
  pen.beginPath();
  pen.moveTo(1, 4);
  pen.lineTo(width - 1, 4);
  pen.stroke();
  return made;
}
