// The scenario in the address: deflated JSON in URL-safe characters.

const EMPTY = {
  network: "geometric:120",
  weights: "metropolis",
  methods: [["anytime-sda", {}]],
  rounds: 300,
  seed: 0,
  means: "uniform",
  spread: 10,
  noise: "gaussian",
  std: 1,
  mask: 0,
  events: [],
  forks: [],
  file: null,
};

export function complete(scenario) {
  return structuredClone({ ...EMPTY, ...scenario });
}

/** Pass bytes through a compressing or decompressing stream. */
export async function through(bytes, stream) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

/** A view {scenario, at, span, lesson, notes} as the part of an address after #. */
export async function encode(view) {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(view)), new CompressionStream("deflate-raw"));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The view in an address, or null without one; throws if it is malformed. */
export async function decode(hash) {
  if (hash.length < 2) return null;
  const text = atob(hash.slice(1).replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw"))));
}
