#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
"""pictures.py FOLDER: draws terminal screens. FOLDER/list has a line NAME ROWS COLUMNS for each
screen, FOLDER/NAME has the output to a terminal of this size. Writes the picture to
FOLDER/NAME.svg, without the empty rows at the end."""

import sys
from html import escape
from itertools import groupby

import pyte

# Size of a character in pixels. Fonts differ, so each text has an explicit width.
WIDTH, HEIGHT, SIZE = 8.4, 18, 14
BASELINE = 13.5
MARGIN = 10
INK, PAPER = "#d8dee9", "#1c2128"
COLORS = {
    "default": None, "black": "#3b4252", "red": "#ff7b72", "green": "#7ee787", "brown": "#e3b341",
    "blue": "#79b8ff", "magenta": "#d2a8ff", "cyan": "#56d4dd", "white": "#d8dee9",
    "brightblack": "#8b949e",
}


# The names of the first 8 of 256 colours, which pyte reports as RGB values.
COLOR_NAMES = {
    "cd0000": "red", "00cd00": "green", "cdcd00": "brown", "0000ee": "blue", "cd00cd": "magenta", "00cdcd": "cyan",
}


def color(name):
    """Returns the colour to draw a terminal's colour in; None for the default."""
    name = COLOR_NAMES.get(name, name)
    return COLORS[name] if name in COLORS else "#" + name


def style_of(cell):
    """Returns the style of a character: ink, paper, bold, underlined."""
    ink, paper = color(cell.fg), color(cell.bg)
    if cell.reverse:
        ink, paper = paper or PAPER, ink or INK
    return ink, paper, cell.bold, cell.underscore


def row_elements(line, columns, top):
    """Yields the elements of a line."""
    at = 0
    for (ink, paper, bold, underlined), cells in groupby((line[x] for x in range(columns)), style_of):
        text = "".join(cell.data for cell in cells)
        left, width = MARGIN + at * WIDTH, len(text) * WIDTH
        at += len(text)
        if paper:
            yield f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{HEIGHT}" fill="{paper}"/>'
        if underlined:
            yield (f'<path d="M{left:.1f} {top + HEIGHT - 2.5}h{width:.1f}" stroke="{ink or INK}"/>')
        # textLength does not count blanks at the ends.
        left += (len(text) - len(text.lstrip())) * WIDTH
        text = text.strip()
        if not text:
            continue
        style = (f' fill="{ink}"' if ink else "") + (' font-weight="bold"' if bold else "")
        yield (f'<text x="{left:.1f}" y="{top + BASELINE}" textLength="{len(text) * WIDTH:.1f}"{style}>'
               f"{escape(text, quote=False)}</text>")


def picture(rows, columns, output):
    """Returns the picture of a screen after this output."""
    screen = pyte.Screen(columns, rows)
    pyte.ByteStream(screen).feed(output)
    while rows > 1 and not screen.display[rows - 1].strip():
        rows -= 1
    width, height = columns * WIDTH + 2 * MARGIN, rows * HEIGHT + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" height="{height}"'
        f' font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{SIZE}" fill="{INK}" xml:space="preserve">',
        "<!-- SPDX-" "License-Identifier: GPL-2.0-only -->",
        "<!-- Made by scripts/pictures. -->",
        f'<rect width="100%" height="100%" rx="6" fill="{PAPER}"/>',
    ]
    for y in range(rows):
        lines.extend(row_elements(screen.buffer[y], columns, MARGIN + y * HEIGHT))
    return "\n".join(lines + ["</svg>", ""])


def main():
    """Draws all screens of the list."""
    folder = sys.argv[1]
    with open(f"{folder}/list", encoding="utf-8") as file:
        screens = [line.split() for line in file]
    for name, rows, columns in screens:
        with open(f"{folder}/{name}", "rb") as output, open(f"{folder}/{name}.svg", "w", encoding="utf-8") as svg:
            svg.write(picture(int(rows), int(columns), output.read()))


if __name__ == "__main__":
    main()
