// A page without a server: recorded runs of one scenario, between which the user can switch (see saving.py).

import { notify, startFrame } from "./frame.js";
import { unpack } from "./live.js";
import { through } from "./state.js";
import { at, Viewer } from "./viewer.js";

const NONE = 65535; // code of a missing estimate

class Recording extends Viewer {
  /** frames   the first describes the recording, the others are results; `variant` is null for results shared by all variants */
  constructor([{ scenario, variants, choice, start, lesson }, ...frames]) {
    super();
    Object.assign(this, { variants, frames, original: scenario });
    at("variants").hidden = variants.length < 2;
    at("choice").textContent = choice;
    at("variant").max = variants.length - 1;
    at("masked").hidden = !frames.some((frame) => frame.unmasked_error);
    for (const id of ["variant", "masks"]) at(id).addEventListener("input", () => this.choose(Number(at("variant").value)));
    this.round = start;
    this.setGrowing(lesson);
    this.choose(0);
  }

  /** Show another of the recorded runs, in the same round. */
  choose(number) {
    const { label, events } = this.variants[number];
    notify("");
    at("variant").value = number;
    at("variant").setAttribute("aria-valuetext", label);
    at("chosen").textContent = label;
    this.setScenario({ ...this.original, events });
    const masks = at("masks").checked;
    for (const frame of this.frames) {
      if (frame.variant !== null && frame.variant !== number) continue;
      if (frame.masks === false && masks) continue;
      this.take(masks ? frame : withoutMasks(frame));
      if (frame.type === "missing") notify(frame.message, "hint");
    }
    this.drawCurves();
    document.body.dataset.run = "done";
  }
}

/** The same frame of a run or a network without masks. */
function withoutMasks({ unmasked_error: error, ...frame }) {
  const { unmasked, hidden: _, ...arrays } = frame.arrays;
  return error ? { ...frame, error, arrays: { estimates: unmasked } } : { ...frame, arrays };
}

/** Unpack frames from a compressed text, in which each frame follows its length. */
async function read(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const { buffer } = await through(packed, new DecompressionStream("deflate"));
  const frames = [];
  for (let place = 0; place < buffer.byteLength; ) {
    const size = Number(new DataView(buffer).getBigUint64(place, true));
    frames.push(unpack(buffer.slice(place + 8, place + 8 + size)));
    place += 8 + size;
  }
  for (const frame of frames) {
    if (frame.type !== "run") continue;
    frame.arrays = { estimates: estimatesOf(frame, "estimates"), unmasked: estimatesOf(frame, "unmasked") };
  }
  return frames;
}

/** Decode estimates from differences between rounds; codes 0, 1, 2, ... mean 0, -1, 1, -2, ... steps, low bytes first. */
function estimatesOf(frame, name) {
  const [start, steps, codes] = [frame[`${name}_start`], frame.arrays[`${name}_steps`], frame.arrays[`${name}_codes`]];
  if (!codes) return null;
  const [, rounds, agents] = codes.shape;
  const size = rounds * agents;
  const estimates = new Float32Array(size);
  const shown = new Float64Array(agents).fill(start);
  for (let k = 0; k < size; k++) {
    const code = codes[k] + 256 * codes[size + k];
    const moves = code % 2 ? -(code + 1) / 2 : code / 2;
    if (code !== NONE) shown[k % agents] += moves * steps[Math.floor(k / agents)];
    estimates[k] = code === NONE ? NaN : shown[k % agents];
  }
  estimates.shape = [rounds, agents];
  return estimates;
}

startFrame();
read(at("recording").textContent.trim()).then((frames) => (window.playground = new Recording(frames)));
