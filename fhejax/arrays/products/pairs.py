"""What every product of two encrypted arrays begins and ends with."""

from typing import Any

from fhejax.arrays.layouts.record import Array
from fhejax.arrays.products.sums import finished
from fhejax.errors import LevelError
from fhejax.operations.arithmetic import relinearization_key
from fhejax.operations.levels import align, product_scale, to_canonical


def align_operands(x: Array, y: Array) -> tuple[Any, Any]:
    """Both at the lower level, at its canonical scale; refused at level 0."""
    one, other = align("matmul", to_canonical(x.ciphertext), to_canonical(y.ciphertext))
    if one.level == 0:
        raise LevelError(
            "matmul: the operands are at level 0 and a product needs one more; make parameters with more depth, such "
            f"as Parameters.for_depth({x.params.max_level + 1}), or bootstrap"
        )
    return one, other


def relinearize_sum(total: Any, keys: Any) -> Any:
    """A sum of raw products, relinearised and rescaled to the canonical scale of the next level by one rounding."""
    key = relinearization_key("matmul", keys, total)
    return finished(total, key, product_scale(total.params, total.level, total.scale))
