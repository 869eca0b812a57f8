"""What every product of two encrypted arrays begins and ends with."""

from typing import Any

from fhejax.arrays.layouts.record import Array
from fhejax.kinds.requirements import no_level
from fhejax.operations.arithmetic import relinearization_key
from fhejax.operations.levels import align, product_scale, to_canonical


def align_operands(x: Array, y: Array) -> tuple[Any, Any]:
    """Both at the lower level, at its canonical scale; refused at level 0."""
    one, other = align("matmul", to_canonical(x.ciphertext), to_canonical(y.ciphertext))
    if one.level == 0:
        raise no_level("matmul", one, "a product needs one more")
    return one, other


def relinearize_sum(total: Any, keys: Any) -> Any:
    """A sum of raw products, relinearised and rescaled to the canonical scale of the next level by one rounding."""
    key = relinearization_key("matmul", keys, total)
    return total._relinearize_rescale(key, product_scale(total.params, total.level, total.scale))
