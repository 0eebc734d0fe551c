# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=bash
# shellcheck disable=SC2034 # for the scripts that source it
#
# The Debian packages whose libraries are statically linked into pmctl and into QEMU.

PMCTL_LIBRARIES=(libc6-dev libgcc-14-dev libstd-rust-dev)
QEMU_LIBRARIES=(libc6-dev libgcc-14-dev libfdt-dev libglib2.0-dev libsysprof-capture-4-dev zlib1g-dev)
