// Technical terms on a page: each has a tooltip and opens the glossary.

const TERMS = {
  "total error": "The squared differences between the agents' answers and the true average, summed over agents.",
  "this run": "What happened this one time. Another seed gives another curve.",
  expected: "The mean over infinitely many runs, computed without running any (gs.exact).",
  "centralized limit": "The expected error of a center that holds all samples of all agents: the variance divided by the number of rounds, for equal agents.",
  "network limit": "The least expected error on this network, where news travels one link per round. One run may be below it, the mean of many cannot.",
  "Theorem 1": "An upper bound on the expected error of SDA, from the paper. It holds once half of the rounds are at least k*.",
  "Theorem 2": "An upper bound on the expected error of DSG, from the paper.",
  "Theorem 3": "An upper bound on the expected error of Anytime SDA (gs.theory.theorem_3).",
  "k*": "The burn-in that Theorem 1 requires: from then on SDA's momentum has forgotten where the agents began. It grows with the square root of the condition number.",
  "condition number": "The largest eigenvalue of the gossip matrix divided by the smallest positive one: the larger, the slower news spreads.",
  spread: "How far the agents' own means are apart: they lie between 0 and the spread.",
  deviation: "The standard deviation of the noise in a single observation.",
  fork: "The curve of an earlier version of this run, kept for comparison.",
};

/** An element for a term with its tooltip; `text` is its form in the sentence. */
export function term(name, text = name) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "term";
  button.textContent = text;
  button.title = TERMS[name];
  button.addEventListener("click", () => showTerms(name));
  return button;
}

/** Format a text whose first words may be a term. */
export function explained(text) {
  const name = Object.keys(TERMS).find((key) => text.startsWith(key));
  return name ? [term(name), text.slice(name.length)] : [text];
}

/** Turn the elements with the attribute data-term into terms. */
export function explainPage() {
  for (const place of document.querySelectorAll("[data-term]")) place.replaceWith(term(place.dataset.term, place.textContent));
}

function showTerms(name) {
  const dialog = document.getElementById("terms") ?? document.body.appendChild(listOfTerms());
  for (const entry of dialog.querySelectorAll("dt")) entry.ariaCurrent = entry.textContent === name ? "true" : null;
  dialog.showModal();
  dialog.querySelector("[aria-current]").scrollIntoView({ block: "center" });
}

function listOfTerms() {
  const dialog = Object.assign(document.createElement("dialog"), { id: "terms", className: "card" });
  const list = document.createElement("dl");
  for (const [name, words] of Object.entries(TERMS)) {
    const [key, value] = ["dt", "dd"].map((kind) => document.createElement(kind));
    key.textContent = name;
    value.textContent = words;
    list.append(key, value);
  }
  const close = Object.assign(document.createElement("button"), { type: "button", textContent: "Close" });
  close.addEventListener("click", () => dialog.close());
  dialog.setAttribute("aria-label", "Terms");
  dialog.append(list, close);
  return dialog;
}
