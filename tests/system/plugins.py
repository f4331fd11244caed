"""Plugin folders for agents, filled with the example plugin and with those of the tests."""

import pathlib
import shutil
import subprocess

from daemons import ROOT

SOURCES = pathlib.Path(__file__).parent / "plugins"
CC = "cc"


class PluginDir:
    """One agent's plugin folder; `path` is what its plugin_dir is set to."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.path.mkdir(mode=0o755)

    def install(self, name, version, file):
        """As the documentation says: in one move, for others to read only."""
        new = self.path / f".{name}-{version}.so.new"
        shutil.copyfile(file, new)
        new.chmod(0o755)
        new.rename(self.path / f"{name}-{version}.so")

    def install_example(self):
        self.install("sessionize", "1", ROOT / "build" / "plugins" / "sessionize-1.so")

    def install_slow(self, version="1"):
        self._build("slow", version, f'-DSLOW_VERSION="{version}"')

    def install_moody(self):
        self._build("moody", "1")

    def _build(self, name, version, *options):
        built = self.path / f".{name}.so"
        subprocess.run([CC, "-std=gnu11", "-O1", "-shared", "-fPIC", f"-I{ROOT}", *options,
                        SOURCES / f"{name}.c", "-o", built], check=True)  # fmt: skip
        self.install(name, version, built)
        built.unlink()
