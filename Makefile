# Two commands that need nothing beforehand but Python and a C++ compiler: make demo, make test.
PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin
SANITIZERS := sanitize-address,undefined sanitize-thread

.PHONY: demo test test-all lint sanitize $(SANITIZERS) fuzz clean

demo: $(VENV)/demo
	$(RUN)/python examples/encrypted_digits.py

test: lint
	$(RUN)/pytest -n 2 tests --pyargs fhejax

test-all: lint
	$(RUN)/pytest -n 2 -m "slow or not slow" tests --pyargs fhejax

# Kernels and handlers as a program without Python, under sanitizers. setarch where it is allowed: thread sanitizers
# before 2024 refuse addresses that are spread widely.
sanitize: $(SANITIZERS)
$(SANITIZERS): sanitize-%: $(VENV)/test
	$(RUN)/cmake -S . -B build/$@ -DFHEJAX_SANITIZE=$* -DPython_EXECUTABLE=$(abspath $(RUN)/python)
	$(RUN)/cmake --build build/$@ --parallel $$(nproc)
	UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=halt_on_error=1 \
	$$(setarch -R true 2>/dev/null && echo setarch -R) build/$@/checks

# Every handler, called with what does not fit. What was found, and how far it came, stands in build/fuzz.
CHECKED := build/sanitize-address,undefined
fuzz: $(VENV)/test
	$(RUN)/cmake -S . -B $(CHECKED) -DFHEJAX_SANITIZE=address,undefined -DPython_EXECUTABLE=$(abspath $(RUN)/python)
	$(RUN)/cmake --build $(CHECKED) --parallel $$(nproc)
	ASAN_OPTIONS=abort_on_error=1 UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1 \
	$(RUN)/python tests/fuzz_handlers.py 100000 --program $(CHECKED)/checks

lint: $(VENV)/test
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/pyright --pythonpath $(RUN)/python

SOURCES := Makefile pyproject.toml CMakeLists.txt $(wildcard fhejax/*.py fhejax/*/*.py fhejax/*/*/*.py ffi/*/*)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(RUN)/pip install --quiet --upgrade pip

# Editable, so that Python started in this directory finds the sources and the kernels alike.
$(VENV)/demo: $(VENV)/bin/python $(SOURCES)
	$(RUN)/pip install --quiet --editable ".[examples]"
	touch $@

$(VENV)/test: $(VENV)/bin/python $(SOURCES)
	$(RUN)/pip install --quiet --editable ".[examples,test]"
	touch $@

clean:
	rm -rf $(VENV) build
