/* SPDX-License-Identifier: ((GPL-2.0-only WITH Linux-syscall-note) OR MIT) */
/*
 * FreeBSD's <machine/perfmon.h>: the interface of <linux/perfmon.h>, and FreeBSD's
 * names of events.
 */
#ifndef _COMPAT_MACHINE_PERFMON_H
#define _COMPAT_MACHINE_PERFMON_H

#include <sys/ioccom.h>
#include <sys/types.h>

#include <linux/types.h>

/*
 * Programs for FreeBSD take pointers to values as pointers to quad_t. Linux's __s64
 * has the same size but is another type, whose pointers the compiler refuses.
 */
#define __s64	quad_t
#include <linux/perfmon.h>
#undef __s64

/*
 * Event selects of the P6 family. On today's processors only three of them select the
 * same event: PMC6_INST_RETIRED on all processors, PMC6_BR_INST_RETIRED and
 * PMC6_BR_MISS_PRED_RETIRED on Intel's processors. On AMD's processors, 0xc4 and 0xc5
 * count taken branches only; 0xc2 counts all branches, and 0xc3 all mispredicted
 * branches.
 */
#define PMC6_LD_BLOCKS				0x03
#define PMC6_SB_DRAINS				0x04
#define PMC6_MISALIGN_MEM_REF			0x05
#define PMC6_SEGMENT_REG_LOADS			0x06
#define PMC6_FP_COMP_OPS_EXE			0x10
#define PMC6_FP_ASSIST				0x11
#define PMC6_MUL				0x12
#define PMC6_DIV				0x13
#define PMC6_CYCLES_DIV_BUSY			0x14
#define PMC6_L2_ADS				0x21
#define PMC6_L2_DBUS_BUSY			0x22
#define PMC6_L2_DBUS_BUSY_RD			0x23
#define PMC6_L2_LINES_IN			0x24
#define PMC6_L2_M_LINES_INM			0x25
#define PMC6_L2_LINES_OUT			0x26
#define PMC6_L2_M_LINES_OUTM			0x27
#define PMC6_L2_IFETCH				0x28
#define PMC6_L2_LD				0x29
#define PMC6_L2_ST				0x2a
#define PMC6_L2_RQSTS				0x2e
#define PMC6_DATA_MEM_REFS			0x43
#define PMC6_DCU_LINES_IN			0x45
#define PMC6_DCU_M_LINES_IN			0x46
#define PMC6_DCU_M_LINES_OUT			0x47
#define PMC6_DCU_MISS_OUTSTANDING		0x48
#define PMC6_BUS_REQ_OUTSTANDING		0x60
#define PMC6_BUS_BNR_DRV			0x61
#define PMC6_BUS_DRDY_CLOCKS			0x62
#define PMC6_BUS_LOCK_CLOCKS			0x63
#define PMC6_BUS_DATA_RCV			0x64
#define PMC6_BUS_TRAN_BRD			0x65
#define PMC6_BUS_TRAN_RFO			0x66
#define PMC6_BUS_TRAN_WB			0x67
#define PMC6_BUS_TRAN_IFETCH			0x68
#define PMC6_BUS_TRAN_INVAL			0x69
#define PMC6_BUS_TRAN_PWR			0x6a
#define PMC6_BUS_TRAN_P				0x6b
#define PMC6_BUS_TRAN_IO			0x6c
#define PMC6_BUS_TRAN_DEF			0x6d
#define PMC6_BUS_TRAN_BURST			0x6e
#define PMC6_BUS_TRAN_MEM			0x6f
#define PMC6_BUS_TRAN_ANY			0x70
#define PMC6_CPU_CLK_UNHALTED			0x79
#define PMC6_BUS_HIT_DRV			0x7a
#define PMC6_BUS_HITM_DRV			0x7b
#define PMC6_BUS_SNOOP_STALL			0x7e
#define PMC6_IFU_IFETCH				0x80
#define PMC6_IFU_IFETCH_MISS			0x81
#define PMC6_ITLB_MISS				0x85
#define PMC6_IFU_MEM_STALL			0x86
#define PMC6_ILD_STALL				0x87
#define PMC6_RESOURCE_STALLS			0xa2
#define PMC6_INST_RETIRED			0xc0
#define PMC6_FLOPS				0xc1
#define PMC6_UOPS_RETIRED			0xc2
#define PMC6_BR_INST_RETIRED			0xc4
#define PMC6_BR_MISS_PRED_RETIRED		0xc5
#define PMC6_CYCLES_INT_MASKED			0xc6
#define PMC6_CYCLES_INT_PENDING_AND_MASKED	0xc7
#define PMC6_HW_INT_RX				0xc8
#define PMC6_BR_TAKEN_RETIRED			0xc9
#define PMC6_BR_MISS_PRED_TAKEN_RET		0xca
#define PMC6_INST_DECODER			0xd0
#define PMC6_PARTIAL_RAT_STALLS			0xd2
#define PMC6_BR_INST_DECODED			0xe0
#define PMC6_BTB_MISSES				0xe2
#define PMC6_BR_BOGUS				0xe4
#define PMC6_BACLEARS				0xe6

/* Events of the Pentium; no processor that the module supports has them. */
#define PMC5_DATA_READ				0x00
#define PMC5_DATA_WRITE				0x01
#define PMC5_DATA_TLB_MISS			0x02
#define PMC5_DATA_READ_MISS			0x03
#define PMC5_DATA_WRITE_MISS			0x04
#define PMC5_WRITE_M_E				0x05
#define PMC5_DATA_LINES_WBACK			0x06
#define PMC5_DATA_CACHE_SNOOP			0x07
#define PMC5_DATA_CACHE_SNOOP_HIT		0x08
#define PMC5_MEM_ACCESS_BOTH			0x09
#define PMC5_BANK_CONFLICTS			0x0a
#define PMC5_MISALIGNED_DATA			0x0b
#define PMC5_INST_READ				0x0c
#define PMC5_INST_TLB_MISS			0x0d
#define PMC5_INST_CACHE_MISS			0x0e
#define PMC5_SEGMENT_REG_LOAD			0x0f
#define PMC5_BRANCHES				0x12
#define PMC5_BTB_HITS				0x13
#define PMC5_BRANCH_TAKEN			0x14
#define PMC5_PIPELINE_FLUSH			0x15
#define PMC5_INST_EXECUTED			0x16
#define PMC5_INST_EXECUTED_V			0x17
#define PMC5_BUS_UTILIZATION			0x18
#define PMC5_WRITE_BACKUP_STALL			0x19
#define PMC5_DATA_READ_STALL			0x1a
#define PMC5_WRITE_E_M_STALL			0x1b
#define PMC5_LOCKED_BUS				0x1c
#define PMC5_IO_CYCLE				0x1d
#define PMC5_NONCACHE_MEMORY			0x1e
#define PMC5_ADDR_GEN_INTERLOCK			0x1f
#define PMC5_FLOPS				0x22
#define PMC5_BP0_MATCH				0x23
#define PMC5_BP1_MATCH				0x24
#define PMC5_BP2_MATCH				0x25
#define PMC5_BP3_MATCH				0x26
#define PMC5_HW_INTR				0x27
#define PMC5_DATA_RW				0x28
#define PMC5_DATA_RW_MISS			0x29

#endif
