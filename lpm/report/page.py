"""A self-contained HTML page: text, tables and figures in one file, nothing fetched."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from lpm.files import write_atomic

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --line: #d4d9df; --soft: #5c6670; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --paper: #16191d; --line: #394048; --soft: #a0aab4; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem;
       margin: 2rem auto; padding: 0 1rem; }
h1 { line-height: 1.2; } p.note { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .7rem; border-bottom: 1px solid var(--line); text-align: left; }
figure { margin: 1.5rem 0; } img { max-width: 100%; background: #fff; border-radius: 4px; }
figcaption { color: var(--soft); }
"""


@dataclass
class Page:
    """A page under construction. Everything a caller passes is text and is escaped."""

    title: str
    parts: list[str] = field(default_factory=list)

    def heading(self, text: str) -> None:
        """A section heading."""
        self.parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, *paragraphs: str, note: bool = False) -> None:
        """Paragraphs; `note` sets them in a quieter colour."""
        kind = ' class="note"' if note else ""
        self.parts += [f"<p{kind}>{escape(paragraph)}</p>" for paragraph in paragraphs]

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """A table of strings."""
        head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        self.parts.append(
            f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
        )

    def figure(self, png: bytes, caption: str) -> None:
        """A picture, embedded."""
        source = base64.b64encode(png).decode()
        self.parts.append(
            f'<figure><img src="data:image/png;base64,{source}" alt="{escape(caption)}">'
            f"<figcaption>{escape(caption)}</figcaption></figure>"
        )

    def write(self, path: Path) -> None:
        """Write the file whole or not at all."""
        html = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title)}</title><style>{_STYLE}</style></head>"
            f"<body><h1>{escape(self.title)}</h1>{''.join(self.parts)}</body></html>\n"
        )
        write_atomic(path, html.encode())


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]], path: Path) -> None:
    """Write a Markdown table."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, ("---",) * len(header), *rows)]
    write_atomic(path, ("\n".join(lines) + "\n").encode())
