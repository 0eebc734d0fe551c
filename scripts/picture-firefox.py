#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""picture-firefox.py FRONT-END PROFILE OUT.png: takes a picture of a profile in the Firefox Profiler.

FRONT-END is the folder `dist` of the profiler's source (https://github.com/firefox-devtools/profiler)
after `yarn install && yarn build-prod`. This script serves it, and chromium draws it."""

import http.server
import os
import subprocess
import sys
import tempfile
import threading
import urllib.parse

front_end, profile, out = map(os.path.abspath, sys.argv[1:])
PROFILE = "/profile.json"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves the profile, the files of the front end, and its page for all other addresses."""

    def __init__(self, *rest):
        super().__init__(*rest, directory=front_end)

    def log_message(self, *_):
        """Suppresses the log."""

    def translate_path(self, path):
        """Returns the file for an address."""
        if path == PROFILE:
            return profile
        file = super().translate_path(path)
        return file if os.path.isfile(file) else f"{front_end}/index.html"


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}"
with tempfile.TemporaryDirectory() as home:
    subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}", "--hide-scrollbars",
         "--window-size=1000,560", "--virtual-time-budget=30000", f"--screenshot={out}",
         f"{address}/from-url/{urllib.parse.quote(address + PROFILE, safe='')}/flame-graph/"],
        check=True, stderr=subprocess.DEVNULL, timeout=120)
