// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A known chain of calls: main, middle, recurse (5 times), aligned, first; a signal; on_signal, leaf. In leaf, the
 * program writes its registers and its stack as a sample has them, and its mappings.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

/* The end of the written stack, above all frames. */
static char *end;

#define NOT_INLINED __attribute__((noinline, noclone))

static void on_trap(int number, siginfo_t *info, void *context)
{
	static const int order[] = {
		REG_RAX, REG_RBX, REG_RCX, REG_RDX, REG_RSI, REG_RDI, REG_RBP, REG_RSP, REG_RIP, REG_EFL,
		REG_CSGSFS, REG_CSGSFS, REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
	};
	const ucontext_t *interrupted = context;
	const char *stack = (const char *)interrupted->uc_mcontext.gregs[REG_RSP];
	uint64_t size = (end - stack) & ~7;
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");

	for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
		uint64_t value = interrupted->uc_mcontext.gregs[order[i]];

		fwrite(&value, sizeof(value), 1, stdout);
	}
	fwrite(&size, sizeof(size), 1, stdout);
	fwrite(stack, size, 1, stdout);
	while (fgets(line, sizeof(line), maps))
		fputs(line, stdout);
	fflush(stdout);
	_Exit(0);
}

/* The signal comes at the first instruction: another function is in front of it. */
void first(void);
__asm__(".text\n.globl first\n.type first, @function\n"
	"before: .cfi_startproc\n.cfi_undefined rip\nnop\n.cfi_endproc\n"
	"first: .cfi_startproc\nud2\nret\n.cfi_endproc\n.size first, .-first\n"
	".globl jump\n.type jump, @function\n"
	"jump: .cfi_startproc\njmp first\n.cfi_endproc\n.size jump, .-jump\n");

static NOT_INLINED long leaf(long n)
{
#ifdef ENDLESS
	/* DW_CFA_val_expression, of rip: DW_OP_breg16 0. The caller of this function is itself. */
	__asm__ volatile(".cfi_escape 0x16, 16, 2, 0x80, 0");
#endif
	__asm__ volatile("int3" : "+r"(n));
	return n * 3;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	leaf(number + 1);
	exit(1);
}

static NOT_INLINED long aligned(long n)
{
	long words[8] __attribute__((aligned(64)));
	char *more = alloca(n + 100);

	__asm__ volatile("" : : "r"(words), "r"(more) : "memory");
	first();
	__asm__ volatile("" : : "r"(words), "r"(more) : "memory");
	return words[0] + more[n];
}

static NOT_INLINED long recurse(long n)
{
	long result = n == 1 ? aligned(n) : recurse(n - 1);

	__asm__ volatile("" : "+r"(result));
	return result + n;
}

NOT_INLINED long middle(long n)
{
	return recurse(n) * 2;
}

int main(int argc, char **argv)
{
	struct sigaction trap = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
	struct sigaction signal = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };

	end = (char *)(argv + 1);
	sigaction(SIGTRAP, &trap, NULL);
	sigaction(SIGILL, &signal, NULL);
	return middle(4 + argc) & 1;
}
