# SPDX-License-Identifier: GPL-2.0-only
#
# `make help` lists the targets. The work is done by the scripts in
# selftests/vm (the virtual machine) and by the kernel's own build.

KDIR   ?= /lib/modules/$(shell uname -r)/build
PREFIX ?= /usr/local
VM     := selftests/vm

# Not called VERSION, which the kernel's own build uses.
PACKAGE_VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' user/Cargo.toml)

# The length of `make soak`.
MINUTES ?= 60

.PHONY: help demo check check-all soak bench vm vm-image modules clean fmt clippy bindings event-names events manual rust-analyzer doc pictures install install-files deb crates wheel release

help:
	@echo 'In a virtual machine with a PMU of its own; needs nothing but Debian 12 or 13:'
	@echo '  make demo           set everything up, count real programs, compare with perf'
	@echo '  make check          linters, host tests, and the main selftests on Intel and AMD'
	@echo '  make check-all      every test; skips what passed before with the same inputs'
	@echo '                      (FRESH=1 runs all)'
	@echo '                      ROWS="trace-amd policy" or TIER=matrix selects tests,'
	@echo '                      also for make check'
	@echo '  make soak           run the long tests, for MINUTES=60'
	@echo '  make vm             open a shell in the machine, with the module loaded'
	@echo '  make vm-image       build the machine of `pmctl vm`, and print its path'
	@echo "  make bench          measure each call in instructions, beside perf's"
	@echo ''
	@echo 'On your own machine (KDIR=$(KDIR)):'
	@echo '  make modules        build perfmon.ko; KDIR=... for another kernel'
	@echo '  make install        install perfmon.ko, pmctl with shell completions, the headers, libperfmon,'
	@echo '                      the manual pages, and the udev rule that gives the device'
	@echo '                      to the group perfmon (PREFIX, DESTDIR)'
	@echo '  make deb            build packages for Debian 13: the module for its kernels of backports,'
	@echo '                      for DKMS, pmctl, the library for C; DEB=... names the directory'
	@echo '  make crates         package the Rust libraries for crates.io'
	@echo '  make wheel          build the package for Python, and print its path'
	@echo '  make release        all of these; pmctl with its machine, as a tar and for pip;'
	@echo '                      checksums, SBOM; RELEASE=... names the directory'
	@echo '  make clean          remove what `make modules` and `make install` made here'
	@echo ''
	@echo 'To change it:'
	@echo '  make fmt            format all Rust'
	@echo "  make clippy         lint all Rust, the module with the kernel's flags"
	@echo '  make bindings       regenerate the Rust forms of C headers'
	@echo '  make event-names    regenerate the names of events of the library for C'
	@echo "  make events         regenerate the tables of events from those of Linux's perf"
	@echo "  make manual         regenerate pmctl's manual page and completions"
	@echo '  make rust-analyzer  write rust-project.json, for editing the module'
	@echo '  make doc            build the documentation as HTML, and print its path'
	@echo '  make pictures       make the pictures of the documentation in the virtual machine'

demo:
	@MAKE_GOAL=demo selftests/demo/demo

check:
	@MAKE_GOAL=check scripts/check check

check-all:
	@MAKE_GOAL=check-all scripts/check --reuse

soak:
	@MAKE_GOAL=soak scripts/soak $(MINUTES)

bench:
	@MAKE_GOAL=bench selftests/bench/bench

pictures:
	@MAKE_GOAL=pictures scripts/pictures

vm:
	@MAKE_GOAL=vm $(VM)/run --accel auto --shell

vm-image:
	@MAKE_GOAL=vm-image $(VM)/build vm-image

# The module, for the kernel of KDIR.

modules: | kdir
	$(MAKE) -C $(KDIR) M=$(CURDIR) $@

.PHONY: kdir
kdir:
	@scripts/check-kdir $(KDIR)

# Removes what the kernel's build leaves here and below rust/, and cargo's output.
# Works without the kernel's build directory, which may be gone.
clean:
	find . -maxdepth 1 -type f $(made) -delete
	find rust -type f $(made) -delete
	rm -rf user/target

made := \( -name '*.o' -o -name '*.ko' -o -name '*.mod' -o -name '*.mod.c' -o -name '*.cmd' -o -name '.*.d' \
	-o -name '*.rmeta' -o -name '*.[is]' -o -name '*.rsi' -o -name modules.order -o -name Module.symvers \)

install: modules install-files
	$(MAKE) -C user/libperfmon install O=$(CURDIR)/user/target/libperfmon
	$(MAKE) -C $(KDIR) M=$(CURDIR) INSTALL_MOD_PATH=$(DESTDIR) modules_install
	cargo install --path user/pmctl --locked --no-track --root $(DESTDIR)$(PREFIX)

# install-files installs what needs no building. Debian sets ZSH_COMPLETIONS to
# another place.
ZSH_COMPLETIONS ?= $(PREFIX)/share/zsh/site-functions

install-files:
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/include/linux include/uapi/linux/perfmon.h
	cd include && find compat -type f -exec install -D -m 644 {} $(DESTDIR)$(PREFIX)/include/perfmon/{} \;
	install -d $(DESTDIR)$(PREFIX)/share/pkgconfig
	sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(PACKAGE_VERSION)|' user/system/perfmon.pc.in >$(DESTDIR)$(PREFIX)/share/pkgconfig/perfmon.pc
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/udev/rules.d user/system/60-perfmon.rules
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/lib/sysusers.d user/system/perfmon.conf
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|@PREFIX@|$(PREFIX)|' user/system/pmctl-serve.service >$(DESTDIR)$(PREFIX)/lib/systemd/system/pmctl-serve.service
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man4 Documentation/perfmon.4
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 Documentation/pmctl.1
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/bash-completion/completions user/pmctl/completions/pmctl
	install -D -m 644 -t $(DESTDIR)$(ZSH_COMPLETIONS) user/pmctl/completions/_pmctl
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d user/pmctl/completions/pmctl.fish

# Packages for Debian 13.

deb:
	@MAKE_GOAL=deb scripts/deb/deb

# The libraries in Rust, to publish them.

crates:
	@MAKE_GOAL=crates scripts/crates/crates

# The package for Python.

wheel:
	@MAKE_GOAL=wheel scripts/wheel

# All that is published: packages, pmctl with its virtual machine, and both for pip.

release:
	@MAKE_GOAL=release scripts/release/release

# With the kernel and the toolchain of the virtual machine.

fmt clippy bindings event-names events manual rust-analyzer doc:
	@MAKE_GOAL=$@ scripts/lint $@
