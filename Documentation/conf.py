# SPDX-License-Identifier: GPL-2.0-only
"""The documentation as HTML, by Sphinx and the kernel's kernel-doc: `make doc`."""

import os
import sys

# `srctree` is the kernel's source; the files that directives name are in the project.
sys.path.insert(0, os.path.join(os.environ["srctree"], "Documentation/sphinx"))
kerneldoc_srctree = os.path.abspath("..")

project = "perfmon"
extensions = ["kerneldoc"]
root_doc = "index"
exclude_patterns = ["build"]
highlight_language = "none"
html_theme = "alabaster"
html_theme_options = {"fixed_sidebar": True, "page_width": "62em"}
html_show_copyright = False
html_copy_source = False

# Literals by single backquotes are the kernel-doc's; C names need no source here.
nitpicky = False
