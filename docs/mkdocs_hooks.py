"""Additions to mkdocs: pages from the project's root, links to source files, folders
in the navigation."""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
FROM_ROOT = ("CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")

_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """A folder in the navigation stands for its pages."""
    config.nav = [_unfolded(entry) for entry in config.nav or []]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages of the project's root are pages of the site, too."""
    for name in FROM_ROOT:
        text = (ROOT / name).read_text().replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files that are not on the site become their names; a link to what does not exist
    ends the build."""
    here = ROOT if page.file.src_uri in FROM_ROOT else (Path(config.docs_dir) / page.file.src_uri).parent
    return "".join(
        part if part.startswith("`") else _LINK.sub(lambda link: _kept(link, here, files), part)
        for part in _CODE.split(markdown)
    )


def _kept(link: re.Match[str], here: Path, files: Files) -> str:
    label, target = link[1], link[2]
    if target.startswith(("#", "http://", "https://", "mailto:")):
        return link[0]
    name = target.partition("#")[0]
    path = (here / name).resolve()
    if path.name in FROM_ROOT and path.parent == ROOT:
        return f"[{label}]({'../' * (len(here.relative_to(ROOT).parts) - 1)}{path.name})"
    if path.is_relative_to(ROOT / "docs") and not path.is_dir():
        return link[0]
    if path.is_dir() and (path / "index.md").exists():
        return f"[{label}]({target.rstrip('/')}/index.md)"
    if not path.exists() and files.get_file_from_path(name) is None:
        raise PluginError(f"{here}: {target} does not exist")
    return f"`{path.relative_to(ROOT)}`" if path.exists() else link[0]


def _unfolded(entry: Any) -> Any:
    """An entry of the navigation with each folder replaced by its pages, its index first."""
    if isinstance(entry, list):
        return [_unfolded(one) for one in entry]
    if isinstance(entry, dict):
        return {title: _unfolded(value) for title, value in entry.items()}
    if not entry.endswith("/"):
        return entry
    pages = sorted(
        (ROOT / "docs" / entry).glob("*.md"), key=lambda page: (page.name != "index.md", page.name)
    )
    return [f"{entry}{page.name}" for page in pages]
