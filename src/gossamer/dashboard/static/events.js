// What a user does to a run, as events of its scenario (see events.py). Each takes effect at the start of a round.

/** Whether an agent takes part in a round. */
export function aliveAt(events, agent, round) {
  const mine = events
    .filter((event) => ["crash", "restart", "join"].includes(event.kind) && event.agent === agent)
    .sort((a, b) => a.round - b.round);
  const past = mine.filter((event) => event.round <= round);
  if (past.length) return past.at(-1).kind !== "crash";
  return mine[0]?.kind !== "join";
}

/** Stop an agent, or bring it back; later events of that agent are dropped. */
export function toggleAgent(events, agent, round) {
  const alive = aliveAt(events, agent, round);
  const others = events.filter(
    (event) => !(["crash", "restart", "join"].includes(event.kind) && event.agent === agent && event.round >= round),
  );
  if (aliveAt(others, agent, round) !== alive) return others; // the earlier event was undone
  return [...others, { kind: alive ? "crash" : "restart", agent, round }];
}

const active = (event, round) => event.start <= round && (event.stop === null || round < event.stop);

/** End an event at a round; an event that begins in that round is removed. */
export function endAt(events, which, round) {
  return events.flatMap((event) => (event !== which ? [event] : event.start >= round ? [] : [{ ...event, stop: round }]));
}

export function cutAt(events, [a, b], round) {
  return events.find(
    (event) => event.edges && active(event, round) && event.edges.some(([c, d]) => c === a && d === b),
  );
}

/** Whether a link is cut in a round, alone or by a partition into groups. */
export function isCut(events, [a, b], round) {
  return events.some((event) => {
    if (event.kind !== "partition" || !active(event, round)) return false;
    const side = (agent) => event.groups.findIndex((group) => group.includes(agent));
    if (event.groups) return side(a) !== side(b);
    return event.edges.some(([c, d]) => (c === a && d === b) || (c === b && d === a));
  });
}

/** The events that are in force in a round, as text. */
export function breaks(events, round) {
  const begun = (event) => (event.round ?? event.start) <= round && !(event.stop <= round && event.stop !== null);
  const kinds = ["crash", "restart", "join", "partition"];
  return JSON.stringify(events.filter((event) => kinds.includes(event.kind) && begun(event)));
}

export function toggleLink(events, [a, b], round) {
  const cut = cutAt(events, [a, b], round);
  if (cut) return endAt(events, cut, round);
  const later = (event) =>
    event.edges && event.start > round && event.edges.some(([c, d]) => c === a && d === b);
  return [...events.filter((event) => !later(event)), { kind: "partition", edges: [[a, b]], start: round, stop: null }];
}

export function partition(events, agents, round) {
  return [...events, { kind: "partition", groups: [[...agents].sort((a, b) => a - b)], start: round, stop: null }];
}

export function lossAt(events, round) {
  return events.findLast((event) => event.kind === "loss" && active(event, round))?.probability ?? 0;
}

/**
 * Lose this share of messages from a round on. The position of a random fault in the list determines its random numbers,
 * so next to bursts and delays the list begins with a loss from round 0 on, possibly of 0%, and later ones follow it.
 */
export function setLoss(events, probability, round) {
  const anchored = events.some((event) => event.kind === "burst" || event.kind === "delay");
  const others = events.filter((event) => event.kind !== "loss");
  let losses = events.filter((event) => event.kind === "loss" && event.start <= round);
  if (anchored && losses[0]?.start !== 0) losses = [{ kind: "loss", probability: 0, start: 0, stop: null }, ...losses];
  losses = losses.flatMap((event, k) => {
    if (event.stop !== null && event.stop <= round) return [event];
    if (event.start < round) return [{ ...event, stop: round }];
    return anchored && k === 0 ? [{ ...event, probability }] : [];
  });
  const done = losses.some((event) => event.start === round);
  if (!done && probability > 0) losses.push({ kind: "loss", probability, start: round, stop: null });
  return [...losses, ...others];
}

/** Set bursts and delays, which hold from round 0 on; null removes them. */
export function setAlways(events, kind, values) {
  const others = events.filter((event) => event.kind !== kind);
  const made = values ? [...others, { kind, ...values }] : others;
  const anchored = made.some((event) => event.kind === "burst" || event.kind === "delay");
  const losses = made.filter((event) => event.kind === "loss");
  const rest = made.filter((event) => event.kind !== "loss");
  if (anchored && losses[0]?.start !== 0) {
    losses.unshift({ kind: "loss", probability: 0, start: 0, stop: losses[0]?.start ?? null });
  }
  return [...(anchored ? losses : losses.filter((event) => event.probability > 0)), ...rest];
}

/** List what happens, ordered by round: {round, text, event, open}. */
export function described(events, name) {
  const percent = (value) => `${Math.round(100 * value)}%`;
  const found = [];
  for (const event of events) {
    const add = (round, text, open = false) => found.push({ round, text, event, open });
    if (event.kind === "crash") add(event.round, `agent ${name(event.agent)} stops`);
    if (event.kind === "restart") add(event.round, `agent ${name(event.agent)} is back`);
    if (event.kind === "join") add(event.round, `agent ${name(event.agent)} joins`);
    if (event.kind === "burst") add(0, `bursts of ${event.mean_length} rounds, ${percent(event.fraction)} of the time`);
    if (event.kind === "delay") add(0, `${percent(event.probability)} of messages ${event.rounds} rounds late`);
    if (event.kind === "loss" && event.probability > 0) {
      add(event.start, `${percent(event.probability)} of messages lost`);
      const follows = events.some((other) => other.kind === "loss" && other.start === event.stop);
      if (event.stop !== null && !follows) add(event.stop, "all messages arrive");
    }
    if (event.kind === "partition") {
      const agents = (event.groups ?? []).flat();
      const who = event.edges
        ? `link ${event.edges.map(([a, b]) => `${name(a)}–${name(b)}`).join(", ")}`
        : `${agents.length} agent${agents.length > 1 ? "s" : ""}`;
      add(event.start, `${who} cut${event.edges ? "" : " off"}`, event.stop === null);
      if (event.stop !== null) add(event.stop, `${who} mended`);
    }
  }
  return found.sort((a, b) => a.round - b.round);
}
