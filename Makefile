# Two commands that need nothing beforehand but Python and a C++ compiler: make demo, make test.
PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin

.PHONY: demo test test-all lint sanitize clean

demo: $(VENV)/demo
	$(RUN)/python examples/encrypted_digits.py

test: lint
	$(RUN)/pytest -n 2 tests --pyargs fhejax

test-all: lint
	$(RUN)/pytest -n 2 -m "slow or not slow" tests --pyargs fhejax

# The kernels under the address and undefined-behaviour sanitizers, in an environment of their own.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
KERNEL_TESTS := $(addprefix tests/test_,$(addsuffix .py,modular ntt automorphism basis key_switch sampling residues embedding))
sanitize:
	CMAKE_ARGS='-DCMAKE_CXX_FLAGS="$(SANITIZE)"' $(MAKE) VENV=.venv-sanitize .venv-sanitize/test
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so) \
	$$(gcc -print-file-name=libstdc++.so)" ASAN_OPTIONS=detect_leaks=0 \
	.venv-sanitize/bin/pytest -k "not reference" $(KERNEL_TESTS)

lint: $(VENV)/test
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .
	$(RUN)/pyright --pythonpath $(RUN)/python

SOURCES := Makefile pyproject.toml CMakeLists.txt $(wildcard fhejax/*.py fhejax/*/*.py ffi/*/*)

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
	rm -rf $(VENV) .venv-sanitize build
