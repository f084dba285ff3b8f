"""The documentation site: `make docs` builds it into docs/_build/html, offline and with warnings as errors."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))
# Kernels and gallery scripts use the package next to this file, whatever else is installed.
sys.path.insert(0, str(HERE.parent / "src"))
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(HERE.parent / "src"), os.environ.get("PYTHONPATH")])
)
os.environ.pop("MPLBACKEND", None)  # in kernels figures appear where they are drawn; the gallery has its own
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"

# Kernels of notebooks have settings of their own: what is in a home folder does not count, and only errors are printed.
os.environ["IPYTHONDIR"] = str(HERE / "_generated" / "ipython")
profile = HERE / "_generated" / "ipython" / "profile_default"
profile.mkdir(parents=True, exist_ok=True)
(profile / "ipython_kernel_config.json").write_text('{"IPKernelApp": {"log_level": 40}}')

from gossamer import __version__  # noqa: E402

project = "gossamer"
author = "the gossamer authors"
project_copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
    "generated",  # docs/_ext: what is read off the program
]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb"}
exclude_patterns = ["_build", "_generated", "gallery", "**/*.ipynb", "**/.ipynb_checkpoints"]
templates_path = ["_templates"]
needs_sphinx = "8.0"
nitpicky = True
suppress_warnings = ["config.cache"]

# -- Markdown and notebooks --------------------------------------------------------------------------------
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_inline"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True
nb_execution_excludepatterns: list[str] = []

# -- docstrings --------------------------------------------------------------------------------------------
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
add_module_names = False
toc_object_entries_show_parents = "hide"  # the contents of a page are as wide as a name without its class

# -- gallery -----------------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": ["gallery"],
    "gallery_dirs": ["auto_gallery"],
    "filename_pattern": r"/plot_",
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("gallery_style.reset",),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "min_reported_time": 1e9,
    "write_computation_times": False,
    "abort_on_example_error": True,
    "only_warn_on_example_error": False,
    "doc_module": ("gossamer",),
    "backreferences_dir": "_generated/backreferences",
    "thumbnail_size": (480, 320),
    "plot_gallery": "True",
}

# -- mathematics: no request to another host ---------------------------------------------------------------
mathjax_path = "vendor/mathjax/tex-svg.js"
mathjax3_config = {"svg": {"fontCache": "local"}, "options": {"enableMenu": False}}

# -- the page ----------------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "gossamer"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
# Without it, the theme prints an error in the console of a first visit.
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"image_light": "_static/logo.svg", "image_dark": "_static/logo.svg", "text": "gossamer"},
    "header_links_before_dropdown": 9,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "show_prev_next": True,
    # What is drawn or written in 120 columns has the width of the window.
    "secondary_sidebar_items": {"**": ["page-toc"], "design": [], "reference/fleet-toml": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "back_to_top_button": True,
}
html_sidebars = {name: [] for name in ("index", "choose", "start", "changelog", "benchmarks", "_modules/**")}

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"
