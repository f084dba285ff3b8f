// The form: converts between a scenario and its fields.

import { notify } from "./frame.js";

const FILE = "uploaded file";

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function fill(select, words, value) {
  select.replaceChildren(...words.map((word) => element("option", { value: word, textContent: word })));
  select.value = value;
}

/** What the user typed: a number, null if empty, or the text itself, which the server will refuse. */
export function typed(text) {
  const trimmed = text.trim();
  if (trimmed === "") return null;
  return Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
}

/** Standard deviations of masks on the slider. */
const MASKS = [0, 1, 3, 10, 30, 100, 300, 1000];

export class Controls {
  /** `change(patch)` is called with the entries of the scenario that the user changed. */
  constructor(catalog, change) {
    this.catalog = catalog;
    this.change = change;
    this.form = document.getElementById("controls");
    this.form.addEventListener("submit", (event) => event.preventDefault());
    for (const name of ["means", "noise", "weights"]) {
      this.field(name).addEventListener("change", () => change({ [name]: this.field(name).value }));
    }
    for (const name of ["spread", "std", "rounds", "seed"]) {
      this.field(name).addEventListener("change", () => change({ [name]: typed(this.field(name).value) ?? 0 }));
    }
    this.field("mask").max = MASKS.length - 1;
    this.field("mask").addEventListener("input", () => this.showMask(MASKS[this.field("mask").value]));
    this.field("mask").addEventListener("change", () => change({ mask: MASKS[this.field("mask").value] }));
    this.field("kind").addEventListener("change", () => this.chooseKind());
    this.field("file").addEventListener("change", () => this.upload());
    this.field("file").addEventListener("click", () => (this.field("file").value = "")); // allow choosing the same file again, corrected
    this.field("add").addEventListener("click", () => this.addMethod());
  }

  field(id) {
    return document.getElementById(id);
  }

  /** Show a scenario. */
  show(scenario) {
    const focused = document.activeElement?.name;
    this.fill(scenario);
    if (focused) this.form.querySelector(`[name="${focused}"]`)?.focus(); // its field may have been replaced
  }

  fill(scenario) {
    this.scenario = scenario;
    const { catalog } = this;
    const kind = scenario.network === "file" ? FILE : scenario.network.split(":")[0];
    fill(this.field("kind"), [...Object.keys(catalog.networks), FILE], kind);
    const changing = catalog.changing.includes(kind);
    const weights = changing ? ["metropolis"] : [...catalog.weights, ...(kind === FILE ? ["file"] : [])];
    fill(this.field("weights"), weights, scenario.weights);
    this.field("weights").disabled = changing;
    fill(this.field("means"), catalog.means, scenario.means);
    fill(this.field("noise"), catalog.noise, scenario.noise);
    for (const name of ["spread", "std", "rounds", "seed"]) this.field(name).value = scenario[name];
    this.field("mask").value = MASKS.findLastIndex((mask) => mask <= scenario.mask);
    this.field("mask").disabled = changing; // masks need links that persist
    this.showMask(scenario.mask);
    this.showSizes(kind, scenario.network);
    this.field("upload").hidden = kind !== FILE;
    this.showMethods(scenario.methods);
  }

  showMask(mask) {
    this.field("mask-size").value = mask || "none";
  }

  // --- the network

  showSizes(kind, text) {
    const known = this.catalog.networks[kind] ?? {};
    const [first, ...others] = text.slice(text.indexOf(":") + 1).split(",");
    const changing = this.catalog.changing.includes(kind);
    const given = Object.fromEntries(others.map((part) => part.split("=")));
    const positional = changing ? [first] : first.split("x");
    this.sizes = Object.keys(known).map((name, k) => {
      const value = (k < positional.length ? positional[k] : given[name]) ?? known[name] ?? "";
      const input = element("input", { value, placeholder: "auto", name: `size-${name}` });
      input.addEventListener("change", () => this.resize(kind));
      return [name, input];
    });
    this.field("sizes").replaceChildren(
      ...this.sizes.map(([name, input]) => element("label", {}, name.replaceAll("_", " "), input)),
    );
  }

  /** The name of the network that the fields describe. */
  resize(kind) {
    const values = this.sizes.map(([name, input]) => [name, input.value.trim()]).filter(([, value]) => value !== "");
    const changing = this.catalog.changing.includes(kind);
    const typo = changing ? undefined : values.find(([, value]) => !Number.isFinite(Number(value)));
    if (typo) {
      notify(`${typo[0]} must be a number, got '${typo[1]}'`); // the network's name would not show which field it was
      return;
    }
    const rest = changing
      ? values.map(([name, value], k) => (k ? `${name}=${value}` : value)).join(",")
      : values.map(([, value]) => value).join("x");
    this.change({ network: `${kind}:${rest}`, events: [], forks: [] });
  }

  chooseKind() {
    const kind = this.field("kind").value;
    if (kind === FILE) {
      this.field("upload").hidden = false;
      this.field("sizes").replaceChildren();
      this.field("file").focus();
      return;
    }
    const sizes = Object.entries(this.catalog.networks[kind]).filter(([, value]) => value !== null);
    const changing = this.catalog.changing.includes(kind);
    const rest = changing
      ? sizes.map(([name, value], k) => (k ? `${name}=${value}` : value)).join(",")
      : sizes.map(([, value]) => value).join("x");
    const patch = { network: `${kind}:${rest}`, file: null, events: [], forks: [] };
    this.change(changing || this.scenario.weights === "file" ? { ...patch, weights: "metropolis" } : patch);
  }

  async upload() {
    const [file] = this.field("file").files;
    if (!file) return;
    const bytes = new Uint8Array(await file.slice(0, 2 * this.catalog.limits.file).arrayBuffer());
    let text = "";
    for (const byte of bytes) text += String.fromCharCode(byte);
    this.change({ network: "file", file: [file.name, btoa(text)], events: [], forks: [] });
  }

  // --- methods

  showMethods(methods) {
    this.field("methods").replaceChildren(...methods.map((words, number) => this.methodFields(words, number)));
    this.field("add").disabled = methods.length >= this.catalog.limits.methods;
  }

  methodFields([name, values], number) {
    const open = this.field("methods").children[number]?.querySelector("details")?.open ?? false;
    const select = element("select", { ariaLabel: `Method ${number + 1}`, name: `method-${number}` });
    fill(select, Object.keys(this.catalog.methods), name);
    select.addEventListener("change", () => this.replaceMethod(number, [select.value, {}]));
    const remove = element("button", { type: "button", className: "quiet", textContent: "✕" });
    remove.ariaLabel = `Remove method ${number + 1}`;
    remove.disabled = this.scenario.methods.length === 1;
    remove.addEventListener("click", () =>
      this.change({ methods: this.scenario.methods.filter((_, k) => k !== number) }),
    );
    const inputs = this.catalog.methods[name].map((parameter) => this.parameter(parameter, values, number, name));
    const details = element("details", { open }, element("summary", { textContent: "Parameters" }));
    details.append(element("div", { className: "pair" }, ...inputs));
    const box = element("div", { className: "method" }, element("div", { className: "title" }, select, remove));
    if (inputs.length) box.append(details);
    box.dataset.number = number;
    return box;
  }

  parameter({ name, value, choices }, values, number, method) {
    const now = values[name] ?? value;
    const input = choices ? element("select") : element("input", { value: now ?? "", placeholder: "auto" });
    if (choices) fill(input, choices, now);
    input.name = `parameter-${number}-${name}`;
    input.addEventListener("change", () => {
      const next = { ...values };
      const chosen = typed(input.value);
      if (chosen === null || chosen === value) delete next[name];
      else next[name] = chosen;
      this.replaceMethod(number, [method, next]);
    });
    return element("label", {}, name.replaceAll("_", " "), input);
  }

  replaceMethod(number, words) {
    this.change({ methods: this.scenario.methods.map((old, k) => (k === number ? words : old)) });
  }

  addMethod() {
    const used = new Set(this.scenario.methods.map(([name]) => name));
    const name = Object.keys(this.catalog.methods).find((each) => !used.has(each)) ?? "sda";
    this.change({ methods: [...this.scenario.methods, [name, {}]] });
  }
}
