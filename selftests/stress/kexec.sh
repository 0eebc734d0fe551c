#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# Boots another kernel while many samples are taken. Its first process reports success to
# `run`; otherwise `run` times out.
#
# For `run --boot`, which provides the kernel's image at /boot/bzImage.

here=$(dirname "$0")
dir=$(mktemp -d)
mkdir "$dir/bin" "$dir/dev"
cp /bin/busybox "$dir/bin/"
cat >"$dir/init" <<'EOF'
#!/bin/busybox sh
/bin/busybox mount -t devtmpfs devtmpfs /dev
/bin/busybox stty -F /dev/ttyS2 raw
echo 0 >/dev/ttyS2
exec /bin/busybox reboot -f
EOF
chmod 755 "$dir/init"
(cd "$dir" && find . | cpio -o -H newc) >/tmp/initrd 2>/dev/null

# Reached only if the kexec has failed: only the second kernel reports 0.
"$here/stress_last" kexec /boot/bzImage /tmp/initrd "$(cat /proc/cmdline)"
exit 1
