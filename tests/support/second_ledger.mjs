// The ledger of docs/protocol.md, for `second_agent.mjs`: no clock, no connections. Vectors are arrays of n numbers.
const SILENCE = 5, FIRST = 20, QUIET = 100, RETURN_RATE = 0.98;
export const ENDS = 1, HOLDS = 2, STILL = 4, NEW = 0, COMPARED = 1, DROPPED = 2;
export const zeros = n => new Array(n).fill(0);
const plus = (a, b, c = 1) => a.map((v, i) => v + c * b[i]);
const opposite = (a, b) => a.every((v, i) => v === -b[i]);
export const standingOf = m => (!m.settled ? NEW : m.echo ? COMPARED : DROPPED);

const STORED = ["age", "serial", "samples", "reset", "mean", "smooth", "returning", "kept", "parked"];

export class Ledger {
  constructor(me, weights, n, serial, saved = {}) {
    Object.assign(this, { age: 0, samples: 0, reset: 0, mean: zeros(n), smooth: zeros(n), returning: zeros(n) });
    Object.assign(this, { kept: zeros(n), parked: {}, ...saved, me, n, serial, born: serial, durable: 0 });
    const edges = saved.edges ?? {};
    this.edges = new Map([...weights].map(([j, weight]) => [j, this.edge(weight, 0, ...(edges[j] ?? []))]));
    for (const j of saved.closed ?? []) if (this.edges.has(j)) this.freeze(j, { theirs: true, matched: true });
  }
  edge(weight, begun, x = zeros(this.n), y = zeros(this.n)) {
    const facts = { used: 0, heard: this.age - 1, careful: 0, standing: NEW, echoed: false, up: true };
    return { x, y, weight, begun, since: this.born, ...facts, closing: null };
  }
  get degree() { return [...this.edges.values()].filter(edge => edge.up).length; }
  get estimate() {
    const flows = [...this.edges.values(), ...Object.values(this.parked)].map(({ x }) => x);
    return [this.returning, this.kept, ...flows].reduce((sum, flow) => plus(sum, flow), this.smooth);
  }
  begin(mean, count) {
    this.samples += count;
    if (count) this.mean = plus(this.mean, plus(mean, this.mean, -1), count / this.samples);
    const t = this.age + 1, a = Math.min(1, Math.max(1 / t, 1 / (2 * Math.sqrt(Math.min(t, 4096)))));
    this.smooth = plus(this.smooth, plus(this.mean, this.smooth, -1), a);
    this.message = this.estimate;
    this.sent = this.degree;
  }
  tell(j, holding = 0, message = this.message) {
    const { x, y, standing, used, closing } = this.edges.get(j), { serial, degree } = this;
    const echo = standing === DROPPED ? 0 : holding || used, rows = [message, x, y];
    return { serial, echo, settled: standing !== NEW, degree, rows, closing: closing ? this.flags(closing) : 0 };
  }
  finish(heard) {
    for (const [j, m] of [...heard].sort((a, b) => a[0] - b[0])) {
      const edge = this.edges.get(j), theirs = standingOf(m), unheard = this.serial - (m.echo || edge.since);
      if (edge.closing) { edge.used = m.serial; continue; }
      const bothNew = edge.standing === NEW && theirs === NEW && this.serial - edge.since > SILENCE;
      const begins = edge.standing === DROPPED || theirs === DROPPED || bothNew;
      if (begins) edge.begun = this.age;
      const missed = edge.used > 0 && edge.used < m.serial - 1;
      if (begins || missed || unheard > 1 || edge.heard < this.age - 1) edge.careful = this.age + QUIET;
      if (m.echo >= edge.since) edge.echoed = true;
      if (m.echo >= edge.since && edge.standing === DROPPED) edge.standing = COMPARED;
      const mine = edge.standing, alone = mine !== DROPPED && !edge.echoed && unheard > SILENCE;
      if (theirs === DROPPED) this.giveBack(edge);
      else if (alone || theirs > mine || (theirs === mine && j < this.me)) this.adopt(edge, m);
      if (mine !== DROPPED && theirs !== DROPPED && unheard >= 0 && unheard <= SILENCE) {
        const w = edge.weight || 1 / (1 + Math.max(this.sent, m.degree)), t = this.age - edge.begun;
        const careful = t < FIRST || this.age < edge.careful, [step, limit] = careful ? [0.65, 0.97] : [0.95, 0.96];
        const moved = plus(edge.x, plus(this.message, m.rows[0], -1), -step * w);
        const later = plus(moved, plus(moved, edge.y, -1), Math.min(t / (t + 8), limit));
        Object.assign(edge, { x: later, y: careful ? moved : edge.x });
      }
      const standing = mine === DROPPED && theirs !== DROPPED ? DROPPED : COMPARED;
      Object.assign(edge, { standing, up: true, used: m.serial, heard: this.age });
    }
    for (const edge of this.edges.values()) if (edge.closing?.over) Object.assign(edge, { closing: null, up: true });
    this.returning = this.returning.map(v => RETURN_RATE * v);
    this.serial += 1;
    this.age += 1;
  }
  adopt(edge, { rows }) { [, edge.x, edge.y] = rows.map(row => row.map(v => -v)); }
  giveBack(edge) { this.returning = plus(this.returning, edge.x); edge.x = edge.y = zeros(this.n); }
  drop(j) {
    const edge = this.edges.get(j), dropped = { standing: DROPPED, echoed: false, up: false, used: 0 };
    if (edge.closing) return;
    this.giveBack(edge);
    Object.assign(edge, dropped, { since: this.serial });
  }
  // Edges that end.
  freeze(j, facts = {}) {
    const edge = this.edges.get(j), closing = { own: false, theirs: false, matched: false, confirmed: false };
    Object.assign(edge, { y: edge.x, up: false });
    edge.closing = { ...closing, said: false, over: false, since: this.serial, ...facts };
  }
  close(j) {
    if (!this.edges.get(j).closing) this.freeze(j);
    this.edges.get(j).closing.own = true;
  }
  flags(closing) {
    const holds = closing.matched && this.durable > closing.since;
    closing.said ||= holds;
    return STILL | (closing.own ? ENDS : 0) | (holds ? HOLDS : 0);
  }
  hearClosing(j, m) {
    const edge = this.edges.get(j), ends = Boolean(m.closing & ENDS);
    if (!edge.closing && !ends) return;
    if (!edge.closing) this.freeze(j);
    const closing = edge.closing;
    Object.assign(closing, { theirs: ends, over: !closing.own && !ends });
    if (closing.over) return;
    closing.matched = Boolean(m.closing) && opposite(edge.x, m.rows[1]) && opposite(edge.y, m.rows[2]);
    if (m.closing && !closing.matched && ends && (!closing.own || j < this.me)) {
      this.adopt(edge, m);
      Object.assign(closing, { since: this.serial, matched: true });
    }
    closing.confirmed = closing.matched && Boolean(m.closing & HOLDS);
  }
  agreed({ own, matched, confirmed, since }) { return own && matched && confirmed && this.durable > since; }
  park(j, names, doubt = false) {
    this.parked[j] = { x: this.edges.get(j).x, mine: names.get(this.me), theirs: names.get(j), doubt };
  }
  // Another roster: `weights` of the edges from now on, `kept` former members, `names` of all members.
  rewire(weights, kept, names, reset = 0) {
    const anew = reset > this.reset, { edges, parked } = this;
    if (anew) Object.assign(this, { reset, returning: zeros(this.n), kept: zeros(this.n), parked: {} });
    for (const [j, edge] of edges) {
      if (anew) edges.set(j, { ...this.edge(edge.weight, this.age), since: this.serial });
      else if (!weights.has(j) && kept.has(j)) this.kept = plus(this.kept, edge.x);
      else if (!weights.has(j) && !(j in parked)) this.giveBack(edge);
      if (!weights.has(j)) edges.delete(j);
    }
    for (const [id, { x, mine, theirs }] of Object.entries(this.parked)) {
      const j = Number(id), stays = mine === names.get(this.me) && theirs === names.get(j);
      if (stays && !weights.has(j) && !kept.has(j)) continue;
      if (kept.has(j)) this.kept = plus(this.kept, x);
      else if (stays && !edges.has(j)) edges.set(j, this.edge(0, this.age, x, x));
      delete this.parked[id];
    }
    const all = [...weights].map(([j, weight]) => [j, { ...(edges.get(j) ?? this.edge(0, this.age)), weight }]);
    this.edges = new Map(all.sort((a, b) => a[0] - b[0]));
  }
  remember() {
    const all = [...this.edges], closed = all.filter(([, { closing }]) => closing?.matched && closing.theirs);
    const edges = Object.fromEntries(all.map(([j, { x, y }]) => [j, [x, y]]));
    const stored = Object.fromEntries(STORED.map(key => [key, this[key]]));
    return { ...stored, edges, closed: closed.map(([j]) => j) };
  }
}
