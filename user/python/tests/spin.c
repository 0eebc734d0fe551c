// SPDX-License-Identifier: MIT OR Apache-2.0
/* Executes 2 instructions in each of n iterations. */
void spin(long n)
{
	__asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(n) : : "cc");
}
