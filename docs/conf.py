"""Sphinx's settings for the site: `make docs`."""

import os
import sys
from pathlib import Path

from pygments.lexers import TextLexer

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "site")]
os.environ["PYTHONPATH"] = str(HERE.parent)  # for the process that runs notebooks

import docstrings  # noqa: E402
import pictures  # noqa: E402
import reference  # noqa: E402

import minixla  # noqa: E402

project = "minixla"
author = copyright = "The minixla authors"
release = version = minixla.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
root_doc = "index"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
exclude_patterns = ["site"]
html_theme = "furo"
html_title = "minixla"
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}

# Headings are named as GitHub names them, so that links work here and there.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]

# Pages of code cells are run, and one that fails ends the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_execution_in_temp = True
nb_output_stderr = "remove"
# JAX warns of a CPU's features where it reads compiled programs.
nb_merge_streams = True

autodoc_typehints = "none"
autodoc_member_order = "bysource"
default_role = "code"
napoleon_google_docstring = True
napoleon_numpy_docstring = True
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Checks", "Constraints", ("Declarations", "params_style"), "Source"]
copybutton_exclude = ".linenos, .gp, .go"
# Docstrings that are JAX's refer to JAX's own pages and papers.
suppress_warnings = ["ref.ref", "ref.footnote"]


def setup(app):
    """Writes the generated pages before Sphinx looks for pages."""
    generated = HERE / "generated"
    generated.mkdir(exist_ok=True)
    for write in (reference.write, pictures.write):
        write(generated)
    app.add_lexer("mlir", TextLexer)  # Pygments knows none of it.
    app.connect("autodoc-process-docstring", docstrings.as_restructured_text, priority=400)
