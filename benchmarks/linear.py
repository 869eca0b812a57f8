"""Measures matrix products: double hoisting beside single hoisting of the same plan, and beside TenSEAL's matmul.

python benchmarks/linear.py [--json PATH] [--quick]

One thread; the least of all runs, taken in turns. Single hoisting has the same rotations, each ended by its own
division, in three ways:

  operations   as users write it: rotate_many, dot_plain, rotate, with plaintexts of full length
  kernels      one program with the kernel for sums that double hoisting has
  parts        the sum of that program's parts, each timed alone: without the clearing of fresh memory, which the
               rotated ciphertexts of a whole program need at every call
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


class Case(NamedTuple):
    """A square matrix in a ring."""

    preset: str
    size: int
    level: int
    replicated: bool


_CASES = [
    Case("n14", 256, 7, True),
    Case("n14", 256, 7, False),
    Case("n14", 256, 3, True),
    Case("n14", 256, 3, False),
    Case("n15", 1024, 3, True),
]
_QUICK = [Case("n13", 16, 3, True), Case("n13", 16, 1, False)]
_PEER_CASES = {("n14", 256, 7, True), ("n13", 16, 3, True)}  # TenSEAL repeats its vectors, and has the top level only


def main() -> None:
    """Measures all cases and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path, help="where to write the times")
    parser.add_argument("--quick", action="store_true", help="small rings and few runs: says only that everything runs")
    options = parser.parse_args()
    report: dict[str, Any] = {"machine": machine.describe(), "quick": options.quick, "cases": []}
    for case in _QUICK if options.quick else _CASES:
        entry = workers.run_on(machine.cores()[-1:], measure, case, 0.0 if options.quick else 3.0)
        report["cases"].append(entry)
        print(_row(entry), flush=True)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n")


def measure(case: Case, seconds: float) -> dict[str, Any]:
    """Milliseconds of each way to multiply, and what it does."""
    import numpy as np

    import fhejax as fhe

    params = fhe.Parameters.preset(case.preset)
    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 3)
    secret = fhe.secret_key(seeds[0], params)
    rng = np.random.default_rng(0)
    matrix, values = rng.uniform(-1, 1, (case.size, case.size)) / case.size**0.5, rng.uniform(-1, 1, case.size)
    repeats = params.slots // case.size if case.replicated else 1
    transform = fhe.LinearTransform.from_matrix(matrix, params, case.level, replicated=case.replicated)
    keys = fhe.evaluation_keys(seeds[1], secret, rotations=transform.rotations, level=case.level)
    x = fhe.drop_to_level(fhe.encrypt(seeds[2], secret, np.tile(values, repeats)), case.level)

    def check(y: Any) -> None:
        error = np.abs(np.asarray(fhe.decrypt(secret, y))[: case.size] - matrix @ values).max()
        assert error < 1e-4, f"the product is wrong by {error}"

    subjects = _ours(transform, x, keys, check)
    timings = take_turns(subjects, seconds=seconds)
    peer = "not measured at this level or layout"
    if tuple(case) in _PEER_CASES:
        try:
            # A product takes it many seconds, so it has one turn.
            theirs = {"double": subjects["double"], "TenSEAL": _tenseal(params, matrix, values)}
            timings["TenSEAL"] = take_turns(theirs, rounds=1, seconds=0.0)["TenSEAL"]
            peer = "matmul, with encoding of the matrix"
        except machine.Unavailable as reason:
            peer = str(reason)
    times = {name: 1e3 * timing.minimum for name, timing in timings.items()}
    times["parts"] = sum(times.pop(name) for name in list(times) if name.startswith("part "))
    plan = transform.plan
    return {
        **case._asdict(),
        "limbs": case.level + 1,
        "diagonals": plan.terms,
        "hoisted": plan.hoisted,
        "switched": plan.switched,
        "mod_downs": plan.mod_downs,
        "transform_bytes": transform.data.nbytes,
        "milliseconds": times,
        "TenSEAL": peer,
    }


def _ours(transform: Any, x: Any, keys: Any, check: Callable[[Any], None]) -> dict[str, Callable[[], Any]]:
    import jax
    import jax.numpy as jnp
    from operations import ready

    import fhejax as fhe
    from fhejax.primitives import modular
    from fhejax.primitives.basis import mod_down
    from fhejax.primitives.double_hoisting import IDENTITY, Basis, hoisted_sums
    from fhejax.primitives.key_switch import hoisted_rotations

    params, plan, level = transform.params, transform.plan, transform.level
    moduli, special = params.moduli_at(level), params.special_moduli
    element = lambda step: pow(5, step, 2 * params.degree)
    operands = {element(step): keys.galois[element(step)].operand for step in transform.rotations}
    babies, giants = [element(step) for _, step in plan.babies], [element(each.step) for each in plan.sums]
    terms, rotated = tuple(each.terms for each in plan.sums), tuple(each for each in babies if each != IDENTITY)

    def rotate(data, elements, operands):
        own = [operands[each] for each in elements]
        return hoisted_rotations(data, own, elements, moduli, special, params.digit_size)

    def rotate_babies(data, operands):
        found = dict(zip(rotated, rotate(data, rotated, operands), strict=True)) if rotated else {}
        return [found.get(each, data) for each in babies]

    def add_up(pairs, plains):
        # Without special primes and rotations it is the plain sum, modulo q_0..q_l.
        alone = tuple((i, IDENTITY) for i in range(len(pairs)))
        return hoisted_sums(pairs, plains, {}, alone, terms, Basis(moduli, (), params.digit_size))

    def rotate_giants(sums, operands):
        return [
            pair if each == IDENTITY else rotate(pair, (each,), operands)[0]
            for pair, each in zip(sums, giants, strict=True)
        ]

    def finish(sums):
        total = sums[0]
        for pair in sums[1:]:
            total = modular.add(total, pair, moduli)
        return mod_down(total, moduli[:-1], moduli[-1:])

    def single(data, plains, operands):
        return finish(rotate_giants(add_up(rotate_babies(data, operands), plains), operands))

    def by_operations(x, full, keys):
        pairs, total, first = fhe.rotate_many(x, [step for _, step in plan.babies], keys), None, 0
        for each in plan.sums:
            own = full[first : first + len(each.terms)]
            part = fhe.rotate(fhe.dot_plain([pairs[i] for i in each.terms], own), each.step, keys)
            total, first = part if total is None else total + part, first + len(each.terms)
        return total

    with jax.enable_x64(True):
        plains = jnp.array(transform.data[..., : level + 1, :])
        repeated = [jnp.repeat(each, params.degree // plains.shape[-1], axis=-1) for each in plains]
    full = [fhe.Plaintext(each, params, level, params.scale_at(level), x.slots, True) for each in repeated]
    run = {each.__name__: _x64(jax.jit(each)) for each in (rotate_babies, add_up, rotate_giants, finish, single)}
    pairs = run["rotate_babies"](x.data, operands)
    sums = run["add_up"](pairs, plains)
    moved = run["rotate_giants"](sums, operands)
    fields = params, level - 1, params.scale_at(level - 1), x.slots, True
    check(fhe.Ciphertext(run["single"](x.data, plains, operands), *fields))
    check(by_operations(x, full, keys))
    check(fhe.apply(transform, x, keys))
    return {
        "double": ready(jax.jit(fhe.apply), transform, x, keys),
        "operations": ready(jax.jit(by_operations), x, full, keys),
        "kernels": ready(run["single"], x.data, plains, operands),
        "part babies": ready(run["rotate_babies"], x.data, operands),
        "part sums": ready(run["add_up"], pairs, plains),
        "part giants": ready(run["rotate_giants"], sums, operands),
        "part finish": ready(run["finish"], moved),
    }


def _x64(function: Callable) -> Callable:
    import jax

    def run(*operands):
        with jax.enable_x64(True):
            return function(*operands)

    return run


def _tenseal(params: Any, matrix: Any, values: Any) -> Callable[[], Any]:
    """A vector times a matrix, as its users write it: keys for powers of two, from which it composes the others."""
    import numpy as np

    try:
        import tenseal
    except ImportError as error:
        raise machine.Unavailable(f"{error}; type: pip install tenseal") from None
    # It takes a prime to be as large as the scale, and says nothing where it is not.
    bits = [round(math.log2(q)) for q in (*params.moduli, max(params.special_moduli))]
    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, poly_modulus_degree=params.degree, coeff_mod_bit_sizes=bits, n_threads=1
    )
    context.global_scale = params.scale_at(params.max_level)
    context.generate_galois_keys()
    x, rows = tenseal.ckks_vector(context, values.tolist()), matrix.T.tolist()
    error = np.abs(np.array(x.matmul(rows).decrypt()) - matrix @ values).max()
    assert error < 1e-4, f"TenSEAL's product is wrong by {error}"
    return lambda: x.matmul(rows)


def _row(entry: dict[str, Any]) -> str:
    times, layout = entry["milliseconds"], "replicated" if entry["replicated"] else "one vector"
    ours = times["double"]
    others = ", ".join(f"{name} {time:.1f} ms ({time / ours:.2f})" for name, time in times.items() if name != "double")
    return (
        f"{entry['preset']}, {entry['size']} x {entry['size']}, level {entry['level']}, {layout}: {entry['hoisted']} + "
        f"{entry['switched']} key switches, {entry['mod_downs']} ModDowns; double {ours:.1f} ms; {others}"
    )


if __name__ == "__main__":
    main()
