"""The built site in a browser: nothing from another host, nothing broken, nothing too wide, no formula left as text.

`make test` builds the site before it runs the tests; without it, or without Chromium, these are skipped.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

import pytest

import gossamer as gs

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
PAGES = sorted(p.relative_to(SITE).as_posix() for p in SITE.rglob("*.html") if "_static" not in p.parts)
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1366, "height": 768}

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not PAGES, reason="the site is not built: make docs")]


class Page(HTMLParser):
    """What a page points to and loads, the places in it that can be pointed to, its words without code and formulas."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: set[str] = set()
        self.places: set[str] = set()
        self.loads: set[str] = set()  # scripts and styles
        self.words: list[str] = []
        self.inside: list[str] = []  # elements that hold no words, and those within them
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        wordless = (
            tag in ("pre", "code", "script", "style") or "math" in (dict(attrs).get("class") or "").split()
        )
        if (self.inside or wordless) and tag not in ("br", "img", "input", "link", "meta", "wbr"):
            self.inside.append(tag)
        told = dict(attrs)
        if tag == "script" and told.get("src"):
            self.loads.add(told["src"] or "")
        elif tag == "link" and told.get("rel") not in ("next", "prev", "index", "search", "canonical"):
            self.loads.add(told.get("href") or "")
        for name, value in attrs:
            if name == "id" or (tag == "a" and name == "name"):
                self.places.add(value or "")
            elif name in ("href", "src") and value and tag != "link":
                self.targets.add(value)

    def handle_endtag(self, tag: str) -> None:
        if self.inside and self.inside[-1] == tag:
            self.inside.pop()

    def handle_data(self, data: str) -> None:
        if not self.inside:
            self.words.append(data)


@functools.cache
def page(path: str) -> Page:
    return Page((SITE / path).read_text(encoding="utf-8"))


def test_all_parts_of_the_site_are_there():
    parts = (
        "index",
        "start",
        "choose",
        "tutorials/index",
        "howto",
        "explanation",
        "reference/index",
        "benchmarks",
    )
    assert {f"{part}.html" for part in (*parts, "changelog", "auto_gallery/index")} <= set(PAGES)
    assert len([p for p in PAGES if re.fullmatch(r"auto_gallery/\w+/plot_\w+\.html", p)]) >= 15
    for name in ("first-hour", "paper-hour"):
        assert any(SITE.glob(f"**/{name}.ipynb")), f"{name}.ipynb cannot be downloaded"


def test_no_link_leads_nowhere():
    broken = []
    for path in PAGES:
        for target in page(path).targets:
            if re.match(r"[a-z]+:", target):
                if not target.startswith(("https://", "http://127.", "mailto:", "data:", "#")):
                    broken.append((path, target))
                continue
            file, place = urldefrag(unquote(urljoin(path, target.partition("?")[0])))
            found = SITE / (file or path)
            found = found / "index.html" if found.is_dir() else found
            if not found.is_file() or (
                place
                and found.suffix == ".html"
                and place not in page(found.relative_to(SITE).as_posix()).places
            ):
                broken.append((path, target))
    assert broken == []


def test_no_markup_is_left_as_text():
    """Formulas that were not recognized or not set, and references in a language that the page is not written in."""
    markup = re.compile(r".{0,40}(?:\$|\\[a-z]{2}|\{\w+\}`|:\w+:`|\w\^[\w({−-]|\bsqrt\(|<-).{0,40}")
    assert [(path, found) for path in PAGES for found in markup.findall("".join(page(path).words))] == []


def test_signatures_show_no_internals():
    leaked = re.compile(r".{0,40}(?:<object|0x[0-9a-f]{6}|\*args, \*\*kwargs).{0,40}")
    assert [(path, found) for path in PAGES for found in leaked.findall("".join(page(path).words))] == []


def test_the_start_page_explains_its_words_and_names_version_install_line_and_source():
    text = (SITE / "index.html").read_text(encoding="utf-8")
    story, _, after = text[text.index("</h1>") :].partition("<iframe")
    for term in ("agent", "stream", "center"):
        before, explained, _ = story.partition(f"<em>{term}</em>")
        assert explained, term
        assert f" {term}" not in before, term
    words = " ".join(re.sub(r"<[^>]+>", "", after).split())
    assert f"This is version {gs.__version__}; from a checkout of the repository, pip install " in words
    assert "_modules/index.html" in Page(after).targets
    assert (SITE / "_modules" / "gossamer" / "methods" / "sda.html").is_file()


def test_the_index_of_public_names_has_whole_sentences():
    rows = re.findall(
        r'<tr class="row-.*?</tr>', (SITE / "reference" / "api.html").read_text(encoding="utf-8"), re.S
    )
    texts = [re.sub(r"<[^>]+>", "", row).strip() for row in rows]
    assert len(texts) > 100
    assert [text for text in texts if not re.search(r"\S\.$", text)] == []


@pytest.mark.parametrize(
    "notebook", sorted(SITE.parent.glob("jupyter_execute/**/*.ipynb")), ids=lambda p: p.stem
)
def test_cells_show_what_they_draw_and_print(notebook):
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        shown = {kind for output in cell.get("outputs", ()) for kind in output.get("data", {"text": ""})}
        if cell["cell_type"] == "code" and re.search(r"\.plot\(|\.subplots\(", source):
            assert "image/png" in shown, f"no figure: {source}"
        if cell["cell_type"] == "code" and "print(" in source:
            assert "text" in shown, f"prints nothing: {source}"


@pytest.mark.parametrize(
    "notebook", sorted(SITE.parent.glob("jupyter_execute/**/*.ipynb")), ids=lambda p: p.stem
)
def test_numbers_have_enough_digits(notebook):
    """No result is shown as 0.000 or 0.0001; an uncertainty may be."""
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", ()):
            text = "".join(output.get("text") or output.get("data", {}).get("text/plain") or "")
            assert not re.search(r"(?<![\d.])(?<!± )0\.000+\d?(?!\d)", text), text


def test_downloaded_notebooks_have_neither_roles_nor_links_to_pages():
    books = sorted(SITE.rglob("*.ipynb"))
    assert len(books) > 15
    for book in books:
        cells = json.loads(book.read_text(encoding="utf-8"))["cells"]
        words = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
        assert not re.search(r"(?:\{[\w:-]+\}|:[a-z:]+:)`|\]\((?!https:)", words), book


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(SITE)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


LOOK = """async function look() {
  for (const image of document.images) image.loading = 'eager';
  await Promise.all([...document.images].map(image => image.decode().catch(() => null)));
  if (document.querySelector('.math')) await MathJax.startup.promise;
  const boxes = [document.documentElement, ...document.querySelectorAll('.bd-article-container')];
  return {
    images: [...document.images].filter(i => !i.closest('.sd-d-none') && !i.naturalWidth).map(i => i.src),
    wide: Math.max(...boxes.map(box => box.scrollWidth - box.clientWidth)),
    errors: document.querySelectorAll('[data-mml-node=merror], mjx-merror').length,
    missing: document.querySelectorAll('.math').length - document.querySelectorAll('.math mjx-container svg').length,
    unreachable: [...document.querySelectorAll('.math')].filter(math =>
      math.scrollWidth > math.clientWidth + 1 && getComputedStyle(math).overflowX === 'hidden' ||
      math.querySelector('mjx-container')?.getBoundingClientRect().left < math.getBoundingClientRect().left - 1).length,
  };
}"""
CUT = """() => {
  const find = places => [...document.querySelectorAll(places)];
  const rows = e => {
    const style = getComputedStyle(e);
    return Math.round((e.clientHeight - 2 * parseFloat(style.paddingTop)) / parseFloat(style.lineHeight));
  };
  const cut = [
    ...find('.bd-article pre').filter(e => e.scrollWidth > e.clientWidth + 1),
    ...find('.bd-article :not(.output) > .highlight > pre')
      .filter(e => rows(e) > e.textContent.trimEnd().split('\\n').length),
    ...find('.bd-article .pst-scrollable-table-container').filter(e => e.scrollWidth > e.clientWidth + 1),
    ...find('.bd-article :not(pre) > code .pre:not(:has(wbr))').filter(e => e.getClientRects().length > 1),
  ];
  return cut.map(e => e.textContent.slice(0, 80));
}"""
"""On a desktop: code that is too wide or wrapped, tables that must be scrolled, and names that are broken in two."""
TURN = """async function turn(address) {
  const page = new DOMParser().parseFromString(await (await fetch(address)).text(), 'text/html');
  document.querySelector('link[rel~=icon]')?.remove();  // its address would follow the base
  const base = document.head.querySelector('base') || document.head.appendChild(document.createElement('base'));
  base.href = address;
  if (window.MathJax) MathJax.typesetClear();
  document.querySelector('.bd-main').replaceWith(document.importNode(page.querySelector('.bd-main'), true));
  if (document.querySelector('.math')) await MathJax.typesetPromise();
}"""


def kinds() -> list[list[str]]:
    """Pages that load the same scripts and styles: they differ in their content alone."""
    found: dict[frozenset[str], list[str]] = {}
    for path in PAGES:
        found.setdefault(frozenset(urljoin(path, url) for url in page(path).loads), []).append(path)
    return list(found.values())


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium to look at the site with")
def test_every_page_in_a_browser(address: str):
    """One page of every kind is opened, and the content of the others of that kind is put in its place."""
    sync_api = pytest.importorskip("playwright.sync_api")
    wrong, outside = [], []
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-background-networking"]
        )
        tab = browser.new_page(viewport=PHONE)
        tab.set_default_timeout(120_000)
        tab.on("request", lambda r: None if r.url.startswith((address, "data:")) else outside.append(r.url))
        tab.on("pageerror", lambda error: wrong.append((tab.url, str(error))))
        tab.on("response", lambda r: wrong.append((r.url, r.status)) if r.status >= 400 else None)
        for first, *others in kinds():
            tab.goto(f"{address}/{first}", wait_until="load")
            tab.add_style_tag(content="* { transition: none !important; }")
            seen = {first: tab.evaluate(f"({LOOK})()")}
            for path in (path for path in others if not path.startswith("_modules/gossamer/")):
                seen[path] = tab.evaluate(
                    f"async url => {{ await ({TURN})(url); return await ({LOOK})(); }}", f"{address}/{path}"
                )
                tab.set_viewport_size(DESK)
                wrong += [(path, text) for text in tab.evaluate(CUT)]
                tab.set_viewport_size(PHONE)
            for path, found in seen.items():
                bad = ("images", "errors", "unreachable")
                if any(found[name] for name in bad) or found["wide"] > 0 or found["missing"] > 0:
                    wrong.append((path, found))
        browser.close()
    assert outside == []
    assert wrong == []
