// The playground: the address holds the scenario, the server computes its results, and the user changes it.

import { Controls, typed } from "./controls.js";
import { curvesCsv, curvesOf } from "./curves.js";
import * as happen from "./events.js";
import { drawing, rasterize } from "./export.js";
import { notify, save, showState, startFrame } from "./frame.js";
import { Live, Newest } from "./live.js";
import { complete, decode, encode } from "./state.js";
import { term } from "./terms.js";
import { at, Viewer } from "./viewer.js";

class Playground extends Viewer {
  constructor() {
    super({
      onAgent: (agent) => this.act(happen.toggleAgent(this.scenario.events, agent, this.round)),
      onLink: (ends) => this.act(happen.toggleLink(this.scenario.events, sorted(ends), this.round)),
      onLasso: (agents) => this.cutOff(agents),
      onMark: (agent) => this.mark(agent),
    });
    this.newest = new Newest((id) => this.live.send("run", { id, scenario: this.scenario }));
    this.waitingForCode = new Map();
    this.listen();
    this.live = new Live("/", {
      onFrame: (frame) => this.receive(frame),
      onState: (state) => showState(state, state === "live" ? "connected" : "disconnected, reconnecting"),
    });
  }

  // --- the scenario

  /** Switch to a new scenario; `keep` stays in the current round, and `other` shows skeletons until it is computed. */
  set(scenario, { keep = false, fresh = true, other = false } = {}) {
    notify("");
    if (other) {
      this.clear();
      at("facts").replaceChildren();
    }
    this.fresh ||= fresh;
    this.setScenario(scenario);
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

  /** Add an event from the current round on. */
  act(events) {
    if (this.results && this.round >= this.results.network.rounds && this.round > 1) {
      notify("The run ends here. Go back, or increase the number of rounds.");
      this.goTo(this.round); // reset the slider to the current round
    } else {
      this.retell(events);
    }
  }

  /** Replace the events of the scenario. */
  retell(events) {
    this.stage.marked.clear();
    this.change({ events });
  }

  request() {
    document.body.dataset.run = "busy";
    if (this.live.open) showState("busy", "computing"); // otherwise it is computed after the connection is back
    at("cancel").hidden = false;
    this.newest.ask();
  }

  /** Write the view into the address; a `fresh` scenario gets an entry in the history, to which Back returns. */
  async remember(fresh = false) {
    this.fresh ||= fresh;
    const view = { scenario: this.scenario, at: this.round, span: this.stage.span };
    if (this.chart.grow) view.lesson = true;
    if (at("teacher").value) view.notes = at("teacher").value;
    this.remembered = view;
    const text = await encode(view);
    if (view !== this.remembered) return; // a newer view exists
    this.fresh &&= `#${text}` !== location.hash;
    const depth = (history.state?.depth ?? 0) + (this.fresh ? 1 : 0);
    history[this.fresh ? "pushState" : "replaceState"]({ depth }, "", `#${text}`);
    this.fresh = false;
    at("undo").disabled = !depth;
  }

  async load(hash = location.hash) {
    try {
      const view = await decode(hash);
      this.stage.span = at("span").value = view?.span === "round" ? "round" : "run";
      this.round = Number.isInteger(view?.at) && view.at > 0 ? view.at : 1;
      this.setGrowing(view ? view.lesson === true : true);
      at("teacher").value = typeof view?.notes === "string" ? view.notes.slice(0, 2000) : "";
      this.showNotes();
      const scenario = view?.scenario ?? this.presets[0].scenario;
      this.set(scenario, { keep: true, fresh: false, other: complete(scenario).network !== this.scenario.network });
    } catch {
      this.set(this.presets[0].scenario, { fresh: false });
      notify("The link is incomplete, so the playground starts over.");
    }
  }

  // --- messages from the server

  receive(frame) {
    if (frame.type === "done") this.newest.ended(frame.id);
    if (frame.type === "canceled") this.newest.ended();
    if (frame.type === "hello") {
      this.greet(frame);
    } else if (frame.type === "code" || frame.type === "page") {
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

  greet({ catalog, presets }) {
    this.presets = presets;
    notify("");
    this.newest.ended();
    this.waitingForCode.clear();
    if (this.controls) {
      this.request(); // the server is available again
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
          if (preset.lesson) this.setGrowing(true);
          this.set(preset.scenario, { other: true });
        });
        return button;
      }),
    );
    this.load();
  }

  take(frame) {
    super.take(frame);
    if (frame.type === "network") this.showFacts(frame);
    if (["run", "limits"].includes(frame.type) && !this.going) this.drawCurves();
    if (frame.type === "missing" || frame.type === "error") notify(frame.message);
    if (frame.type === "done" || frame.type === "canceled") {
      at("cancel").hidden = true;
      showState("live", frame.type === "done" ? "connected" : "canceled");
      if (this.results) this.drawCurves();
      document.body.dataset.run = frame.type;
    }
  }

  showFacts({ agents, edges, condition_number: condition, k_star: start, changing }) {
    const words = [`${agents} agents`, changing ? "links that come and go" : `${edges} link${edges > 1 ? "s" : ""}`];
    at("facts").replaceChildren(words.join(", "));
    if (condition) at("facts").append(", ", term("condition number"), ` ${condition.toPrecision(4)}, `, term("k*"), ` = ${start}`);
  }

  /** Show the teacher's notes as readers of the link see them. */
  showNotes() {
    at("said").textContent = at("teacher").value;
    at("said").hidden = !at("teacher").value;
  }

  goTo(round) {
    super.goTo(round);
    if (!this.sliding) {
      const loss = happen.lossAt(this.scenario.events, this.round);
      at("loss").value = loss;
      at("lost").textContent = `${Math.round(100 * loss)}%`;
    }
    for (const item of at("events").children) item.classList.toggle("later", Number(item.dataset.round) > this.round);
  }

  // --- actions

  cutOff(agents) {
    if (!agents.length || agents.length === this.results.network.agents) {
      notify("A partition needs agents on both sides; draw around some of them.");
      return;
    }
    this.act(happen.partition(this.scenario.events, agents, this.round));
  }

  /** Keep a copy of the run's current curve, at most one. */
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

  // --- input

  listen() {
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
    at("undo").addEventListener("click", () => history.back());
    at("teacher").addEventListener("input", () => this.showNotes());
    at("teacher").addEventListener("change", () => this.remember());
    at("copy-link").addEventListener("click", async () => {
      await this.remember();
      this.copy(location.href, "The address");
    });
    at("copy-python").addEventListener("click", () => this.copyCode("python"));
    at("copy-command").addEventListener("click", () => this.copyCode("command"));
    at("save-page").addEventListener("click", () => this.savePage());
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
    // Not location.hash: a state that was still being encoded may have replaced it by now.
    addEventListener("hashchange", (event) => this.controls && this.load(new URL(event.newURL).hash));
  }

  startOfAct() {
    // In the first round the loss applies to the whole run, because nothing has happened yet.
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

  /** Ask the server for something about the scenario other than its results; null if it does not answer. */
  async ask(which, words = {}, meanwhile = "") {
    const { open } = this.live;
    notify(open ? meanwhile : "This needs the server, which does not answer now.", open ? "hint" : "error");
    if (!open) return null;
    const id = `${which}-${Math.random()}`;
    const answer = new Promise((resolve) => this.waitingForCode.set(id, resolve));
    this.live.send(which, { id, scenario: this.scenario, ...words });
    return await answer;
  }

  /** Show the size of the page before it is saved. */
  async savePage() {
    const pressed = at("presets").querySelector("[aria-pressed=true]");
    const sentences = [at("sentence").textContent, at("teacher").value].filter(Boolean).join("\n");
    const words = { title: pressed?.textContent ?? "gossamer", words: sentences, lesson: this.chart.grow };
    const page = await this.ask("page", words, "Recording the runs: as they are, and with 10, 30 and 50% of messages lost.");
    if (!page) return;
    const { summary, arrays } = page;
    const write = () => save(new Blob([arrays.text], { type: "text/html" }), "gossamer.html");
    notify(`The page has ${summary}. It needs no server.`, "hint", ["Save it", write]);
  }

  async copyCode(which) {
    const code = await this.ask(which);
    if (code) this.copy(code.text, which === "python" ? "Python" : "The command");
  }

  async copy(text, what) {
    document.body.dataset.copied = text;
    try {
      await navigator.clipboard.writeText(text);
      notify(`${what} is in the clipboard.`, "hint");
    } catch {
      notify(text, "hint"); // without permission to copy, show the text
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

startFrame();
window.playground = new Playground();
