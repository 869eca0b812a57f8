"""Measures products of encrypted arrays: weighted sums of columns, and products of encrypted matrices.

python benchmarks/products.py [--json PATH] [--quick]

One thread; the least of all runs, taken in turns. Columns times a matrix in the clear stands beside the same sums by
`multiply_plain` and `add` and beside TenSEAL's, of one column each, times their number; and beside a copy of as many
bytes as its operands and its result have. The product of two encrypted matrices stands beside the permutations of
Jiang, Kim, Lauter & Song as the paper has them, which mask rotated ciphertexts: it takes a level more, so that it has
to start a level higher to end at the same one.
"""

import argparse
import json
import math
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import machine
import workers
from timing import take_turns


class Columns(NamedTuple):
    """An array in columns times a square matrix."""

    log_degree: int
    size: int
    level: int


class Matrices(NamedTuple):
    """The square of an encrypted matrix, which ends at a level."""

    log_degree: int
    size: int
    end: int


_COLUMNS, _MATRICES = [Columns(13, 64, 2)], [Matrices(13, 16, 1), Matrices(13, 32, 1), Matrices(13, 64, 1)]
_QUICK_COLUMNS, _QUICK_MATRICES = [Columns(13, 4, 1)], [Matrices(10, 4, 0)]


def main() -> None:
    """Measures all cases and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path, help="where to write the times")
    parser.add_argument("--quick", action="store_true", help="small rings and few runs: says only that everything runs")
    options = parser.parse_args()
    seconds = 0.0 if options.quick else 3.0
    report: dict[str, Any] = {"machine": machine.describe(), "quick": options.quick, "columns": [], "matrices": []}
    for name, measure, cases in (
        ("columns", measure_columns, _QUICK_COLUMNS if options.quick else _COLUMNS),
        ("matrices", measure_matrices, _QUICK_MATRICES if options.quick else _MATRICES),
    ):
        for case in cases:
            entry = workers.run_on(machine.cores()[-1:], measure, case, seconds)
            report[name].append(entry)
            print(_row(entry), flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


def measure_columns(case: Columns, seconds: float) -> dict[str, Any]:
    """Milliseconds of each way to multiply columns by a matrix."""
    import jax
    import numpy as np
    from operations import ready

    import fhejax as fhe
    from fhejax.arrays.layouts.record import take_ciphertexts
    from fhejax.arrays.products.columns import columns_times_matrix

    params = fhe.Parameters.for_depth(case.level, log_degree=case.log_degree)
    rng, size = np.random.default_rng(0), case.size
    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 2)
    secret = fhe.secret_key(seeds[0], params)
    values, weights = rng.uniform(-1, 1, (params.slots, size)), rng.uniform(-1, 1, (size, size))
    x = fhe.EncryptedArray.encrypt(seeds[1], secret, values, "columns")
    columns = [take_ciphertexts(x.ciphertext, i) for i in range(size)]

    def by_operations(columns):
        total = fhe.multiply_plain(columns[0], float(weights[0, 0]))
        for i, column in enumerate(columns[1:], 1):
            total = total + fhe.multiply_plain(column, float(weights[i, 0]))
        return total

    y = columns_times_matrix(x, weights)
    error = np.abs(np.asarray(y.decrypt(secret)) - values @ weights).max()
    assert error < 1e-4, f"the product is wrong by {error}"
    subjects = {
        "columns": ready(jax.jit(columns_times_matrix), x, weights),
        "one column by operations": ready(jax.jit(by_operations), columns),
        "copy": machine.copy(2 * x.ciphertext.data.nbytes),
    }
    peer = "one column, multiplied out with numbers"
    try:
        subjects["one column by TenSEAL"] = _tenseal(params, values, weights)
    except machine.Unavailable as reason:
        peer = str(reason)
    times = {name: 1e3 * timing.minimum for name, timing in take_turns(subjects, seconds=seconds).items()}
    times = {name.removeprefix("one column "): ms * (size if "one" in name else 1) for name, ms in times.items()}
    multiplied = size * size * 2 * len(params.moduli) * params.degree
    return {
        **case._asdict(),
        "moduli_bits": [q.bit_length() for q in params.moduli],
        "multiply_adds_per_second": multiplied / (1e-3 * times["columns"]),
        "milliseconds": times,
        "TenSEAL": peer,
    }


def measure_matrices(case: Matrices, seconds: float) -> dict[str, Any]:
    """Milliseconds of each way to square an encrypted matrix, and what ours costs."""
    import jax
    import numpy as np
    from operations import ready

    import fhejax as fhe
    from fhejax.arrays.products.ciphertext_products import ciphertext_product
    from fhejax.arrays.products.plans import matrix_product

    params = fhe.Parameters.for_depth(case.end + 3, log_degree=case.log_degree, security=None)
    rng, size = np.random.default_rng(0), case.size
    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 3)
    secret = fhe.secret_key(seeds[0], params)
    values = rng.uniform(-1, 1, (size, size)) / size**0.5
    high = fhe.EncryptedArray.encrypt(seeds[2], secret, values, "replicated")
    low = fhe.EncryptedArray(fhe.drop_to_level(high.ciphertext, case.end + 2), None, high.layout)
    prepared = matrix_product(low.layout, low.layout, params, case.end + 2)
    paper, rotations = _paper(high, size)
    keys = fhe.evaluation_keys(seeds[1], secret, rotations=tuple({*rotations, *prepared.rotations}))
    ours = jax.jit(lambda x, keys, prepared: ciphertext_product(x.with_keys(keys), x, prepared).without_keys())
    unprepared = jax.jit(lambda x, keys: ciphertext_product(x.with_keys(keys), x).without_keys())
    theirs = fhe.EncryptedArray(paper[0](high.ciphertext, keys, *paper[1:]), None, high.layout)
    for z in (ours(low, keys, prepared), theirs):
        error = np.abs(np.asarray(z.decrypt(secret)) - values @ values).max()
        assert z.level == case.end and error < 1e-4, f"the product is wrong by {error}, at level {z.level}"
    subjects = {
        "ours": ready(ours, low, keys, prepared),
        "maps encoded at every call": ready(unprepared, low, keys),
        "as in the paper": ready(paper[0], high.ciphertext, keys, *paper[1:]),
    }
    times = {name: 1e3 * timing.minimum for name, timing in take_turns(subjects, seconds=seconds).items()}
    plan = prepared.plan
    return {
        **case._asdict(),
        "depth": plan.depth,
        "hoisted": plan.hoisted,
        "switched": plan.switched,
        "rotated": plan.rotated,
        "relinearizations": plan.relinearizations,
        "keys": len(plan.rotations),
        "paper_keys": len(rotations),
        "milliseconds": times,
    }


def _paper(x: Any, size: int) -> tuple[Any, set[int]]:
    """The product as the paper has it, its maps and masks; and the rotations that it takes."""
    import jax
    import numpy as np

    import fhejax as fhe
    from fhejax.arrays.layouts.maps import map_of_entries
    from fhejax.operations.levels import product_scale

    params, level, layout = x.params, x.level, x.layout
    i, j = np.indices((size, size))
    number = np.arange(size * size)

    def permuted(rows, columns):
        entries = number, (rows % size * size + columns % size).ravel(), np.ones(size * size)
        return map_of_entries("benchmark", layout, layout, entries, params, level).transform

    sigma, tau = permuted(i, i + j), permuted(i + j, j)
    ones = [np.tile((np.arange(size) < size - k).astype(float), params.slots // size) for k in range(size)]
    masks = [[fhe.encode(each, params, level=level - 1) for each in (one, 1 - one)] for one in ones]
    steps = [k - size for k in range(1, size)] + list(range(size))

    def product(ciphertext, keys, sigma, tau, masks):
        first, second = (fhe.apply(linear, ciphertext, keys) for linear in (sigma, tau))
        rotated = dict(zip(steps, fhe.rotate_many(first, steps, keys), strict=True))
        down = level - 2
        xs = [fhe.drop_to_level(first, down)]
        xs += [fhe.dot_plain([rotated[k], rotated[k - size]], masks[k]) for k in range(1, size)]
        ys = [fhe.drop_to_level(each, down) for each in fhe.rotate_many(second, [k * size for k in range(size)], keys)]
        total = xs[0]._tensor_sum(xs, ys)
        scale = product_scale(params, down, total.scale)
        return total._relinearize_rescale(keys.relinearization_key(down).operand, scale)

    one = jax.jit(product)
    used = {*sigma.rotations, *tau.rotations, *(k * size for k in range(1, size)), *(s % params.slots for s in steps)}
    return (one, sigma, tau, masks), used - {0}


def _tenseal(params: Any, values: Any, weights: Any) -> Callable[[], Any]:
    """One column of the product, as its users write it."""
    import numpy as np

    try:
        import tenseal
    except ImportError as error:
        raise machine.Unavailable(f"{error}; type: pip install tenseal") from None
    bits = [round(math.log2(q)) for q in (*params.moduli, max(params.special_moduli))]
    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, poly_modulus_degree=params.degree, coeff_mod_bit_sizes=bits, n_threads=1
    )
    context.global_scale = params.scale_at(params.max_level)
    columns = [tenseal.ckks_vector(context, column.tolist()) for column in values.T]

    def one_column():
        total = columns[0] * float(weights[0, 0])
        for i, column in enumerate(columns[1:], 1):
            total = total + column * float(weights[i, 0])
        return total

    error = np.abs(np.array(one_column().decrypt()) - values @ weights[:, 0]).max()
    assert error < 1e-4, f"TenSEAL's product is wrong by {error}"
    return one_column


def _row(entry: dict[str, Any]) -> str:
    times = dict(entry["milliseconds"])
    name = "columns" if "columns" in times else "ours"
    ours = times.pop(name)
    others = ", ".join(f"{other} {time:.1f} ms ({time / ours:.2f})" for other, time in times.items())
    where = f"N=2^{entry['log_degree']}, {entry['size']} x {entry['size']}"
    if name == "columns":
        rate = entry["multiply_adds_per_second"] / 1e9
        return f"columns, {where}, level {entry['level']}: {ours:.1f} ms, {rate:.1f} G multiply-adds/s; {others}"
    return (
        f"encrypted, {where}, into level {entry['end']}: depth {entry['depth']}, {entry['hoisted']} + "
        f"{entry['switched']} + {entry['rotated']} + {entry['relinearizations']} key switches, {entry['keys']} keys "
        f"(the paper's way: {entry['paper_keys']}); {ours:.1f} ms; {others}"
    )


if __name__ == "__main__":
    main()
