"""Imports run one way, as docs/internals.md draws them; one file touches JAX's extension points; files stay small."""

import imports


def test_rooms_import_only_from_lower_floors():
    floors, ties = imports.floors(), imports.between_rooms()
    assert set(ties) == set(floors), "the drawing in docs/internals.md has other rooms than the package"
    upward = [(room, other) for room, others in ties.items() for other in others if floors[room] <= floors[other]]
    assert not upward


def test_no_circles():
    imports.order({name: others - {""} for name, others in imports.imported().items()})


def test_one_file_touches_the_extension_points():
    points = ("jax.extend", "jax.interpreters", "jax.ffi", "jax.core", "jax._src")
    touching = {name for name, path in imports.files().items() if any(point in path.read_text() for point in points)}
    assert touching <= {"_compat"}


def test_files_have_one_subject():
    assert not [name for name, path in imports.files().items() if path.stat().st_size >= 20 * 1024]
