"""Sets the tag of a release: `make release`. The version is kbroker's own; the changelog must
describe it."""

import re
import subprocess
import sys
from pathlib import Path

from kbroker import __version__

ROOT = Path(__file__).resolve().parent.parent
HEADING = re.compile(r"^## (\S+)( - (\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)
SECTIONS = ("### Added", "### Changed", "### Fixed")


def problems(changelog: str, version: str) -> list[str]:
    """The reason why the changelog does not describe a release of this version; empty when it
    does."""
    found = HEADING.search(changelog)
    if found is None or found[1] != version:
        return [f"CHANGELOG.md begins with {found[1] if found else 'no release'}, the version is {version}"]
    if found[3] is None:
        return [f"'## {version}' has no date: write '## {version} - YYYY-MM-DD'"]
    following = HEADING.search(changelog, found.end())
    text = changelog[found.end() : following.start() if following else len(changelog)]
    if not any(section in text for section in SECTIONS):
        return [f"'## {version}' has none of {', '.join(SECTIONS)}"]
    return []


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main() -> int:
    tag = f"v{__version__}"
    wrong = problems((ROOT / "CHANGELOG.md").read_text(), __version__)
    if git("status", "--porcelain").strip():
        wrong.append("there are changes that are not committed")
    if git("tag", "--list", tag).strip():
        wrong.append(f"{tag} exists: raise kbroker.__version__")
    if wrong:
        print("\n".join(f"[release] {line}" for line in wrong), file=sys.stderr)
        return 1
    git("tag", "--annotate", tag, "--message", f"kbroker {__version__}")
    print(f"[release] tagged {git('rev-parse', '--short', 'HEAD').strip()} as {tag}; push it with the branch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
