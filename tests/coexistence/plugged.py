"""Projects in whose runs pytest loads the plugins that a test names and no others; how their test files begin."""

from __future__ import annotations

from projects import RANDOM_WRITE, Project

OURS = ("benchmark", "xdist", "vmstorage")
# by module where the plugin has the name of another one
ASYNCIO, HTML = "pytest_asyncio.plugin", "pytest_html.plugin"
ALL = ("allure_pytest", ASYNCIO, HTML, "metadata", "pytest_cov", "pytest_jsonreport", "randomly", "repeat")
ALL += ("rerunfailures", "sugar", "timeout")
HEAD = (
    RANDOM_WRITE
    + """
import time
CELLS = pytest.mark.parametrize("format", ["raw", "qcow2"])

def note(word):
    with open("notes", "a") as stream:
        stream.write(f"{word}\\n")
"""
)
IN_TURNS = "in turns with 1 other cell"


class PluginProject(Project):
    """A project whose runs are processes of their own: a plugin that was loaded once would be there in all others."""

    def __init__(self, pytester, monkeypatch, tmp_path_factory):
        super().__init__(pytester, monkeypatch, tmp_path_factory)
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run_with(self, plugins, *args):
        """Run pytest with these plugins and ours."""
        return self.run(*self._named(plugins), *args, own_process=True)

    def begin_with_plugins(self, plugins, *args, ret=0):
        """Be as a run with these plugins and ours leaves it."""
        return self.begin_with(*self._named(plugins), *args, own_process=True, ret=ret)

    def _named(self, plugins):
        chosen = [one for one in plugins if not one.startswith("no:")]
        return [f"-p{name}" for name in (*OURS, *chosen, *(one for one in plugins if one.startswith("no:")))]

    def notes(self):
        """The lines that the tests noted by `note`."""
        path = self.path / "notes"
        return path.read_text().splitlines() if path.exists() else []
