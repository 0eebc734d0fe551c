/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Functions with known register contents. Include it in one file of a program.
 */
#ifndef SELFTESTS_REGISTER_LOOP_H
#define SELFTESTS_REGISTER_LOOP_H

/* Loads register number @n with its own value: VALUE + @n. */
#ifdef __x86_64__
#define VALUE		0x1122334455667700
#define LOAD(name, n)	"	movabs	$0x1122334455667700 + " #n ", %" #name "\n"
#define REGISTERS	0xff0fffULL
#define ABI		PERF_SAMPLE_REGS_ABI_64
#else
#define VALUE		0x11223300
#define LOAD(name, n)	"	mov	$0x11223300 + " #n ", %" #name "\n"
#define REGISTERS	0xfffULL
#define ABI		PERF_SAMPLE_REGS_ABI_32
#endif

/*
 * Functions that execute @n rounds. register_loop() counts the rounds in RCX and keeps the carry
 * flag set, which DEC does not change. register_calls() counts the rounds in R15 (or EBP), and
 * makes a system call in each round. The other registers are loaded before the first round, except
 * RSP, whose value is in register_sp.
 */
void register_loop(unsigned long n);
void register_calls(unsigned long n);
extern const char register_loop_begin[], register_loop_end[];
extern const char register_calls_begin[], register_calls_end[];
unsigned long register_sp;

#ifdef __x86_64__
#define FUNCTION(name, count, call)			\
	".globl " #name ", " #name "_begin, " #name "_end\n"	\
	#name ":\n"					\
	"	push	%rbx\n"				\
	"	push	%rbp\n"				\
	"	push	%r12\n"				\
	"	push	%r13\n"				\
	"	push	%r14\n"				\
	"	push	%r15\n"				\
	LOAD(rax, 0) LOAD(rbx, 1) LOAD(rdx, 3) LOAD(rsi, 4) LOAD(rbp, 6)	\
	LOAD(r8, 16) LOAD(r9, 17) LOAD(r10, 18) LOAD(r11, 19)			\
	LOAD(r12, 20) LOAD(r13, 21) LOAD(r14, 22) LOAD(r15, 23)			\
	"	mov	%rdi, %" #count "\n"		\
	LOAD(rdi, 5)					\
	"	mov	%rsp, register_sp(%rip)\n"	\
	"	stc\n"					\
	#name "_begin:\n"				\
	call						\
	"	dec	%" #count "\n"			\
	"	jnz	" #name "_begin\n"		\
	#name "_end:\n"					\
	"	pop	%r15\n"				\
	"	pop	%r14\n"				\
	"	pop	%r13\n"				\
	"	pop	%r12\n"				\
	"	pop	%rbp\n"				\
	"	pop	%rbx\n"				\
	"	ret\n"

/* The registers that still have their value after getppid(2) by SYSCALL. */
#define REGISTERS_KEPT_BY_CALL	(REGISTERS & 0x770ffaULL)

__asm__(".text\n"
	FUNCTION(register_loop, rcx, "")
	FUNCTION(register_calls, r15,
		 "	mov	$110, %eax\n"
		 "	syscall\n"));
#else
#define FUNCTION(name, count, call)			\
	".globl " #name ", " #name "_begin, " #name "_end\n"	\
	#name ":\n"					\
	"	push	%ebx\n"				\
	"	push	%ebp\n"				\
	"	push	%esi\n"				\
	"	push	%edi\n"				\
	LOAD(eax, 0) LOAD(ebx, 1) LOAD(ecx, 2) LOAD(edx, 3) LOAD(esi, 4)	\
	LOAD(edi, 5) LOAD(ebp, 6)			\
	"	mov	20(%esp), %" #count "\n"	\
	"	mov	%esp, register_sp\n"		\
	"	stc\n"					\
	#name "_begin:\n"				\
	call						\
	"	dec	%" #count "\n"			\
	"	jnz	" #name "_begin\n"		\
	#name "_end:\n"					\
	"	pop	%edi\n"				\
	"	pop	%esi\n"				\
	"	pop	%ebp\n"				\
	"	pop	%ebx\n"				\
	"	ret\n"

/* The registers that still have their value after getppid(2) by INT 0x80. */
#define REGISTERS_KEPT_BY_CALL	(REGISTERS & 0xfbeULL)

__asm__(".text\n"
	FUNCTION(register_loop, ecx, "")
	FUNCTION(register_calls, ebp,
		 "	mov	$64, %eax\n"
		 "	int	$0x80\n"));
#endif

#endif
