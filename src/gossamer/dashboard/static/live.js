// The connection to a page's session: it reconnects automatically and decodes frames (see frames.py).

const READERS = { f4: Float32Array, f8: Float64Array, u1: Uint8Array, u2: Uint16Array, u4: Uint32Array };

/** A frame as an object: the header's entries, and its arrays under `arrays`, each with its `shape`. */
export function unpack(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  let place = Math.ceil((4 + size) / 8) * 8;
  const arrays = {};
  for (const [name, kind, shape] of header.arrays) {
    const values = new READERS[kind](buffer, place, shape.reduce((a, b) => a * b, 1));
    values.shape = shape;
    arrays[name] = values;
    place += Math.ceil(values.byteLength / 8) * 8;
  }
  return { ...header, arrays };
}

export class Live {
  /** `onFrame` gets every frame; `onState` gets "live" or "lost". A new connection begins a new session. */
  constructor(path, { onFrame, onState }) {
    this.path = path;
    this.onFrame = onFrame;
    this.onState = onState;
    this.wait = 300;
    this.connect();
  }

  connect() {
    const socket = new WebSocket(`ws://${location.host}/live${this.path}`);
    socket.binaryType = "arraybuffer";
    socket.addEventListener("open", () => {
      this.wait = 300;
      this.onState("live");
    });
    socket.addEventListener("message", (event) => this.onFrame(unpack(event.data)));
    socket.addEventListener("close", () => {
      this.onState("lost");
      setTimeout(() => this.connect(), this.wait);
      this.wait = Math.min(5000, 2 * this.wait);
    });
    this.socket = socket;
  }

  get open() {
    return this.socket.readyState === WebSocket.OPEN;
  }

  /** Send a message; one that cannot be sent now is dropped, since a new connection begins anew. */
  send(type, content = {}) {
    if (this.open) this.socket.send(JSON.stringify({ type, ...content }));
  }
}

const SOON = 60; // ms: dragging and typing cause many requests
const PATIENCE = 1000; // ms before a run is canceled: a run that ends by itself leaves a warm worker for the next one

/** Runs one computation at a time; of the requests that wait, only the newest is kept. */
export class Newest {
  /** `send(id)` asks the server for what is wanted at the time of the call. */
  constructor(send) {
    this.send = send;
    this.id = 0; // of the newest request
    this.sent = null; // of the request that the server is computing
  }

  ask() {
    this.id += 1;
    this.sendIn(Math.max(SOON, this.sent === null ? 0 : this.began + PATIENCE - performance.now()));
  }

  /** Note that the server is free again, after this request or, without an id, after any. */
  ended(id = this.sent) {
    if (id !== this.sent) return;
    this.sent = null;
    if (this.timer) this.sendIn(0);
  }

  /** Forget the request that has not been sent yet. */
  drop() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  sendIn(wait) {
    this.drop();
    this.timer = setTimeout(() => {
      this.timer = null;
      this.sent = this.id;
      this.began = performance.now();
      this.send(this.id);
    }, wait);
  }
}
