// An agent in another language: Node.js without packages, written from docs/protocol.md, for a mean of one component.
//
//   node second_agent.mjs FOLDER NAME VALUE EVERY DEATH FINGERPRINT        EVERY and DEATH in milliseconds
//
// FOLDER has fleet.roster and certificates/; the state is kept in FOLDER/second.json. It observes VALUE in every round,
// or nothing if that is not a number. A line of JSON on standard output says how it is, 10 times per second; a line on
// standard input makes it close all its connections.
import crypto from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import tls from "node:tls";
import { fileURLToPath } from "node:url";
import { DROPPED, ENDS, Ledger, standingOf, zeros } from "./second_ledger.mjs";

const SILENCE = 5, AHEAD = 1_000_000, TIMEOUT = 200, PATIENCE = 5000, REMIND = 2000, TIMES = 5;
const NOTHING = { round: 0, roster: "", ledger: { serial: 0, edges: {} } };

// -- bytes ------------------------------------------------------------------------------------------------------

const swapped = array => Buffer.from(array.buffer).reverse();  // typed arrays are little endian here
function pack(value) {
  if (Array.isArray(value)) return Buffer.concat([Buffer.from([0x90 + value.length]), ...value.map(pack)]);
  if (value instanceof Buffer) return Buffer.concat([Buffer.of(0xc6), swapped(Uint32Array.of(value.length)), value]);
  if (typeof value === "boolean") return Buffer.of(value ? 0xc3 : 0xc2);
  return value < 128 ? Buffer.of(value) : Buffer.concat([Buffer.of(0xcf), swapped(BigUint64Array.of(BigInt(value)))]);
}
function unpack(data) {
  let at = 1;
  const bytes = size => { at += size; return data.subarray(at - size, at); };
  const whole = size => Number(BigInt("0x" + bytes(size).toString("hex")));
  const next = type => {
    if (type < 0x80) return type;
    if (type === 0xc2 || type === 0xc3) return type === 0xc3;
    if (type >= 0xcc && type <= 0xcf) return whole(1 << (type - 0xcc));
    if (type >= 0xc4 && type <= 0xc6) return bytes(whole(1 << (type - 0xc4)));
    throw new Error("garbage");
  };
  const fields = Array.from({ length: data[0] - 0x90 }, () => next(bytes(1)[0]));
  if (at !== data.length || fields.length < 9 || fields.length > 10) throw new Error("garbage");
  return fields;
}
const floats = rows => Buffer.from(Float64Array.from(rows.flat()).buffer);
const numberAt = { 4: (data, i) => data.readFloatLE(4 * i), 8: (data, i) => data.readDoubleLE(8 * i) };
const numbers = (data, size = 8) =>
  Array.from({ length: data.length / size }, (_, i) => numberAt[size](data, i));
// The message, or null if it is not valid; one of a round too far ahead has no rows.
export function decode(header, payload, sender, round, n) {
  if (payload.length > 96 + 24 * n || !payload.subarray(0, header.length).equals(header)) return null;
  let fields;
  try { fields = unpack(payload.subarray(header.length)); } catch { return null; }
  const [from, at, serial, echo, settled, degree, epoch, bytes, extremes, closing = 0] = fields;
  const wholes = [from, at, serial, echo, degree, epoch, closing];
  if (wholes.some(v => typeof v !== "number") || typeof settled !== "boolean" || closing > 7) return null;
  if (extremes?.length !== 0 || from !== sender) return null;
  if (at > round + AHEAD || wholes.some(v => v > 2 ** 62)) return { round: at, rows: null };
  const size = bytes.length / (3 * n), all = size in numberAt ? numbers(bytes, size) : [NaN];
  const rows = [0, n, 2 * n].map(k => all.slice(k, k + n));
  if (!(all.reduce((sum, v) => sum + v * v, 0) <= 1e200)) return null;
  return { round: at, serial, echo, settled, degree, epoch, rows, closing };
}
const MAGIC = Buffer.from("gossamer roster 1\n"), SIZES = MAGIC.length + 6;
export function openRoster(data, key, fleet) {
  const whole = data.length >= SIZES && data.length <= 1_000_000 && data.subarray(0, MAGIC.length).equals(MAGIC);
  const end = whole ? SIZES + data.readUInt16BE(MAGIC.length) : 0, body = data.subarray(end);
  if (!whole || body.length !== data.readUInt32BE(MAGIC.length + 2)) throw new Error("not a whole roster");
  const signature = data.subarray(SIZES, end);
  if (!crypto.verify("sha256", Buffer.concat([MAGIC, body]), key, signature)) throw new Error("another signature");
  const roster = { left: [], reset: 0, ...JSON.parse(body) };
  if (fleet && roster.fleet !== fleet) throw new Error("another fleet");
  return roster;
}

// -- connections ------------------------------------------------------------------------------------------------

const prepare = socket =>
  socket.setNoDelay(true).setTimeout(PATIENCE, () => socket.destroy()).on("error", () => {});
const framed = payload => Buffer.concat([Buffer.from(Uint32Array.of(payload.length).buffer), payload]);
const address = endpoint => endpoint.match(/^\[?(?<host>.*?)\]?:(?<port>\d+)$/).groups;
const who = line => line.toString("utf8").split(/\s+/).slice(0, 4).join(" ");
// What arrives on a connection: a line if `first`, then messages, without their lengths.
async function* pieces(socket, first) {
  let data = Buffer.alloc(0);
  for await (const more of socket) {
    data = Buffer.concat([data, more]);
    for (let end = 0; ; first = false) {
      end = first ? data.indexOf(10) + 1 : data.length < 4 ? 0 : 4 + data.readUInt32LE(0);
      if (end > 2 ** 20 + 4 || (first && (end || data.length) > 256)) return;
      if (!end || data.length < end) break;
      yield data.subarray(first ? 0 : 4, end);
      data = data.subarray(end);
    }
  }
}

// -- the agent --------------------------------------------------------------------------------------------------

const fresh = { socket: null, wait: 50, current: null, ahead: null, still: false, newest: 0, silent: 0, quiet: 0,
  epoch: 0, remindedAt: -Infinity, dead: false };

class Agent {
  constructor(folder, name, value, every, death, fingerprint) {
    const file = (...parts) => fs.readFileSync(path.join(folder, ...parts));
    const own = kind => file("certificates", `${name}.${kind}`), ca = file("certificates", "ca.pem");
    Object.assign(this, { value, every, death: Math.max(death, SILENCE * every), n: 1 + 1 + 8, was: Date.now() });
    Object.assign(this, { peers: new Map(), parting: new Set(), wake: () => {} });
    this.files = { ca, cert: own("pem"), key: own("key"), minVersion: "TLSv1.3" };
    this.authority = new crypto.X509Certificate(ca).publicKey;
    this.header = Buffer.concat([Buffer.from("Gs\x02"), Buffer.from(fingerprint, "hex")]);
    this.store = path.join(folder, "second.json");
    const saved = fs.existsSync(this.store) ? JSON.parse(fs.readFileSync(this.store)) : NOTHING;
    const signed = [file("fleet.roster"), Buffer.from(saved.roster, "base64")].filter(data => data.length);
    const rosters = signed.map(data => ({ data, ...openRoster(data, this.authority) }));
    const newest = rosters.sort((a, b) => b.epoch - a.epoch)[0];
    Object.assign(this, { me: newest.members.find(member => member.name === name).id, round: saved.round });
    const before = new Map(Object.keys(saved.ledger.edges).map(j => [Number(j), 0]));
    const serial = Math.max(Date.now() * 1000, saved.ledger.serial + 2 ** 20);
    this.ledger = new Ledger(this.me, before, this.n, serial, saved.ledger);
    this.ledger.durable = saved.ledger.serial;
    this.read(newest);
    for (const [j, { closing }] of this.ledger.edges) {  // edges that ended while this agent was away
      const ended = !this.weights.has(j) && this.names.has(j), doubt = this.me > j;
      if (ended && (doubt || closing)) this.ledger.park(j, this.names, doubt);
    }
    this.wire();
  }

  // Rosters.
  read({ data, ...roster }) {
    Object.assign(this, { roster, signed: data });
    this.members = new Map(roster.members.map(member => [member.id, member]));
    this.names = new Map(roster.members.map(member => [member.id, member.common_name || member.name]));
    const mine = roster.edges.filter(([a, b]) => a === this.me || b === this.me);
    this.weights = new Map(mine.map(([a, b, weight = 0]) => [a === this.me ? b : a, weight]));
    const stays = roster.left.filter(({ keep, heirs }) => keep && (heirs?.includes(this.me) ?? true));
    this.kept = new Set(stays.map(({ id }) => id));
  }
  offer(data) {
    const roster = openRoster(data, this.authority, this.roster.fleet);
    if (roster.epoch <= (this.next ?? this.roster).epoch) return `epoch ${roster.epoch} is not newer`;
    this.next = { data, ...roster };
    this.wake();
    return `follows epoch ${roster.epoch}`;
  }
  follow() {
    const { next, names, ledger, peers } = this;
    if (!next) return;
    this.next = null;
    this.read(next);
    const same = j => this.names.get(j) === names.get(j);
    const gone = [...ledger.edges.keys()].filter(j => !this.weights.has(j));
    this.stopped = !this.members.has(this.me);
    for (const j of gone) if (this.stopped || !same(j)) this.tellOften(j, () => this.rosterMessage);
    if (this.stopped) return;
    this.parting = new Set(gone.filter(j => same(j) && this.roster.reset <= ledger.reset));
    for (const [j, { socket }] of peers) if (!same(j)) socket?.destroy();
    this.wire();
    for (const j of this.parting) ledger.close(j);
  }
  get rosterMessage() { return Buffer.concat([Buffer.from("Gr\x02"), this.signed]); }
  wire() {
    const { ledger, peers } = this, parting = [...this.parting].map(j => [j, 0]);
    ledger.rewire(new Map([...this.weights, ...parting]), this.kept, this.names, this.roster.reset);
    for (const [j, { socket }] of peers) if (!ledger.edges.has(j) && peers.delete(j)) socket?.destroy();
    for (const j of ledger.edges.keys()) {
      if (peers.has(j)) continue;
      peers.set(j, { ...fresh });
      if (j < this.me) this.call(j, peers.get(j));
    }
  }
  // Forget edges that ended, once both ends hold the same flow, or have lost each other.
  part() {
    const { ledger, parting } = this, doubtful = Object.keys(ledger.parked).find(j => ledger.parked[j].doubt);
    for (const j of parting) {
      const { closing } = ledger.edges.get(j), agreed = ledger.agreed(closing), doubt = !agreed && this.me > j;
      if (!agreed && !this.peers.get(j).dead) continue;
      this.tellOften(j, () => this.bytes(ledger.tell(j, 0, zeros(this.n))));
      if (agreed || doubt || closing.said || closing.theirs) ledger.park(j, this.names, doubt);
      parting.delete(j);
      this.wire();
    }
    if (doubtful && !this.asking) this.askHeld(Number(doubtful));
  }
  tellOften(j, payload) { for (let k = 0; k < TIMES; k++) this.send(j, payload()); }

  // Connections.
  greeting(who) { return `gossamer 1 ${this.roster.fleet} ${who}`; }
  async call(j, peer) {
    await this.connect(j, async socket => {
      socket.write(this.greeting(this.me) + "\n");
      const arrived = pieces(socket, true), said = who((await arrived.next()).value);
      if (said === this.greeting(j)) await this.converse(j, socket, arrived);
    });
    peer.wait = Math.min(2 * peer.wait, 1000);
    if (this.peers.get(j) === peer) setTimeout(() => this.call(j, peer), peer.wait);
  }
  async connect(j, talk) {
    if (!this.members.has(j)) return;
    const named = ({ subject }) => (subject.CN === this.names.get(j) ? undefined : new Error("another agent"));
    const checkServerIdentity = (host, cert) => tls.checkServerIdentity(host, cert) ?? named(cert);
    const place = address(this.members.get(j).endpoint);
    const socket = prepare(tls.connect({ ...this.files, ...place, checkServerIdentity }));
    try { await once(socket, "secureConnect"); await talk(socket); } catch { /* it is called again */ }
    socket.destroy();
  }
  listen() {
    const options = { ...this.files, requestCert: true, rejectUnauthorized: true, handshakeTimeout: PATIENCE };
    tls.createServer(options, socket => {
      this.accept(prepare(socket)).catch(() => {}).finally(() => socket.destroySoon());
    }).listen(address(this.members.get(this.me).endpoint));
  }
  async accept(socket) {
    const name = socket.getPeerCertificate().subject.CN, arrived = pieces(socket, true);
    const said = who((await arrived.next()).value), j = [...this.names.keys()].find(j => this.names.get(j) === name);
    if (said === this.greeting("asks")) {
      const answer = this.answer(j, name, (await arrived.next()).value);
      await new Promise(done => socket.end(framed(answer), done));
    } else if (this.peers.has(j) && j > this.me && said === this.greeting(j)) {
      socket.write(this.greeting(this.me) + "\n");
      await this.converse(j, socket, arrived);
    }
  }
  async converse(j, socket, arrived) {
    const peer = this.peers.get(j);
    peer.socket?.destroy();  // the newest connection counts
    Object.assign(peer, { socket: socket.setTimeout(0), wait: 50 });
    this.wake();
    try {
      for await (const payload of arrived) {
        if (payload.toString("latin1", 0, 2) !== "Gp") this.take(j, payload);
        else if (payload[2] === 0) { payload[2] = 1; this.send(j, payload); }
      }
    } finally {
      if (peer.socket === socket) peer.socket = null;
      this.wake();
    }
  }
  send(j, payload) {
    const { socket } = this.peers.get(j);
    if (socket && socket.writableLength < 2 ** 16) socket.write(framed(payload));
  }
  answer(j, name, question) {
    if (!question.length) return this.signed;
    if (question.toString() === "gossamer held\n") return this.held(j);
    if (j === undefined && name !== "operator") return Buffer.alloc(0);
    try { return Buffer.from(this.offer(question)); } catch (error) { return Buffer.from(`refused: ${error.message}`); }
  }
  held(j) {
    if (this.parting.has(j)) this.peers.get(j).dead = true;  // it has lost this agent, which must decide
    const { x } = this.ledger.parked[j] ?? { x: zeros(this.n) };
    return j === undefined || this.ledger.edges.has(j) ? Buffer.alloc(0) : floats([x, x]);
  }
  async askHeld(j) {
    this.asking = true;
    await this.connect(j, async socket => {
      socket.write(this.greeting("asks") + "\n");
      socket.write(framed(Buffer.from("gossamer held\n")));
      const { value } = await pieces(socket, false).next(), parked = this.ledger.parked[j];
      if (value.length !== 16 * this.n || !parked) return;
      Object.assign(parked, { doubt: false, x: numbers(value).slice(0, this.n).map(v => -v) });
    });
    setTimeout(() => { this.asking = false; }, 1000);
  }

  // Rounds.
  take(j, payload) {
    const peer = this.peers.get(j), { ledger, roster } = this;
    if (payload.toString("latin1", 0, 3) === "Gr\x02") return this.answer(j, "", Buffer.from(payload.subarray(3)));
    const m = decode(this.header, payload, j, this.round, this.n);
    if (m && !m.rows) this.far = true;
    if (!peer || !m?.rows || m.serial <= peer.newest || m.echo > ledger.serial) return;
    Object.assign(peer, { newest: m.serial, epoch: m.epoch, quiet: 0, silent: 0 });
    peer.still = Boolean(m.closing) || m.epoch < roster.reset;
    if (m.epoch >= roster.reset && (m.closing || ledger.edges.get(j).closing)) ledger.hearClosing(j, m);
    if (!peer.still && m.round >= this.round) peer[m.round === this.round ? "current" : "ahead"] = m;
    this.wake();
  }
  bytes({ serial, echo, settled, degree, rows, closing }) {
    const { me, round, roster } = this, values = [floats(rows), Buffer.alloc(0)];
    const fields = [me, round, serial, echo, settled, degree, roster.epoch, ...values, ...(closing ? [closing] : [])];
    return Buffer.concat([this.header, pack(fields)]);
  }
  pause(until) {
    return new Promise(done => {
      const timer = setTimeout(done, Math.max(until - Date.now(), 0));
      this.wake = () => { clearTimeout(timer); setImmediate(done); };
    });
  }
  async play() {
    const started = Date.now(), due = started + this.every, { ledger } = this, peers = [...this.peers];
    const observed = Number.isNaN(this.value) ? [] : [1, this.value];  // a constant, so its noise replicates are 0
    ledger.begin(zeros(this.n).map((v, i) => observed[i] ?? v), observed.length / 2);
    this.round = Math.max(this.round + (this.far ? AHEAD : 0), ...peers.map(([, { ahead }]) => ahead?.round ?? 0));
    this.far = false;
    for (const [j, peer] of peers) {
      peer.still = false;
      peer.current = [peer.current, peer.ahead].find(m => m?.round === this.round) ?? null;
      if (peer.ahead === peer.current) peer.ahead = null;
      const holding = peer.current && standingOf(peer.current) !== DROPPED ? peer.current.serial : 0;
      this.send(j, this.bytes(ledger.tell(j, holding)));
    }
    while (!this.stopped) {
      const connected = peers.filter(([, { socket }]) => socket).map(([, peer]) => peer);
      const missing = connected.filter(({ current, ahead, still }) => !current && !ahead && !still);
      const waits = missing.map(({ silent }) => TIMEOUT / 2 ** Math.min(silent, 4));
      const patience = connected.length ? Math.max(0, ...waits) : TIMEOUT;
      if (!patience || Date.now() >= Math.max(started + patience, due)) break;
      await this.pause(Math.max(started + patience, due));
    }
    this.conclude();
    // Wait until the next round is due, or a neighbor has begun it.
    const begun = () => Date.now() > due - this.every / 2 && peers.some(([, { current, ahead }]) => current || ahead);
    while (Date.now() < due && !this.stopped && !begun()) await this.pause(due);
  }
  conclude() {
    const now = Date.now(), elapsed = Math.min(now - this.was, 2 * Math.max(TIMEOUT, this.every));
    const heard = new Map(), died = [];
    this.was = now;
    for (const [j, peer] of this.peers) {
      const behind = peer.silent === 0 && peer.newest && peer.epoch < this.roster.epoch;
      if (behind && now - peer.remindedAt >= REMIND) { peer.remindedAt = now; this.send(j, this.rosterMessage); }
      if (peer.current) { heard.set(j, peer.current); Object.assign(peer, { current: null, dead: false }); continue; }
      peer.silent += 1;
      peer.quiet += elapsed;
      if (peer.quiet >= this.death && !peer.dead) { Object.assign(peer, { dead: true, newest: 0 }); died.push(j); }
    }
    this.ledger.finish(heard);
    for (const j of died) this.ledger.drop(j);
    this.round += 1;
  }
  save() {
    const state = { round: this.round, roster: this.signed.toString("base64"), ledger: this.ledger.remember() };
    fs.writeFileSync(this.store + ".new", JSON.stringify(state), { flush: true });
    fs.renameSync(this.store + ".new", this.store);
    this.ledger.durable = this.ledger.serial;
  }
  async run() {
    this.listen();
    for (let saved = 0; !this.stopped;) {
      this.follow();
      if (!this.stopped) this.part();
      await this.play();
      if (Date.now() - saved < 100) continue;
      this.save();
      console.log(JSON.stringify(this.state()));
      saved = Date.now();
    }
    for (const j of this.leaving ? this.peers.keys() : []) {
      this.ledger.close(j);
      this.tellOften(j, () => this.bytes(this.ledger.tell(j, 0, zeros(this.n))));
    }
    this.save();
    setTimeout(() => process.exit(0), 200);
  }
  state() {
    const { estimate, age, samples } = this.ledger, peers = [...this.peers.values()];
    const alive = peers.filter(({ dead, silent }) => !dead && silent <= SILENCE).length;
    return { estimate: estimate[1] / estimate[0], age, samples, alive, round: this.round, epoch: this.roster.epoch };
  }
  leave() { this.leaving = this.stopped = true; this.wake(); }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder, name, value, every, death, fingerprint] = process.argv.slice(2);
  const agent = new Agent(folder, name, Number(value), Number(every), Number(death), fingerprint);
  const disconnect = () => agent.peers.forEach(({ socket }) => socket?.destroy());
  process.on("SIGTERM", () => agent.leave());
  process.stdin.on("data", disconnect).on("end", () => process.exit(0));
  agent.run();
}
