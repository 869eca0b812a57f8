# Commands that need nothing beforehand but Python and a C++ compiler: make demo, make test; make check has lint, types
# and the tests that are quick.
PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin
# Python compiles what it imports, a tenth of what pip would compile.
PIP := PIP_COMPILE=0 $(RUN)/pip install --quiet
# Tests start many processes, and each would compile the same files anew.
export PYTHONDONTWRITEBYTECODE :=
SANITIZERS := sanitize-address,undefined sanitize-thread

# Two processes, each with files next to each other, so that they make few keys and programs twice.
PYTEST := $(RUN)/pytest -n 2 --dist worksteal
EVERYTHING := -m "slow or not slow"
CHECKED := $(wildcard tests/test_imports.py tests/test_parameters.py tests/test_*errors.py tests/test_*plan*.py)
EMULATED := $(wildcard tests/test_cuda*.py tests/test_emulator.py)
REFERENCES := $(shell grep -lE "from (references|emulation) import|\"reference\"" tests/test_*.py)

.PHONY: demo check test test-all test-references test-emulated test-docs digests lint sanitize $(SANITIZERS) fuzz clean FORCE

demo: $(VENV)/demo
	$(RUN)/python examples/encrypted_digits.py

check: lint
	$(PYTEST) -q $(CHECKED)

# What it leaves out, slow tests and what has not changed since it passed, it says at the end.
test: $(VENV)/test
	$(PYTEST) tests --pyargs fhejax

test-all: lint
	$(PYTEST) $(EVERYTHING) tests --pyargs fhejax

# Parts of test-all, for what a change touches: every reference computed; CUDA's handlers, emulated; the blocks of pages.
test-references: $(VENV)/test
	$(PYTEST) -m "not slow" $(filter-out $(EMULATED),$(REFERENCES))

test-emulated: $(VENV)/test
	$(PYTEST) -m "not slow" $(EMULATED)

test-docs: $(VENV)/test
	$(PYTEST) $(EVERYTHING) tests/test_docs.py

# Writes tests/digests.json from references and emulated handlers, if they pass.
digests: $(VENV)/test
	rm -rf build/digests
	FHEJAX_WRITE_DIGESTS=1 $(PYTEST) $(REFERENCES)

# Kernels and handlers as a program without Python, under sanitizers. setarch where it is allowed: thread sanitizers
# before 2024 refuse addresses that are spread widely.
sanitize: $(SANITIZERS)
$(SANITIZERS): sanitize-%: $(VENV)/test
	$(RUN)/cmake -S . -B build/$@ -DFHEJAX_SANITIZE=$* -DPython_EXECUTABLE=$(abspath $(RUN)/python)
	$(RUN)/cmake --build build/$@ --parallel $$(nproc)
	UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1 \
	$$(setarch -R true 2>/dev/null && echo setarch -R) build/$@/checks

# Every handler, called with what does not fit. What was found, and how far it came, stands in build/fuzz.
SANITIZED := build/sanitize-address,undefined
fuzz: $(VENV)/test
	$(RUN)/cmake -S . -B $(SANITIZED) -DFHEJAX_SANITIZE=address,undefined -DPython_EXECUTABLE=$(abspath $(RUN)/python)
	$(RUN)/cmake --build $(SANITIZED) --parallel $$(nproc)
	ASAN_OPTIONS=abort_on_error=1 UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1 \
	$(RUN)/python tests/fuzz_handlers.py 100000 --program $(SANITIZED)/checks

lint: $(VENV)/test
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/pyright --pythonpath $(RUN)/python

# An editable install knows modules by name, and reads them where they lie.
MODULES := $(sort $(wildcard fhejax/*.py fhejax/*/*.py fhejax/*/*/*.py))
SOURCES := $(VENV)/modules pyproject.toml CMakeLists.txt $(wildcard ffi/common/* ffi/cpu/*)

$(VENV)/modules: FORCE | $(VENV)/bin/python
	@echo $(MODULES) | cmp -s - $@ || echo $(MODULES) > $@
FORCE:

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Editable, so that Python started in this directory finds the sources and the kernels alike.
$(VENV)/demo: $(VENV)/bin/python $(SOURCES)
	$(PIP) --editable ".[examples]"
	touch $@

$(VENV)/test: $(VENV)/bin/python $(SOURCES)
	$(PIP) --editable ".[examples,test]"
	touch $@

clean:
	rm -rf $(VENV) build
