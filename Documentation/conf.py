# SPDX-License-Identifier: GPL-2.0-only
"""The documentation as HTML, by Sphinx and the kernel's kernel-doc: `make doc`."""

import os
import sys

# `srctree` is the kernel's source, which has the extension; kernel-doc directives name files of the project.
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

# Don't warn of unresolved references: kernel-doc makes some to C names that have no page.
nitpicky = False
