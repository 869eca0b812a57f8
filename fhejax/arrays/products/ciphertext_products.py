"""Products of two encrypted matrices.

| layouts of x and y, each matrix in one ciphertext | by | depth |
|---|---|---|
| x any; y "replicated", or interleaved with its rows all the way round the slots | two linear maps and rotations | 2 |
| x as y above, but by its columns; y any | the same for the transposes, (y.T @ x.T).T | 2 |
| x and y any | the same, or y is laid out so first, whichever takes less | 2 or 3 |

Arrays whose contracted axis counts ciphertexts take no rotations, and one level: see `fhejax.arrays.products.columns`.

With s(i, j) = x[i, (i + j) % n] on a grid of slots (`fhejax.arrays.products.grids`), the product is the sum over k of

    s(i, j + k) y[(i + j + k) % n, j]

Rotations of s by k are the first factors; a linear map makes s, and is the only thing done to x besides. The second
factors are made of y by one linear map that has many outputs and shares all of its rotations, which are by whole rows;
it leaves out what the rotation of s carries into the next row, and gives that apart. So there is no masking of rotated
ciphertexts, which would take a level more. The products are added up raw, in two sums, and relinearised once each.

Source: Jiang, Kim, Lauter & Song, "Secure Outsourced Matrix Computation and Application to Neural Networks", 2018,
section 3, whose permutations sigma, tau, phi^k and psi^k these are, put together differently; hoisting of one
ciphertext's rotations into many outputs: Bossuat, Mouchet, Troncoso-Pastoriza & Hubaux, 2021, section 4.
"""

from dataclasses import replace
from typing import Any

from fhejax.arrays.layouts.record import Array, keys_of
from fhejax.arrays.layouts.shapes import matmul_shape
from fhejax.arrays.products.columns import multiply_without_rotations
from fhejax.arrays.products.pairs import relinearize_sum
from fhejax.arrays.products.plans import MatrixProduct, matrix_product
from fhejax.kinds.requirements import check_same_params
from fhejax.linear.evaluation import apply
from fhejax.operations import arithmetic
from fhejax.operations.rotations import rotate, rotate_many


def ciphertext_product(x: Array, y: Array, prepared: MatrixProduct | None = None) -> Array:
    """x @ y for encrypted arrays of two axes or more.

    Args:
      x, y: `[*batch, n, m]` and `[*batch, m, p]`, both encrypted or both simulated.
      prepared: what `matrix_product` made for their layouts, at their level or a lower one; made here if None.

    Returns:
      The product in the layout `prepared.target`: row after row, on rows as long as those of y, in as many copies as
      there is room for. Level out: `plan.depth` lower than the lower of the two. Scale out: canonical. Error added:
      those of the maps, x v_y + y v_x for each of the m products, and that of a single rescale. Keys needed:
      `plan.rotations` and relinearisation.

    Raises:
      LevelError: there are not `plan.depth` levels.
      MissingKeyError: a key is missing.
      ValueError: as `matrix_product`; or `prepared` is for other layouts.

    Source: see `fhejax.arrays.products.ciphertext_products`.
    """
    check_same_params("matmul", x, y)
    matmul_shape(x.shape, y.shape)
    keys = keys_of(x, y)
    if prepared is None:
        alone = multiply_without_rotations(x, y, keys)
        if alone is not None:
            return alone
        prepared = matrix_product(x.layout, y.layout, x.params, min(x.level, y.level))
    if (x.layout, y.layout) != (prepared.x, prepared.y):
        raise ValueError(
            f"matmul: the product was prepared for {prepared.x} @ {prepared.y}, and got {x.layout} @ {y.layout}; type "
            "matrix_product(x.layout, y.layout, x.params, level)"
        )
    first, second = (y.ciphertext, x.ciphertext) if prepared.flipped else (x.ciphertext, y.ciphertext)
    second = second if prepared.before is None else apply(prepared.before, second, keys)
    firsts = apply(prepared.first, [first], keys)
    seconds = apply(prepared.second, [second], keys)
    total = _sum_products(prepared, firsts, seconds, keys)
    return replace(x, ciphertext=total, keys=keys, layout=prepared.target)


def _sum_products(prepared: MatrixProduct, firsts: list[Any], seconds: list[Any], keys: Any) -> Any:
    """The sum of the products of first and second factors."""
    grid, plan = prepared.grid, prepared.plan
    rotated = [each for first in firsts for each in rotate_many(first, (0, *plan.steps), keys)]
    parts = grid.parts()
    sums = []
    for wanted in (False, True):
        numbers = [number for number, (_, far) in enumerate(parts) if far == wanted]
        if numbers:
            own = [rotated[parts[number][0]] for number in numbers]
            sums.append(own[0]._tensor_sum(own, [seconds[number] for number in numbers]))
    total = sums[0]
    if plan.back:
        total = arithmetic.add(total, rotate(arithmetic.relinearize(sums[1], keys), plan.back, keys))
    return relinearize_sum(total, keys)
