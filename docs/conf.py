"""Settings of the documentation: `make docs` builds it offline, and no page loads anything from elsewhere."""

import vpunn

project = "vpunn"
author = "The vpunn developers"
copyright = author
version = release = vpunn.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_gallery.gen_gallery"]
exclude_patterns = ["_build", "gallery"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
default_role = "py:obj"
smartquotes = False

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autodoc_default_options = {"members": True}
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
toc_object_entries = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_gallery",
    "thumbnail_size": (640, 448),  # wide enough to read; gallery.css shows two or three beside each other
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "write_computation_times": False,  # that page would load scripts from elsewhere
    "show_memory": False,
    "min_reported_time": 1e9,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "plot_gallery": True,
    "abort_on_example_error": True,
}
suppress_warnings = ["config.cache", "toc.not_included"]  # a page that no list names yet is found by the search

html_theme = "pydata_sphinx_theme"
html_title = "vpunn"
html_sidebars = {"index": []}  # nothing stands beside it
html_static_path = ["_static"]
html_css_files = ["gallery.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
    "navigation_with_keys": False,
    "show_prev_next": True,
    "header_links_before_dropdown": 8,
    "logo": {"text": "vpunn"},
    "navbar_align": "left",
}


def _plain(lines: list[str]) -> list[str]:
    """A docstring's blocks as reStructuredText that cannot fail: prose with its signs escaped, formulas and lists as they stand."""
    import re

    def escape(line: str) -> str:
        pieces = re.split(r"(``.+?``|`[^`]+`)", line)
        for i in range(0, len(pieces), 2):
            pieces[i] = re.sub(r"(?<=\w)_(?!\w)|[|*\\]|(?<!\w)_(?=\w)", lambda sign: "\\" + sign.group(), pieces[i])
            pieces[i] = pieces[i].replace("`", r"\`")
        return "".join(pieces)

    out: list[str] = []
    for text in re.split(r"\n\s*\n", "\n".join(lines).strip("\n")):
        block = [line.rstrip() for line in text.split("\n")]
        if any(line.startswith(">>>") for line in block[:1]):
            out += block
        elif re.fullmatch(r"-{3,}", block[1].strip() if len(block) > 1 else ""):  # Parameters, Attributes
            out += [f"**{block[0].strip()}**", "", *("| " + escape(line) for line in block[2:])]
        elif all(line.startswith(" ") for line in block):
            out += ["::", "", *block]
        elif any(re.match(r"\s+|[-*] ", line) for line in block):
            out += ["| " + escape(line) for line in block]
        else:
            out += [escape(line) for line in block]
        out.append("")
    return out


def _clean(app, what, name, obj, options, lines):
    lines[:] = _plain(lines)


def _skip(app, what, name, obj, skip, options):
    """scikit-learn's metadata setters are the same for every estimator and documented there."""
    return True if name.startswith("set_") and name.endswith("_request") else None


def setup(app):
    app.connect("autodoc-process-docstring", _clean)
    app.connect("autodoc-skip-member", _skip)
