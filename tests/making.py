"""What tests make once and share: keys, ciphertexts, plans."""

import functools

import jax


def made_once(function):
    """Caches what `function` makes.

    The first caller may be within a trace (a test's own jit, `jax.eval_shape`, `fhe.count`). A plain cache would keep
    that trace's tracers, and each later test would fail. Here arrays are computed, whoever asks first.
    """

    @functools.cache
    @functools.wraps(function)
    def made(*arguments, **options):
        with jax.ensure_compile_time_eval():
            return function(*arguments, **options)

    return made
