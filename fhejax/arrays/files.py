"""Files of encrypted arrays and of the maps between them: their ciphertexts or their transform, and the layouts."""

from fhejax.arrays.array import EncryptedArray
from fhejax.arrays.exports import read_layout, write_layout
from fhejax.arrays.layouts.layout import Layout
from fhejax.arrays.layouts.maps import ArrayMap
from fhejax.scheme.values import Ciphertext
from fhejax.serialization import headers, kinds, residues, transforms
from fhejax.serialization.source import Source, Written, on_device, refuse_simulated


def write(array: EncryptedArray) -> Written:
    """An array as it goes into a file, without its keys, which have files of their own.

    Raises:
      TypeError: it is simulated.
      ValueError: it does not fit its layout.
    """
    ciphertext = array.ciphertext
    refuse_simulated(ciphertext)
    tensors = residues.tensors_of("data", ciphertext)
    _check_layout(array.layout, ciphertext.slots, ciphertext.shape)
    header = headers.describe("EncryptedArray", ciphertext.params, headers.static_fields(ciphertext))
    return Written(header | {"layout": write_layout(array.layout)}, tensors)


def read(source: Source) -> EncryptedArray:
    """An array from its file.

    Raises:
      ValueError: the file does not hold one.
    """
    source.expect("data")
    params = headers.read_parameters(source.header)
    static = headers.read_static(Ciphertext, params, source.header)
    layout = read_layout(headers.field(source.header, "layout", dict))
    _check_layout(layout, static["slots"], source.shape("data", "uint64")[:-3])
    arrays = residues.read_arrays(source, "data", Ciphertext, params, static)
    return EncryptedArray(Ciphertext(on_device(arrays["data"]), params, **static), None, layout)


def write_map(linear: ArrayMap) -> Written:
    """A map as it goes into a file.

    Raises:
      As `fhejax.serialization.transforms.write`; ValueError also for layouts that do not fit.
    """
    header, tensors = transforms.write(linear.transform)
    layouts = {"source": linear.source, "target": linear.target}
    for layout in layouts.values():
        _check_slots(layout, linear.transform.slots)
    described = {name: write_layout(layout) for name, layout in layouts.items()}
    return Written(header | {"kind": "ArrayMap"} | described, tensors)


def read_map(source: Source) -> ArrayMap:
    """A map from its file.

    Raises:
      ValueError: the file does not hold one.
    """
    layouts = [read_layout(headers.field(source.header, name, dict)) for name in ("source", "target")]
    transform = transforms.read(source)
    for layout in layouts:
        _check_slots(layout, transform.slots)
    return ArrayMap(transform, *layouts)


def _check_slots(layout: Layout, slots: int) -> None:
    if layout.slots != slots:
        raise ValueError(f"a layout in {layout.slots} slots, and {slots} slots")


def _check_layout(layout: Layout, slots: int, batch: tuple[int, ...]) -> None:
    """Refuses a layout whose entries are not all in the ciphertexts."""
    _check_slots(layout, slots)
    # The number of ciphertexts comes from the places of all entries: first, whether there can be so many.
    if not batch or layout.size > batch[-1] * slots or layout.ciphertexts > batch[-1]:
        raise ValueError(f"ciphertexts {batch} of {slots} slots do not hold an array of shape {layout.shape!r:.200}")


kinds.register(EncryptedArray, write, read)
kinds.register(ArrayMap, write_map, read_map)
