// The test vectors of docs/protocol.md as the second implementation understands them: node second_vectors.mjs FILE
import fs from "node:fs";
import { decode, openRoster } from "./second_agent.mjs";
import { Ledger } from "./second_ledger.mjs";

function replay({ me, weights, first_serial, names, steps }) {
  let ledger = new Ledger(me, new Map(weights), 1, first_serial);
  return steps.map(step => {
    if (step.park !== undefined) { ledger.close(step.park); ledger.park(step.park, new Map(names)); }
    if (step.rewire) {
      const { weights, kept, names, reset } = step.rewire;
      ledger.rewire(new Map(weights), new Set(kept), new Map(names), reset);
    }
    if (step.restart) {
      const weights = new Map([...ledger.edges].map(([j, { weight }]) => [j, weight]));
      ledger = new Ledger(me, weights, 1, step.restart, JSON.parse(JSON.stringify(ledger.remember())));
    }
    let tells = {};
    if (step.hears) {
      ledger.begin([step.observation ?? 0], step.observation === null ? 0 : 1);
      tells = Object.fromEntries([...ledger.edges.keys()].map(j => [j, ledger.tell(j)]));
      ledger.finish(new Map(Object.entries(step.hears).map(([j, m]) => [+j, { ...m, rows: m.rows.map(v => [v]) }])));
    }
    if (typeof step.dies === "number") ledger.drop(step.dies);
    const edges = Object.fromEntries([...ledger.edges].map(([j, { x, y }]) => [j, [x[0], y[0]]]));
    return { tells, edges, estimate: ledger.estimate[0], returning: ledger.returning[0], degree: ledger.degree };
  });
}

const known = JSON.parse(fs.readFileSync(process.argv[2])), bytesOf = ({ bytes }) => Buffer.from(bytes, "hex");
const header = Buffer.from("477302" + known.fingerprint.bytes, "hex"), { from, round, payloads } = known.refused;
const { authority, fleet, signed } = known.rosters, { me, neighbors, first_serial, rounds } = known.ledger;
const attempt = work => { try { return work(); } catch { return null; } };
console.log(JSON.stringify({
  ledger: replay({ me, first_serial, weights: neighbors.map(j => [j, 0]), names: [], steps: rounds }),
  histories: known.histories.map(replay),
  rosters: signed.map(data => attempt(() => openRoster(bytesOf(data), authority, fleet))),
  messages: known.messages.map(data => decode(header, bytesOf(data), data.sender, data.round, 1)),
  refused: payloads.map(data => decode(header, bytesOf(data), from, round, 1)),
}));
