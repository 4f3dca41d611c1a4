"""Where a run comes from: the commit of the package's source."""

import re
import subprocess

from sparsemble.runs.provenance import commit_of


def test_a_commit_is_marked_when_any_file_of_the_package_was_changed(tmp_path):
    package = tmp_path / "src" / "package"
    (package / "below").mkdir(parents=True)
    for name in ("__init__.py", "below/part.py"):
        (package / name).write_text("x = 1\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for arguments in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "begun"]):
        subprocess.run(["git", "-C", str(tmp_path), *arguments], check=True)
    commit = commit_of(package)
    assert re.fullmatch("[0-9a-f]{40}", commit)
    (package / "below" / "part.py").write_text("x = 2\n")
    assert commit_of(package) == f"{commit} with changes"
    assert commit_of(tmp_path / "src") is None
