"""Settings of the documentation: `sphinx-build -W docs docs/_build` makes it."""

import inspect
import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

import bayesrank

project = "bayesrank"
author = "The bayesrank authors"
copyright = author
release = bayesrank.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_click",
    "sphinx_copybutton",
]
exclude_patterns = ["_build", "images", "decisions"]
templates_path = ["_templates"]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb", ".ipynb": "myst-nb"}

# A name in single backquotes is linked where it is one of ours, and set in italics elsewhere.
default_role = "autolink"
smartquotes = False  # they would change --options and quotes in examples
autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

# Notebooks keep their outputs; the tests run them.
nb_execution_mode = "off"
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

html_theme = "sphinx_book_theme"
html_math_renderer = "mathml"
html_use_index = False  # the search box finds names
html_title = "bayesrank"
html_theme_options = {"show_toc_level": 2, "home_page_in_toc": True, "navbar_persistent": []}
html_static_path = ["_static"]
html_css_files = ["site.css"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def _skip_member(
    app: Any, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out fields of named tuples, which their class describes, and scikit-learn's setters."""
    is_field = type(member).__name__ == "_tuplegetter"
    return True if is_field or re.fullmatch(r"set_\w+_request", name) else None


def _add_references(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Put the references that a docstring cites, and its module lists, below it."""
    text = "\n".join(lines)
    cited = set(re.findall(r"\[(\d+)\]_", text)) - set(re.findall(r"\.\. \[(\d+)\]", text))
    module = inspect.getmodule(obj)
    if not cited or module is None or what == "module":
        return
    listed = re.split(r"^(?=\.\. \[)", inspect.getdoc(module) or "", flags=re.MULTILINE)[1:]
    found = [entry for entry in listed if re.match(r"\.\. \[(\d+)\]", entry)[1] in cited]
    lines += ["", "References", "----------", *"".join(found).splitlines(), ""]


def _math(writer: Any, node: nodes.Node) -> None:
    """Write a formula as MathML, which browsers show without a script or a network."""
    block = isinstance(node, nodes.math_block)
    formula = convert(node.astext(), display="block" if block else "inline")
    writer.body.append(f'<div class="formula">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Register what this file adds to Sphinx."""
    app.registry.add_html_math_renderer("mathml", (_math, None), (_math, None))
    app.connect("autodoc-skip-member", _skip_member)
    app.connect("autodoc-process-docstring", _add_references, priority=100)
