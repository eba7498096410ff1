"""Sphinx configuration of the genmetric pages."""

import os

import genmetric

project = "genmetric"
author = "the genmetric developers"
copyright = "2026, the genmetric developers"
release = version = genmetric.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build", "generated/**/*.txt"]
templates_path = ["_templates"]

# Links to other projects need the network, and a build without it must pass too.
if os.environ.get("READTHEDOCS"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }

# Inherited docstrings refer to scikit-learn's own pages, which only intersphinx knows.
suppress_warnings = [] if os.environ.get("READTHEDOCS") else ["ref.ref"]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False

html_theme = "pydata_sphinx_theme"
html_title = "genmetric"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}
html_sidebars = {"index": []}
