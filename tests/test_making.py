import jax
import jax.numpy as jnp
import numpy as np
from making import made_once


def test_what_a_trace_asks_for_first_serves_later():
    ones = made_once(lambda: jax.jit(jnp.ones, static_argnums=0)(3))
    for transformed in (jax.eval_shape, lambda f: jax.jit(f)(), lambda f: jax.vmap(lambda _: f())(np.zeros(2))):
        ones.cache_clear()
        transformed(lambda: jnp.sum(ones()))
        np.testing.assert_array_equal(np.asarray(ones()), np.ones(3))
