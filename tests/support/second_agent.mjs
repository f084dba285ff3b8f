// An agent in another language: Node.js without packages, written from docs/protocol.md, for a mean of one component.
//
//   node second_agent.mjs FOLDER NAME VALUE EVERY DEATH FINGERPRINT        EVERY and DEATH in milliseconds
//
// FOLDER has fleet.roster and certificates/; the state is kept in FOLDER/second.json. It observes VALUE in every round,
// or nothing if that is not a number. A line of JSON on standard output says how it is, 20 times per second; a line on
// standard input makes it close all its connections.
import crypto from "node:crypto";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import tls from "node:tls";
import { fileURLToPath } from "node:url";
import { DROPPED, ENDS, Ledger, standingOf, zeros } from "./second_ledger.mjs";

const SILENCE = 5, AHEAD = 1_000_000, TIMEOUT = 200, PATIENCE = 5000, REMIND = 2000, TIMES = 5;

// -- bytes ----------------------------------------------------------------------------------------------------

const big = (type, size, write) => { const data = Buffer.alloc(1 + size, type); write(data); return data; };
function pack(value) {
  if (Array.isArray(value)) return Buffer.concat([Buffer.from([0x90 + value.length]), ...value.map(pack)]);
  if (typeof value === "boolean") return Buffer.from([value ? 0xc3 : 0xc2]);
  if (typeof value === "number" && value < 128) return Buffer.from([value]);
  if (typeof value === "number") return big(0xcf, 8, data => data.writeBigUInt64BE(BigInt(value), 1));
  return Buffer.concat([big(0xc6, 4, data => data.writeUInt32BE(value.length, 1)), value]);
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
const floats = rows => big(0, 8 * rows.flat().length - 1, data => rows.flat().forEach((v, i) => data.writeDoubleLE(v, 8 * i)));
const numberOf = (data, k, wide) => wide ? data.readDoubleLE(8 * k) : data.readFloatLE(4 * k);
const rowsOf = (data, n, wide = true) => [0, 1, 2].map(r => zeros(n).map((_, i) => numberOf(data, r * n + i, wide)));
// The message, or null if it is not valid; one of a round too far ahead has no rows.
export function decode(header, payload, sender, round, n) {
  if (payload.length > 96 + 24 * n || !payload.subarray(0, header.length).equals(header)) return null;
  let fields;
  try { fields = unpack(payload.subarray(header.length)); } catch { return null; }
  const [from, at, serial, echo, settled, degree, epoch, bytes, extremes, closing = 0] = fields;
  const wholes = [from, at, serial, echo, degree, epoch, closing], sound = typeof settled === "boolean" && closing <= 7;
  if (!sound || wholes.some(v => typeof v !== "number") || extremes?.length !== 0 || from !== sender) return null;
  if (at > round + AHEAD || wholes.some(v => v > 2 ** 62)) return { round: at, rows: null };
  const wide = bytes.length === 24 * n, rows = wide || bytes.length === 12 * n ? rowsOf(bytes, n, wide) : [NaN];
  if (!(rows.flat().reduce((sum, v) => sum + v * v, 0) <= 1e200)) return null;
  return { round: at, serial, echo, settled, degree, epoch, rows, closing };
}
const MAGIC = Buffer.from("gossamer roster 1\n");
export function openRoster(data, key, fleet) {
  const start = MAGIC.length + 6;
  if (data.length > 1_000_000 || data.length < start || !data.subarray(0, MAGIC.length).equals(MAGIC)) throw new Error("not a roster");
  const end = start + data.readUInt16BE(MAGIC.length), signature = data.subarray(start, end), body = data.subarray(end);
  if (body.length !== data.readUInt32BE(MAGIC.length + 2)) throw new Error("not a whole roster");
  if (!crypto.verify("sha256", Buffer.concat([MAGIC, body]), key, signature)) throw new Error("another signature");
  const roster = JSON.parse(body);
  if (fleet && roster.fleet !== fleet) throw new Error("another fleet");
  return { left: [], reset: 0, ...roster };
}

// -- the agent ------------------------------------------------------------------------------------------------

const prepare = socket => socket.setNoDelay(true).setTimeout(PATIENCE, () => socket.destroy()).on("error", () => {});
const framed = payload => { const head = Buffer.alloc(4); head.writeUInt32LE(payload.length); return Buffer.concat([head, payload]); };
const address = endpoint => { const [, host, port] = endpoint.match(/^\[?(.*?)\]?:(\d+)$/); return { host, port: Number(port) }; };
const who = line => line.toString("utf8").split(/\s+/).slice(0, 4).join(" ");
// What arrives on a connection: a line if `first`, then messages, without their lengths.
async function* pieces(socket, first) {
  let data = Buffer.alloc(0);
  for await (const more of socket) {
    data = Buffer.concat([data, more]);
    for (let end = 0; ; first = false) {
      end = first ? data.indexOf(10) + 1 : data.length < 4 ? 0 : 4 + data.readUInt32LE(0);
      if (end > 2 ** 20 + 4 || (first && Math.max(end, Math.min(data.length, 257 - end)) > 256)) return;
      if (!end || data.length < end) break;
      yield data.subarray(first ? 0 : 4, end);
      data = data.subarray(end);
    }
  }
}
const fresh = { current: null, ahead: null, still: false, newest: 0, silent: 0, quiet: 0, cameAt: -Infinity, remindedAt: -Infinity,
  epoch: 0, dead: false, stopped: false };

class Agent {
  constructor(folder, name, value, every, death, fingerprint) {
    const file = (...parts) => fs.readFileSync(path.join(folder, ...parts)), own = kind => file("certificates", `${name}.${kind}`);
    Object.assign(this, { value, every, death: Math.max(death, SILENCE * every), n: 1 + 1 + 8, store: path.join(folder, "second.json") });
    Object.assign(this, { peers: new Map(), sockets: new Map(), calls: new Map(), parting: new Map(), asked: new Set(), wake: () => {} });
    this.files = { ca: file("certificates", "ca.pem"), cert: own("pem"), key: own("key"), minVersion: "TLSv1.3" };
    this.authority = new crypto.X509Certificate(this.files.ca).publicKey;
    this.header = Buffer.concat([Buffer.from("Gs\x02"), Buffer.from(fingerprint, "hex")]);
    const saved = fs.existsSync(this.store) ? JSON.parse(fs.readFileSync(this.store)) : { round: 0, ledger: { serial: 0, edges: {} } };
    const signed = [file("fleet.roster"), ...(saved.roster ? [Buffer.from(saved.roster, "base64")] : [])];
    const [newest] = signed.map(data => ({ data, ...openRoster(data, this.authority) })).sort((a, b) => b.epoch - a.epoch);
    Object.assign(this, { me: newest.members.find(member => member.name === name).id, round: saved.round, was: Date.now() });
    const serial = Math.max(Date.now() * 1000, saved.ledger.serial + 2 ** 20), before = Object.keys(saved.ledger.edges);
    this.ledger = new Ledger(this.me, new Map(before.map(j => [Number(j), 0])), this.n, serial, saved.ledger);
    this.ledger.durable = saved.ledger.serial;
    this.read(newest);
    for (const [j, { closing }] of this.ledger.edges)  // edges that ended while this agent was away
      if (!this.weights.has(j) && this.names.has(j) && (this.me > j || closing)) this.ledger.park(j, this.names, this.me > j);
    this.wire();
    for (const edge of this.ledger.edges.values()) edge.begun = 0;
  }

  // Rosters.
  read({ data, ...roster }) {
    Object.assign(this, { roster, signed: data, rosterMessage: Buffer.concat([Buffer.from("Gr\x02"), data]) });
    this.members = new Map(roster.members.map(member => [member.id, member]));
    this.names = new Map(roster.members.map(member => [member.id, member.common_name || member.name]));
    const mine = roster.edges.filter(([a, b]) => a === this.me || b === this.me);
    this.weights = new Map(mine.map(([a, b, weight = 0]) => [a === this.me ? b : a, weight]));
    const stays = roster.left.filter(({ keep, heirs = [] }) => keep && (!heirs.length || heirs.includes(this.me)));
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
    const { next, names, ledger } = this, before = [...ledger.edges.keys()];
    if (!next) return;
    this.next = null;
    this.read(next);
    const stays = j => this.names.get(j) === names.get(j), gone = before.filter(j => !this.weights.has(j));
    this.tellOften(gone.filter(j => !this.members.has(this.me) || !stays(j)), () => this.rosterMessage);
    if (!this.members.has(this.me)) { this.stopped = true; return; }
    this.parting = new Map(gone.filter(j => stays(j) && this.roster.reset <= ledger.reset).map(j => [j, 0]));
    for (const [j, socket] of this.sockets) if (!stays(j)) socket.destroy();
    this.wire();
    for (const j of this.parting.keys()) ledger.close(j);
  }
  wire() {
    this.ledger.rewire(new Map([...this.weights, ...this.parting]), this.kept, this.names, this.roster.reset);
    for (const j of this.peers.keys()) if (!this.ledger.edges.has(j)) { this.peers.delete(j); this.sockets.get(j)?.destroy(); }
    for (const j of this.ledger.edges.keys()) {
      if (!this.peers.has(j)) this.peers.set(j, { ...fresh });
      if (j < this.me && !this.calls.has(j)) this.call(j);
    }
  }
  part() {
    const { ledger, parting } = this, before = parting.size;
    for (const j of parting.keys()) {
      const peer = this.peers.get(j), { closing } = ledger.edges.get(j), agreed = closing && ledger.agreed(closing);
      if (closing && !agreed && !peer.dead && !this.asked.has(j) && !(peer.stopped && !this.sockets.has(j))) continue;
      this.tellOften([j], () => this.bytes(ledger.tell(j, 0, zeros(this.n))));
      const doubt = !agreed && this.me > j;
      if (closing && (agreed || doubt || closing.said || closing.theirs)) ledger.park(j, this.names, doubt);
      parting.delete(j);
      this.asked.delete(j);
    }
    if (parting.size < before) this.wire();
    const doubtful = Object.keys(ledger.parked).find(j => ledger.parked[j].doubt);
    if (doubtful && !this.asking) this.askHeld(Number(doubtful));
  }
  tellOften(neighbors, payload) { for (const j of neighbors) for (let k = 0; k < TIMES; k++) this.send(j, payload()); }

  // Connections.
  greeting(who) { return `gossamer 1 ${this.roster.fleet} ${who}`; }
  async call(j) {
    const wait = Math.min(Math.max(2 * (this.calls.get(j) ?? 0), 100), 1000);
    this.calls.set(j, wait);
    await this.connect(j, async socket => {
      socket.write(this.greeting(this.me) + "\n");
      await this.converse(j, socket, pieces(socket, true));
    });
    if (this.ledger.edges.has(j)) setTimeout(() => this.call(j), wait);
    else this.calls.delete(j);
  }
  async connect(j, talk) {
    if (!this.members.has(j)) return;
    const other = new Error("another agent"), named = cert => (cert.subject.CN === this.names.get(j) ? undefined : other);
    const checkServerIdentity = (host, cert) => tls.checkServerIdentity(host, cert) ?? named(cert);
    const options = { ...this.files, ...address(this.members.get(j).endpoint), checkServerIdentity };
    const socket = prepare(tls.connect(options));
    try { await once(socket, "secureConnect"); await talk(socket); } catch { /* it is called again */ }
    socket.destroy();
  }
  listen() {
    const options = { ...this.files, requestCert: true, rejectUnauthorized: true, handshakeTimeout: PATIENCE };
    const server = tls.createServer(options, socket => this.accept(prepare(socket)).catch(() => {}).finally(() => socket.destroySoon()));
    server.listen(address(this.members.get(this.me).endpoint));
  }
  async accept(socket) {
    const name = socket.getPeerCertificate().subject.CN, arrived = pieces(socket, true), said = who((await arrived.next()).value);
    if (said === this.greeting("asks")) {
      const question = (await arrived.next()).value;
      return new Promise(done => socket.end(framed(this.answer(name, question)), done));
    }
    const j = [...this.peers.keys()].find(j => this.names.get(j) === name);
    if (j === undefined || j < this.me || said !== this.greeting(j)) return;
    socket.write(this.greeting(this.me) + "\n");
    await this.converse(j, socket, arrived, said);
  }
  async converse(j, socket, arrived, greeting = null) {
    if ((greeting ?? who((await arrived.next()).value)) !== this.greeting(j)) return;
    this.sockets.get(j)?.destroy();  // the newest connection counts
    this.sockets.set(j, socket.setTimeout(0));
    if (this.calls.has(j)) this.calls.set(j, 0);
    this.wake();
    try {
      for await (const payload of arrived) {
        if (payload.toString("latin1", 0, 2) !== "Gp") this.take(j, payload);
        else if (payload.length === 11 && payload[2] === 0) { payload[2] = 1; socket.write(framed(payload)); }
      }
    } finally {
      if (this.sockets.get(j) === socket) this.sockets.delete(j);
      this.wake();
    }
  }
  send(j, payload) { const socket = this.sockets.get(j); if (socket && socket.writableLength < 2 ** 16) socket.write(framed(payload)); }
  answer(name, question) {
    const j = [...this.names].find(([, known]) => known === name)?.[0];
    if (!question.length) return this.signed;
    if (question.toString() === "gossamer held\n") return this.held(j);
    if (j === undefined && name !== "operator") return Buffer.alloc(0);
    try { return Buffer.from(this.offer(question)); } catch (error) { return Buffer.from(`refused: ${error.message}`); }
  }
  held(j) {
    if (this.parting.has(j)) this.asked.add(j);
    const undecided = j === undefined || this.parting.has(j) || this.weights.has(j), { flow = zeros(this.n) } = this.ledger.parked[j] ?? {};
    return undecided ? Buffer.alloc(0) : floats([flow, flow]);
  }
  async askHeld(j) {
    this.asking = true;
    await this.connect(j, async socket => {
      socket.write(Buffer.concat([Buffer.from(this.greeting("asks") + "\n"), framed(Buffer.from("gossamer held\n"))]));
      const { value } = await pieces(socket, false).next(), parked = this.ledger.parked[j];
      if (parked && value?.length === 16 * this.n)
        Object.assign(parked, { doubt: false, flow: zeros(this.n).map((_, i) => -value.readDoubleLE(8 * i)) });
    });
    setTimeout(() => { this.asking = false; }, 1000);
  }

  // Rounds.
  take(j, payload) {
    const peer = this.peers.get(j);
    if (payload.toString("latin1", 0, 3) === "Gr\x02") return this.answer("operator", Buffer.from(payload.subarray(3)));
    const m = decode(this.header, payload, j, this.round, this.n);
    if (m && !m.rows) this.far = true;
    if (!peer || !m?.rows || m.serial <= peer.newest || m.echo > this.ledger.serial) return;
    Object.assign(peer, { newest: m.serial, epoch: m.epoch, quiet: 0, silent: 0, cameAt: Date.now() });
    Object.assign(peer, { stopped: Boolean(m.closing & ENDS), still: Boolean(m.closing) || m.epoch < this.roster.reset });
    if (m.epoch >= this.roster.reset && (m.closing || this.ledger.edges.get(j).closing)) this.ledger.hearClosing(j, m);
    if (!peer.still && m.round === this.round) peer.current = m;
    else if (!peer.still && m.round > this.round) peer.ahead = m;
    this.wake();
  }
  bytes({ serial, echo, settled, degree, rows, closing }) {
    const fields = [this.me, this.round, serial, echo, settled, degree, this.roster.epoch, floats(rows), Buffer.alloc(0)];
    return Buffer.concat([this.header, pack(closing ? [...fields, closing] : fields)]);
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
    if (this.far) { this.far = false; this.round += AHEAD; }
    this.round = Math.max(this.round, ...peers.map(([, { ahead }]) => ahead?.round ?? 0));
    for (const [j, peer] of peers) {
      peer.still = false;
      if (peer.current && peer.current.round < this.round) peer.current = null;
      if (peer.ahead?.round === this.round) { peer.current = peer.ahead; peer.ahead = null; }
      const holding = peer.current && standingOf(peer.current) !== DROPPED ? peer.current.serial : 0;
      this.send(j, this.bytes(ledger.tell(j, holding)));
    }
    while (!this.stopped) {
      const missing = peers.filter(([j, { current, ahead, still }]) => this.sockets.has(j) && !current && !ahead && !still);
      const waits = missing.map(([, { silent }]) => TIMEOUT / 2 ** Math.min(silent, 4));
      const patience = this.sockets.size ? Math.max(0, ...waits) : TIMEOUT, until = Math.max(started + patience, due);
      if (!patience || Date.now() >= until) break;
      await this.pause(until);
    }
    this.conclude();
    // Wait until the next round is due, or a neighbor has begun it.
    const begun = () => Date.now() > due - this.every / 2 && peers.some(([, { current, ahead }]) => current || ahead);
    while (Date.now() < due && !this.stopped && !begun()) await this.pause(due);
  }
  conclude() {
    const now = Date.now(), elapsed = Math.min(now - this.was, 2 * Math.max(TIMEOUT, this.every)), heard = new Map(), died = [];
    this.was = now;
    for (const [j, peer] of this.peers) {
      const behind = peer.silent === 0 && peer.newest && peer.epoch < this.roster.epoch && now - peer.remindedAt >= REMIND;
      if (behind) { peer.remindedAt = now; this.send(j, this.rosterMessage); }
      if (peer.current) { heard.set(j, peer.current); Object.assign(peer, { current: null, dead: false }); continue; }
      peer.silent += 1;
      peer.quiet += Math.min(elapsed, now - peer.cameAt);
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
    for (let saved = 0, shown = 0; !this.stopped;) {
      this.follow();
      if (!this.stopped) this.part();
      await this.play();
      if (Date.now() - saved >= 100) { this.save(); saved = Date.now(); }
      if (Date.now() - shown >= 50) { console.log(JSON.stringify(this.state())); shown = Date.now(); }
    }
    for (const j of this.leaving ? this.peers.keys() : []) {
      this.ledger.close(j);
      this.tellOften([j], () => this.bytes(this.ledger.tell(j, 0, zeros(this.n))));
    }
    this.end();
  }
  state() {
    const { estimate, age, samples } = this.ledger, alive = [...this.peers.values()].filter(peer => !peer.dead && peer.silent <= SILENCE);
    return { estimate: estimate[1] / estimate[0], age, samples, alive: alive.length, round: this.round, epoch: this.roster.epoch };
  }
  leave() { this.leaving = this.stopped = true; this.wake(); }
  end() { this.save(); setTimeout(() => process.exit(0), 200); }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [folder, name, value, every, death, fingerprint] = process.argv.slice(2);
  const agent = new Agent(folder, name, Number(value), Number(every), Number(death), fingerprint);
  process.on("SIGTERM", () => agent.leave());
  process.stdin.on("data", () => agent.sockets.forEach(socket => socket.destroy())).on("end", () => process.exit(0));
  agent.run();
}
