# SPDX-License-Identifier: GPL-2.0-only
#
# The devices that QEMU is built with: the q35 machine with its timers, and
# what a test may want beside it.

CONFIG_Q35=y
CONFIG_HPET=y
CONFIG_VTD=y
CONFIG_ISA_DEBUG=y
CONFIG_ISA_TESTDEV=y
CONFIG_VIRTIO_PCI=y
CONFIG_VIRTIO_BLK=y
CONFIG_VIRTIO_RNG=y
CONFIG_VIRTIO_SERIAL=y
CONFIG_MICROVM=y
CONFIG_VIRTIO_9P=y
CONFIG_FSDEV_9P=y
