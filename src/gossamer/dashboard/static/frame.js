// What all pages share: the theme, links to the other pages, notices, and the state of the connection.

const THEMES = ["auto", "light", "dark"];
const dark = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

function chosen() {
  try {
    return localStorage.getItem("theme") ?? "auto";
  } catch {
    return "auto"; // storage is disabled
  }
}

/** Return whether the page that shows this one in a frame, such as a notebook, is dark; otherwise what the system prefers. */
function isDark() {
  try {
    for (let around = window.frameElement; around; around = around.parentElement) {
      const [red, green, blue, alpha = 1] = getComputedStyle(around).backgroundColor.match(/[\d.]+/g).map(Number);
      if (alpha > 0) return red + green + blue < 384;
    }
  } catch {
    // it comes from another site
  }
  return dark.matches;
}

function apply(name) {
  root.dataset.theme = name;
  root.dataset.shown = name === "auto" ? (isDark() ? "dark" : "light") : name;
  const button = document.getElementById("theme");
  button.textContent = `Theme: ${name}`;
  document.dispatchEvent(new Event("themechange"));
}

/** Set up the header. The document gets a "themechange" event when everything must be redrawn. */
export function startFrame() {
  let name = chosen();
  document.getElementById("theme").addEventListener("click", () => {
    name = THEMES[(THEMES.indexOf(name) + 1) % THEMES.length];
    try {
      localStorage.setItem("theme", name);
    } catch {
      // storage is disabled, so the choice is not kept
    }
    apply(name);
  });
  dark.addEventListener("change", () => apply(name));
  for (const around of window.frameElement ? [parent.document.documentElement, parent.document.body] : [])
    new MutationObserver(() => apply(name)).observe(around, { attributes: true }); // a notebook changes its theme there
  apply(name);
  if (document.getElementById("pages")) offerPages(); // a saved page has no others
}

const TITLES = { "/": "Playground", "/fleet": "Fleet" };

async function offerPages() {
  const paths = await (await fetch("/pages")).json();
  const nav = document.getElementById("pages");
  nav.replaceChildren(
    ...paths.map((path) => {
      const link = document.createElement("a");
      link.href = path;
      link.textContent = TITLES[path] ?? path;
      if (path === location.pathname) link.setAttribute("aria-current", "page");
      return link;
    }),
  );
  nav.hidden = paths.length < 2;
}

/**
 * Show a message, or remove it if the text is empty; `kind` is "error" or "hint".
 * `offer` is the label of a button and what it does. */
export function notify(text, kind = "error", offer = null) {
  const place = document.getElementById("notice");
  place.replaceChildren();
  place.hidden = !text;
  place.dataset.kind = kind;
  if (!text) return;
  const words = document.createElement("p");
  words.textContent = text;
  const close = document.createElement("button");
  close.type = "button";
  close.className = "quiet";
  close.textContent = "Dismiss";
  close.addEventListener("click", () => notify(""));
  place.append(words);
  if (offer) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "main";
    button.textContent = offer[0];
    button.addEventListener("click", offer[1]);
    place.append(button);
  }
  place.append(close);
}

/** Show the state of the connection, "live", "busy" or "lost", with a short text. */
export function showState(state, words) {
  const place = document.getElementById("state");
  place.dataset.state = state;
  place.textContent = words;
}

/** Offer a file for download. */
export function save(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
