"""Changes of MkDocs for this repository.

- The navigation has the four parts of docs, the examples and the decisions. Pages have the same order as in docs/README.md.
- Links to files outside of docs lead to the repository.
- Headings get the same anchors as on code hosts. docs/check tests these.
- Lists are parsed as on code hosts: they may directly follow a line of text, and be indented by two spaces.
"""

import os
import posixpath
import re

from mkdocs.plugins import event_priority
from mkdocs.structure.files import File

REPOSITORY = "https://github.com/daybookq/daybook"
SCRIPTS = os.path.join(os.path.dirname(__file__), "../../bin/site-tools/scripts")
PARTS = [("Tutorials", "tutorials/"), ("How to", "how-to/"), ("Reference", "reference/"), ("Explanation", "explanation/")]


def slugify(text, separator):
    """The anchor of a heading on code hosts."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


@event_priority(-100)
def on_config(config):
    config.mdx_configs["toc"] = {"slugify": slugify, "permalink": True}
    docs = config.docs_dir
    pages = sorted(posixpath.relpath(posixpath.join(folder, name), docs)
                   for folder, _, names in os.walk(docs) for name in names if name.endswith(".md"))
    with open(posixpath.join(docs, "README.md"), encoding="utf-8") as f:
        named = re.findall(r"\]\(([^)#]+\.md)", f.read())
    pages.sort(key=lambda page: named.index(page) if page in named else len(named))
    config.nav = [{"Start": "README.md"}]
    for title, folder in PARTS:
        of_part = [page for page in pages if page.startswith(folder) and not page.startswith("reference/cli/")]
        if folder == "reference/":
            of_part.append({"Commands": sorted(page for page in pages if page.startswith("reference/cli/"))})
        if folder == "explanation/" and "dependencies.md" in pages:
            of_part.append("dependencies.md")
        if of_part:
            config.nav.append({title: of_part})
    config.nav.append({"Examples": "examples/README.md"})
    if "plan.md" in pages:  # while it exists
        config.nav.append({"Plan": "plan.md"})
    config.nav.append({"Decisions": [page for page in sorted(pages) if re.match(r"\d{3}-", page)]})
    return config


def on_files(files, config):
    for name in ("mermaid.min.js", "iframe-worker.js"):
        files.append(File.generated(config, "assets/" + name, abs_src_path=os.path.join(SCRIPTS, name)))
    return files


def on_page_markdown(markdown, page, config, files):
    here = posixpath.dirname(page.file.src_uri)

    def link(m):
        target, _, anchor = m.group(2).partition("#")
        if re.match(r"[a-z]+:", target) or not target:
            return m.group(0)
        path = posixpath.normpath(posixpath.join("docs", here, target))
        if path.startswith("docs/") and (not os.path.exists(os.path.join(config.docs_dir, "..", path))
                                         or files.get_file_from_path(path[len("docs/"):])):
            return m.group(0)  # a page of the site, or a dead link, which MkDocs reports
        kind = "tree" if os.path.isdir(os.path.join(config.docs_dir, "..", path)) else "blob"
        return f"{m.group(1)}{REPOSITORY}/{kind}/main/{path}{'#' + anchor if anchor else ''}{m.group(3)}"

    lines, fence, before = [], None, ""
    for line in markdown.split("\n"):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and fence is None:
            fence = mark.group(1)
        elif mark and line.strip() == fence:
            fence = None
        elif fence is None:
            line = re.sub(r"(\]\()([^)\s]+)(\))", link, line)
            item = re.match(r"( *)([*+-]|\d+\.) ", line)
            if item and before.strip() and not re.match(r" *([*+-]|\d+\.) ", before) and not before.startswith((" ", "|")):
                lines.append("")
            if re.match(r"(  |   )([*+-]) ", line):  # a nested item
                line = "    " + line.lstrip()
        lines.append(line)
        before = line
    return "\n".join(lines)
