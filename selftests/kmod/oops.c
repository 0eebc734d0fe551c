// SPDX-License-Identifier: GPL-2.0-only
/*
 * /dev/oops: a write makes the kernel oops. With panic_on_oops=0 only the writer is killed.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>

static ssize_t oops_write(struct file *file, const char __user *from,
			  size_t size, loff_t *offset)
{
	int *nowhere = NULL;

	/* Hides from the compiler that the pointer is NULL. */
	OPTIMIZER_HIDE_VAR(nowhere);
	*nowhere = 0;
	return size;
}

static const struct file_operations operations = {
	.owner = THIS_MODULE,
	.write = oops_write,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "oops",
	.fops = &operations,
};

module_misc_device(device);
MODULE_DESCRIPTION("An oops on demand, for tests");
MODULE_LICENSE("GPL");
