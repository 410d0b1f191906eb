# Thin front end: scripts/setup installs what is missing, CMake builds.
PRESET ?= release
JOBS ?= 2
ARGS ?=

BUILD := build/$(PRESET)
PROGRAM := $(BUILD)/src/passel
TORCH_SET := slim

.DEFAULT_GOAL := help
.PHONY: help setup configure build train test stress fuzz neon sanitize bench bench-kernels bench-modes bench-shm gpu-check gpu-bundle lint format clean FORCE

help: ## Show this text
	@echo 'Usage: make TARGET [ARGS="..."] [PRESET=release|dev|ci|asan|tsan|cuda]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo 'make train ARGS="--workers 4 --epochs 8" passes its ARGS on to passel train;'
	@echo 'make train ARGS=--help lists them. PASSEL_TORCH=DIR uses a torch of your own.'

setup:
	@scripts/setup $(TORCH_SET)

# CMake is run when there is no build yet, or when the presets or the wish for
# another torch have changed. Changes of CMakeLists.txt are seen by the build.
configure: $(BUILD)/build.ninja

$(BUILD)/build.ninja: CMakePresets.json $(BUILD)/torch.choice | setup
	cmake --preset $(PRESET) $(if $(PASSEL_TORCH),-DPASSEL_TORCH='$(PASSEL_TORCH)',-UPASSEL_TORCH)

$(BUILD)/torch.choice: FORCE
	@mkdir -p $(BUILD)
	@echo '$(PASSEL_TORCH)' | cmp -s - $@ || echo '$(PASSEL_TORCH)' > $@

build: configure ## Build everything
	cmake --build $(BUILD)

train: configure ## Build the program and train: make train ARGS="--epochs 1"
	cmake --build $(BUILD) --target passel
	$(PROGRAM) train $(ARGS)

test stress bench bench-shm gpu-check gpu-bundle: TORCH_SET := full

test: build ## Build everything and run the tests
	ctest --preset $(PRESET) -LE stress -j $(JOBS) $(ARGS)

stress: build neon ## Run the long tests: kill storms, soaks, the kernels as ARM code
	ctest --preset $(PRESET) -L stress $(ARGS)

# The emulator shows that the bits are those of x86, not how fast they come.
neon: ## Cross-compile the kernels for ARM and run their tests in an emulator
	@scripts/setup slim neon
	@scripts/arm64-libraries
	cmake --preset neon
	cmake --build --preset neon
	ctest --preset neon -L kernels -j $(JOBS) $(ARGS)

fuzz: setup ## Fuzz what reads damaged memory and files, each FUZZ_SECONDS=60
	cmake --preset fuzz $(if $(PASSEL_TORCH),-DPASSEL_TORCH='$(PASSEL_TORCH)')
	cmake --build --preset fuzz
	FUZZ_SECONDS=$${FUZZ_SECONDS:-60} ctest --preset fuzz -L fuzz -j $(JOBS) $(ARGS)

# ThreadSanitizer gets the algorithms that run as threads over one mapping (label
# threads): between processes it sees nothing, and the kernels start no threads.
# Neither gets the single-stepped sweeps, which would step through its code, nor
# the model, which is not compiled from ours.
sanitize: setup ## Run the tests without torch under Address-, UB- and ThreadSanitizer
	cmake --preset asan
	cmake --build --preset asan
	ctest --preset asan -LE 'stress|model' -j $(JOBS) $(ARGS)
	cmake --preset tsan
	cmake --build --preset tsan --target thread_tests
	ctest --preset tsan -L threads -j $(JOBS) $(ARGS)

bench: configure ## Measure beside torch.multiprocessing; writes build/bench/bench.json
	cmake --build $(BUILD) --target passel
	.venv/bin/python tests/bench/bench.py --program $(PROGRAM) $(ARGS)

bench-shm: configure ## Measure queues, tensors and spawning beside those of others
	cmake --build $(BUILD) --target shm_bench
	.venv/bin/python tests/bench/bench_shm.py --program $(BUILD)/tests/bench/shm_bench $(ARGS)

bench-kernels: configure ## Measure the LLTM's kernels as fractions of the FMA peak
	cmake --build $(BUILD) --target kernels_bench
	python3 tests/bench/bench_kernels.py --program $(BUILD)/tests/bench/kernels_bench $(ARGS)

bench-modes: configure ## Measure modes ordered and sync beside hogwild
	cmake --build $(BUILD) --target passel
	python3 tests/bench/bench_modes.py --program $(PROGRAM) $(ARGS)

gpu-check: configure ## Test and measure the CUDA parts on a GPU; says what it skips without one
	cmake --build $(BUILD) --target gpu_test shm_cuda_real_test passel passel_on_resident_batches passel_ops passel_cuda passel_train_cuda
	.venv/bin/python tests/gpu/gpu_check.py --build $(BUILD) $(ARGS)

gpu-bundle: build ## Make a folder that runs gpu-check where nothing can be installed
	rm -rf build/gpu-bundle
	cmake --install $(BUILD) --component gpu_bundle --prefix build/gpu-bundle --strip >/dev/null
	@du -sh build/gpu-bundle

lint: TORCH_SET := slim lint
lint: configure ## Check format, layering and clang-tidy
	scripts/format --check
	python3 tests/layering/layering.py .
	scripts/lint $(BUILD)

format: ## Format the C++ and CUDA sources in place
	@scripts/setup slim lint
	scripts/format

clean: ## Remove build/ (the installed .venv stays)
	rm -rf build
