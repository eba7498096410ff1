"""Sphinx configuration of the genmetric pages."""

import os
import re

from sphinx_gallery.sorting import ExplicitOrder

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
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "generated/**/*.txt", "sg_execution_times.rst"]
html_static_path = ["_static"]
html_css_files = ["genmetric.css"]
# MathJax 3.2.2, one file with its fonts, so that formulas need no network.
mathjax_path = "mathjax/tex-svg.js"
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

# Inherited docstrings refer to pages of scikit-learn, which need intersphinx.
suppress_warnings = [] if os.environ.get("READTHEDOCS") else ["ref.ref", "ref.term"]

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

# Copied transcripts contain the commands only.
copybutton_prompt_text = "$ "

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_class_members_toctree = False
numpydoc_show_class_members = False

# Only files named plot_* are run. The order is that of a first walk through the package.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"[/\\]plot_",
    "within_subsection_order": ExplicitOrder(
        [
            "plot_before_after.py",
            "plot_query_neighbors.py",
            "plot_decision_regions.py",
            "plot_embeddings_to_search.py",
            "plot_interpolation.py",
            "plot_error_by_k.py",
            "plot_peers.py",
            "plot_table_to_model.py",
            "plot_embeddings.py",
            "plot_feature_weights.py",
            "plot_clusters.py",
            "plot_shrinkage.py",
            "plot_curved_classes.py",
            "plot_regional_kernels.py",
            "plot_energy_margin.py",
            "plot_local_metrics.py",
            "plot_finite_sample_error.py",
            "plot_theorem.py",
            "plot_regression_bias.py",
            "plot_isomap.py",
            "plot_faiss_isomap.py",
            "plot_row_samples.py",
            "plot_solvers.py",
            "million_vectors.py",
        ]
    ),
    "doc_module": ("genmetric",),
    "backreferences_dir": "generated/backreferences",
    "parallel": 2,
    "nested_sections": False,
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e9,  # times differ between machines
    "write_computation_times": False,
    "thumbnail_size": (400, 280),
}

html_theme = "pydata_sphinx_theme"
html_title = "genmetric"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    # Guide, gallery, results and API stay in the header; the developers' pages are under "More".
    "header_links_before_dropdown": 5,
    "github_url": "https://github.com/genmetric/genmetric",
    "navbar_end": ["theme-switcher", "navbar-icon-links"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
# Pages without a section: their left column would be empty.
html_sidebars = {page: [] for page in ("index", "getting_started", "changelog")}


def escape_underscores(*event):
    """Escape ``shape (n_iter_,)``, where reStructuredText reads the underscore as a link."""
    lines = event[-1]
    for i, line in enumerate(lines):
        if " of shape (" in line:
            lines[i] = re.sub(r"(\w)_(?=[,)])", r"\1\\_", line)


def setup(app):
    """Connect before numpydoc, which has priority 500."""
    app.connect("autodoc-process-docstring", escape_underscores, priority=400)
