"""Settings of Sphinx for the site: `make docs`."""

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

# Anchors of headings are those of GitHub, so that links work here and there.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "deflist"]

# Notebooks run, and an error in a cell ends the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_execution_in_temp = True
nb_output_stderr = "remove"
# JAX prints warnings about CPU features when it reads compiled programs.
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
# JAX's docstrings refer to JAX's own pages and papers.
suppress_warnings = ["ref.ref", "ref.footnote"]


def without_headings(app, name, source):
    """Leave the list of headings out beside the table of operations, which is wide."""
    if name == "operations":
        source[0] = "---\nhide-toc: true\n---\n\n" + source[0]


def setup(app):
    """Write the generated pages before Sphinx looks for pages."""
    generated = HERE / "generated"
    generated.mkdir(exist_ok=True)
    for write in (reference.write, pictures.write):
        write(generated)
    app.add_lexer("mlir", TextLexer)  # Pygments has no lexer for MLIR.
    app.connect("source-read", without_headings)
    app.connect("autodoc-process-docstring", docstrings.as_restructured_text, priority=400)
    app.connect("autodoc-process-docstring", docstrings.without_spaces, priority=600)
