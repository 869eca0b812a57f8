"""The examples' modules, by their file names: examples are programs, and not part of a package."""

import functools
import importlib.util
import pathlib
import sys

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"


@functools.cache
def example_module(path: str):
    """A module from a file such as "client_server/program.py"; what it imports lies in the examples' own folder."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(path.removesuffix(".py").replace("/", "_"), EXAMPLES / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
