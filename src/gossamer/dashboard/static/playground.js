// The playground: a scenario in the address, its results from the server, and a reader who acts on it.

import { Chart } from "./chart.js";
import { Controls, typed } from "./controls.js";
import { curvesCsv, curvesOf, showLegend, together } from "./curves.js";
import * as happen from "./events.js";
import { drawing, rasterize } from "./export.js";
import { notify, save, showState, startFrame } from "./frame.js";
import { Live, Newest } from "./live.js";
import { Stage } from "./stage.js";
import { complete, decode, encode } from "./state.js";

const at = (id) => document.getElementById(id);

class Playground {
  constructor() {
    this.scenario = complete({});
    this.round = 1;
    this.newest = new Newest((id) => this.live.send("run", { id, scenario: this.scenario }));
    this.playing = false;
    this.results = null;
    this.waitingForCode = new Map();
    this.stage = new Stage({
      onAgent: (agent) => this.act(happen.toggleAgent(this.scenario.events, agent, this.round)),
      onLink: (ends) => this.act(happen.toggleLink(this.scenario.events, sorted(ends), this.round)),
      onLasso: (agents) => this.cutOff(agents),
      onMark: (agent) => this.mark(agent),
    });
    this.stage.isCut = (ends, round) => this.isCut(ends, round);
    this.stage.isDead = (agent, round) => this.dead.has(agent) && !happen.aliveAt(this.scenario.events, agent, round);
    this.stage.breaks = (round) => this.breaks(round);
    this.chart = new Chart(at("chart"), {
      xLabel: "rounds",
      yLabel: "total error",
      onPick: (round) => this.goTo(Math.round(round)),
    });
    document.addEventListener("themechange", () => this.drawCurves());
    this.listen();
    this.live = new Live("/", {
      onFrame: (frame) => this.receive(frame),
      onState: (state) => showState(state, state === "live" ? "connected" : "disconnected, reconnecting"),
    });
  }

  // --- the scenario

  /** Take up a new scenario; `keep` leaves the round where it is. */
  set(scenario, { keep = false } = {}) {
    notify("");
    this.scenario = complete(scenario);
    this.dead = new Set(
      this.scenario.events.filter((event) => ["crash", "join"].includes(event.kind)).map((event) => event.agent),
    );
    if (!keep) this.round = 1;
    this.controls?.show(this.scenario);
    this.showAlways();
    this.showPreset();
    this.showEvents();
    this.request();
    this.remember();
  }

  change(patch) {
    this.set({ ...this.scenario, ...patch }, { keep: true });
  }

  /** Let something happen from the round that is shown on. */
  act(events) {
    if (this.results && this.round >= this.results.network.rounds && this.round > 1) {
      notify("The run ends here. Go back, or increase the number of rounds.");
      this.goTo(this.round); // the slider shows what is
    } else {
      this.retell(events);
    }
  }

  /** Let other things happen, whenever that is. */
  retell(events) {
    this.stage.marked.clear();
    this.change({ events });
  }

  request() {
    document.body.dataset.run = "busy";
    showState("busy", "computing");
    at("cancel").hidden = false;
    this.newest.ask();
  }

  async remember() {
    const view = (this.remembered = { scenario: this.scenario, at: this.round, span: this.stage.span });
    const text = await encode(view);
    if (view === this.remembered) history.replaceState(null, "", `#${text}`); // unless there is a newer one
  }

  async load(hash = location.hash) {
    try {
      const view = await decode(hash);
      this.stage.span = at("span").value = view?.span === "round" ? "round" : "run";
      this.round = Number.isInteger(view?.at) && view.at > 0 ? view.at : 1;
      this.set(view?.scenario ?? this.presets[0].scenario, { keep: true });
    } catch {
      this.set(this.presets[0].scenario);
      notify("The link is incomplete, so the playground starts over.");
    }
  }

  // --- what the server says

  receive(frame) {
    if (frame.type === "done") this.newest.ended(frame.id);
    if (frame.type === "canceled") this.newest.ended();
    if (frame.type === "hello") {
      this.begin(frame);
    } else if (frame.type === "code") {
      this.waitingForCode.get(frame.id)?.(frame);
      this.waitingForCode.delete(frame.id);
    } else if (frame.type === "full") {
      notify(frame.message);
    } else if (frame.type === "error" && this.waitingForCode.delete(frame.id)) {
      notify(frame.message);
    } else if (frame.id === this.newest.id) {
      this.take(frame);
    }
  }

  begin({ catalog, presets }) {
    this.presets = presets;
    notify("");
    this.newest.ended();
    if (this.controls) {
      this.request(); // the server is back
      return;
    }
    this.controls = new Controls(catalog, (patch) => this.change(patch));
    at("presets").replaceChildren(
      ...presets.map((preset) => {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = preset.name;
        button.addEventListener("click", () => {
          this.pause();
          this.set(preset.scenario);
        });
        return button;
      }),
    );
    this.load();
  }

  take(frame) {
    const { results } = this;
    if (frame.type === "network") {
      this.fresh = {
        network: frame,
        labels: this.scenario.methods.map(([name]) => name),
        faulty: this.scenario.events.length > 0,
        runs: [],
        exact: [],
        bounds: [],
        forks: [],
        limits: null,
        notes: [],
      };
      const same = this.results && sameNetwork(this.results.network, frame);
      this.results = this.fresh;
      if (same) this.stage.network = frame;
      else this.stage.setNetwork(frame);
      this.going = same && this.stage.labels.length === this.results.labels.length;
      this.stage.setMethods(this.results.labels, this.going);
      this.round = Math.min(this.round, frame.rounds);
      at("scrub").max = frame.rounds;
      this.showFacts(frame);
      if (!this.speedChosen) at("speed").value = [4, 12, 40, 120, 400].find((each) => each * 15 >= frame.rounds) ?? 400;
    } else if (frame.type === "run") {
      results.runs[frame.method] = frame;
      results.labels[frame.method] = frame.label;
      for (const note of frame.notes) results.notes.push([frame.label, note]);
      this.stage.labels = results.labels;
      this.stage.setRun(frame);
      this.goTo(this.round);
      if (!this.going) this.drawCurves();
    } else if (frame.type === "missing") {
      delete this.stage.runs[frame.method];
      results.labels[frame.method] = frame.label;
      this.stage.showCaptions();
      notify(frame.message);
    } else if (frame.type === "unknown") {
      if (results.runs[frame.method]) results.notes.push(["", frame.message]);
    } else if (frame.type === "exact" || frame.type === "bound") {
      (frame.type === "exact" ? results.exact : results.bounds)[frame.method] = frame;
    } else if (frame.type === "limits") {
      results.limits = frame;
      if (!this.going) this.drawCurves();
    } else if (frame.type === "fork") {
      results.forks.push(frame);
    } else if (frame.type === "error") {
      notify(frame.message);
    }
    if (frame.type === "done" || frame.type === "canceled") {
      at("cancel").hidden = true;
      showState("live", frame.type === "done" ? "connected" : "canceled");
      if (this.results) this.drawCurves();
      document.body.dataset.run = frame.type;
    }
  }

  showFacts({ agents, edges, condition_number: condition, k_star: start, changing }) {
    const words = [`${agents} agents`, changing ? "links that come and go" : `${edges} links`];
    if (condition) words.push(`condition number ${condition.toPrecision(4)}`, `k* = ${start}`);
    at("facts").textContent = words.join(", ");
  }

  drawCurves() {
    if (!this.results) return;
    const curves = curvesOf(this.results);
    showLegend(at("legend"), curves);
    this.chart.set(curves);
    at("notes").textContent = together(this.results.notes);
  }

  // --- the player

  goTo(round) {
    this.round = Math.max(1, Math.min(round, this.results?.network.rounds ?? 1));
    at("scrub").value = this.round;
    at("scrub").setAttribute("aria-valuetext", `round ${this.round}`);
    at("round").textContent = `round ${this.round}`;
    this.stage.show(this.round);
    this.chart.setAt(this.round);
    if (!this.sliding) {
      const loss = happen.lossAt(this.scenario.events, this.round);
      at("loss").value = loss;
      at("lost").textContent = `${Math.round(100 * loss)}%`;
    }
    for (const item of at("events").children) item.classList.toggle("later", Number(item.dataset.round) > this.round);
  }

  play() {
    if (this.playing || !this.results) return;
    if (this.round >= this.results.network.rounds) this.goTo(1);
    this.playing = true;
    at("play").textContent = "Pause";
    let last = performance.now();
    let owed = 0;
    const tick = (now) => {
      if (!this.playing) return;
      owed += ((now - last) / 1000) * Number(at("speed").value);
      if (now - last > 1000) owed = 0; // the page slept: go on from here
      last = now;
      if (owed >= 1) {
        this.goTo(this.round + Math.floor(owed));
        owed %= 1;
      }
      if (this.round >= this.results.network.rounds) this.pause();
      else requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  }

  pause() {
    const was = this.playing;
    this.playing = false;
    at("play").textContent = "Play";
    if (was) this.remember();
  }

  step(by) {
    this.pause();
    this.goTo(this.round + by);
    this.remember();
  }

  // --- acting

  isCut([a, b], round) {
    return this.scenario.events.some((event) => {
      if (event.kind !== "partition") return false;
      if (event.start > round || (event.stop !== null && round >= event.stop)) return false;
      const side = (agent) => (event.groups ?? []).findIndex((group) => group.includes(agent));
      if (event.groups) return side(a) !== side(b);
      return event.edges.some(([c, d]) => (c === a && d === b) || (c === b && d === a));
    });
  }

  /** Which events are in force in a round, as a text. */
  breaks(round) {
    const begun = (event) => (event.round ?? event.start) <= round && !(event.stop <= round && event.stop !== null);
    const kinds = ["crash", "restart", "join", "partition"];
    return JSON.stringify(this.scenario.events.filter((event) => kinds.includes(event.kind) && begun(event)));
  }

  cutOff(agents) {
    if (!agents.length || agents.length === this.results.network.agents) {
      notify("A partition needs agents on both sides; draw around some of them.");
      return;
    }
    this.act(happen.partition(this.scenario.events, agents, this.round));
  }

  /** Keep the curve of the run as it is now, once. */
  fork() {
    const { events, forks } = this.scenario;
    const kept = forks.filter((each) => JSON.stringify(each) !== JSON.stringify(events));
    this.change({ forks: [...kept, events].slice(-3) });
  }

  mark(agent) {
    const { marked } = this.stage;
    if (!marked.delete(agent)) marked.add(agent);
    at("partition").disabled = !marked.size;
    this.stage.show(this.round);
  }

  showAlways() {
    const bursts = this.scenario.events.find(({ kind }) => kind === "burst");
    const delay = this.scenario.events.find(({ kind }) => kind === "delay");
    at("burst-length").value = bursts?.mean_length ?? "";
    at("burst-share").value = bursts?.fraction ?? "";
    at("delay-rounds").value = delay?.rounds ?? "";
    at("delay-share").value = delay?.probability ?? "";
  }

  showPreset() {
    const text = JSON.stringify({ ...this.scenario, forks: [], events: [] });
    let sentence = "";
    [...at("presets").children].forEach((button, k) => {
      const preset = this.presets[k];
      const same = JSON.stringify({ ...complete(preset.scenario), forks: [], events: [] }) === text;
      button.setAttribute("aria-pressed", same);
      if (same) sentence = preset.sentence;
    });
    const names = this.scenario.methods.map(([name]) => name).join(" and ");
    const { network, rounds } = this.scenario;
    at("sentence").textContent = sentence || `${names} on ${network === "file" ? this.scenario.file[0] : network}, ${rounds} rounds.`;
  }

  showEvents() {
    const found = happen.described(this.scenario.events, (agent) => this.stage.name(agent));
    at("events").replaceChildren(...found.map((entry) => this.eventItem(entry)));
    if (!found.length) {
      const none = document.createElement("li");
      none.className = "facts";
      none.textContent = "No events: every message arrives.";
      at("events").append(none);
    }
    at("forget").hidden = !this.scenario.forks.length;
    at("partition").disabled = !this.stage.marked.size;
  }

  eventItem({ round, text, event, open }) {
    const item = document.createElement("li");
    item.dataset.round = round;
    item.classList.toggle("later", round > this.round);
    const when = document.createElement("button");
    when.type = "button";
    when.className = "quiet when";
    when.textContent = round;
    when.ariaLabel = `Go to round ${round}`;
    when.addEventListener("click", () => this.step(Math.max(1, round) - this.round));
    const what = document.createElement("span");
    what.className = "what";
    what.textContent = text;
    const undo = document.createElement("button");
    undo.type = "button";
    undo.className = "quiet";
    undo.textContent = open ? "mend" : "✕";
    undo.ariaLabel = open ? `Restore: ${text}` : `Undo: ${text}`;
    undo.addEventListener("click", () => {
      if (open) this.act(happen.endAt(this.scenario.events, event, this.round));
      else this.retell(this.scenario.events.filter((each) => each !== event));
    });
    item.append(when, what, undo);
    return item;
  }

  // --- what the reader does

  listen() {
    at("play").addEventListener("click", () => (this.playing ? this.pause() : this.play()));
    at("back").addEventListener("click", () => this.step(-1));
    at("forth").addEventListener("click", () => this.step(1));
    at("scrub").addEventListener("input", () => {
      this.pause();
      this.goTo(Number(at("scrub").value));
    });
    at("scrub").addEventListener("change", () => this.remember());
    at("speed").addEventListener("change", () => (this.speedChosen = true));
    at("span").addEventListener("change", () => {
      this.stage.span = at("span").value;
      this.stage.show(this.round);
      this.remember();
    });
    at("loss").addEventListener("input", () => {
      this.sliding = true;
      at("lost").textContent = `${Math.round(100 * at("loss").value)}%`;
    });
    for (const end of ["pointerup", "change"]) at("loss").addEventListener(end, () => (this.sliding = false));
    at("loss").addEventListener("change", () => {
      this.act(happen.setLoss(this.scenario.events, Number(at("loss").value), this.startOfAct()));
    });
    at("partition").addEventListener("click", () => this.cutOff([...this.stage.marked]));
    at("fork").addEventListener("click", () => this.fork());
    at("forget").addEventListener("click", () => this.change({ forks: [] }));
    at("cancel").addEventListener("click", () => {
      this.newest.drop();
      this.live.send("cancel", { id: this.newest.id });
    });
    this.listenAlways("burst-length", "burst-share", "burst", (mean_length, fraction) => ({ mean_length, fraction }), 0.17);
    this.listenAlways("delay-rounds", "delay-share", "delay", (rounds, probability) => ({ rounds, probability }), 0.1);
    at("copy-link").addEventListener("click", async () => {
      await this.remember();
      this.copy(location.href, "The address");
    });
    at("copy-python").addEventListener("click", () => this.copyCode("python"));
    at("copy-command").addEventListener("click", () => this.copyCode("command"));
    const offer = (id, make, name) =>
      at(id).addEventListener("click", async () => {
        if (this.results) save(await make(), name());
        else notify("There is no run to save yet.");
      });
    const csv = (text) => new Blob([text], { type: "text/csv" });
    offer("save-svg", () => new Blob([drawing(this)], { type: "image/svg+xml" }), () => "gossamer.svg");
    offer("save-png", () => rasterize(drawing(this)), () => "gossamer.png");
    offer("save-csv", () => csv(curvesCsv(curvesOf(this.results))), () => "gossamer-curves.csv");
    offer("save-estimates", () => csv(this.estimatesCsv()), () => `gossamer-round-${this.round}.csv`);
    // Not location.hash: by now a state that was still being encoded may be there.
    addEventListener("hashchange", (event) => this.load(new URL(event.newURL).hash));
    document.addEventListener("keydown", (event) => this.press(event));
  }

  startOfAct() {
    // The loss of the first round shown is that of the whole run: nothing has happened yet.
    return this.round === 1 ? 0 : this.round;
  }

  listenAlways(first, second, kind, make, usual) {
    const changed = () => {
      const value = typed(at(first).value);
      const values = value === null ? null : make(value, typed(at(second).value) ?? usual);
      this.retell(happen.setAlways(this.scenario.events, kind, values));
    };
    at(first).addEventListener("change", changed);
    at(second).addEventListener("change", changed);
  }

  press(event) {
    if (event.target.closest("input, select, textarea, button, summary, canvas") || event.ctrlKey || event.metaKey) return;
    const keys = { " ": () => (this.playing ? this.pause() : this.play()), ",": () => this.step(-1), ".": () => this.step(1) };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  }

  async copyCode(which) {
    const id = `code-${Math.random()}`;
    const answer = new Promise((resolve) => this.waitingForCode.set(id, resolve));
    this.live.send(which, { id, scenario: this.scenario });
    const code = await answer;
    if (code) this.copy(code.text, which === "python" ? "Python" : "The command");
  }

  async copy(text, what) {
    document.body.dataset.copied = text;
    try {
      await navigator.clipboard.writeText(text);
      notify(`${what} is in the clipboard.`, "hint");
    } catch {
      notify(text, "hint"); // no permission: at least it can be read
    }
  }

  estimatesCsv() {
    const { network, labels } = this.results;
    const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const columns = labels.map((_, k) => this.stage.estimates(k));
    const rows = Array.from({ length: network.agents }, (_, k) => {
      const numbers = columns.map((column) => (column && Number.isFinite(column[k]) ? column[k] : ""));
      return [quoted(this.stage.name(k)), network.arrays.means[k], ...numbers].join(",");
    });
    return [["agent", "mean", ...labels.map(quoted)].join(","), ...rows].join("\n") + "\n";
  }
}

function sorted([a, b]) {
  return a < b ? [a, b] : [b, a];
}

/** Whether two frames hold the same network in the same places, so that the picture can stay. */
function sameNetwork(one, other) {
  const same = (a, b) => a?.length === b?.length && (!a || a.every((value, k) => value === b[k]));
  return ["positions", "links", "means", "starts"].every((name) => same(one.arrays[name], other.arrays[name]));
}

startFrame();
window.playground = new Playground();
