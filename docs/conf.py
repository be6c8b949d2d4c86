"""The documentation as a site: `cargo xtask site`. A link to a page, a file or a heading that is not there fails the build."""


# The pages of the Python package are made from its stubs and docstrings, so it must be installed.
project = "Kilohertz"
author = "The Kilohertz authors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["examples"]
root_doc = "README"
html_theme = "furo"
html_title = "Kilohertz"
html_show_copyright = False
html_show_sphinx = False
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block"]
# Text that Pygments cannot read is shown plainly: robot files in JSON with an ellipsis, for example.
suppress_warnings = ["misc.highlighting_failure"]
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "undoc-members": False}
