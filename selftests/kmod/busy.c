// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/busy: a write of a number makes the writer loop in this module as often.
 */
#include <linux/compiler.h>
#include <linux/fs.h>
#include <linux/kstrtox.h>
#include <linux/miscdevice.h>
#include <linux/module.h>

static noinline void busy_loop(unsigned long n)
{
	while (n--)
		barrier();
}

static ssize_t busy_write(struct file *file, const char __user *from, size_t size, loff_t *offset)
{
	unsigned long n;
	int err = kstrtoul_from_user(from, size, 0, &n);

	if (err)
		return err;
	busy_loop(n);
	return size;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.write = busy_write,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "busy",
	.fops = &operations,
};

module_misc_device(device);
MODULE_DESCRIPTION("A loop in the kernel on demand, for tests");
MODULE_LICENSE("GPL");
