// SPDX-License-Identifier: MIT OR Apache-2.0
//! The filter that hands a program's calls of `perf_event_open(2)` to pmctl.

use std::mem::offset_of;

use nix::errno::Errno;
use nix::libc::{self, sock_filter};
use nix::sys::prctl;

/// `AUDIT_ARCH_*` of `<linux/audit.h>`.
const X86_64: u32 = 0xc000_003e;
const I386: u32 = 0x4000_0003;

/// `perf_event_open(2)` of programs of 64 and of 32 bits; of the x32 ABI it is the first with this bit.
const OF_X86_64: u32 = 0x12a;
const OF_I386: u32 = 0x150;
const X32_BIT: u32 = 0x4000_0000;

/// Installs the filter in this process, for good, and returns the descriptor where the calls arrive. The filter is
/// handed down to children and stays at exec.
///
/// The calls wait until they are answered, and of the signals only SIGKILL ends the wait: a call that was made twice
/// would open two events.
pub(super) fn install() -> Result<i32, Errno> {
    // The kernel asks for it: without it, the filter would also be that of a setuid program.
    prctl::set_no_new_privs()?;
    let mut program = program();
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).or(Err(Errno::EINVAL))?,
        filter: program.as_mut_ptr(),
    };
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: The kernel copies the program, whose length and address `program` has: the array lives until the end
    // of this function.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    let listener = Errno::result(result)?;
    i32::try_from(listener).or(Err(Errno::EINVAL))
}

/// Returns the filter: `perf_event_open(2)` is for the listener, every other call is allowed.
fn program() -> [sock_filter; 10] {
    // Offsets in `struct seccomp_data`.
    const NR: u32 = 0;
    const ARCH: u32 = 4;
    const {
        assert!(offset_of!(libc::seccomp_data, nr) == NR as usize);
        assert!(offset_of!(libc::seccomp_data, arch) == ARCH as usize);
    }
    [
        load(ARCH),
        compare(X86_64, 0, 3),
        load(NR),
        compare(OF_X86_64, 5, 0),
        compare(OF_X86_64 | X32_BIT, 4, 3),
        compare(I386, 0, 2),
        load(NR),
        compare(OF_I386, 1, 0),
        answer(libc::SECCOMP_RET_ALLOW),
        answer(libc::SECCOMP_RET_USER_NOTIF),
    ]
}

/// Loads a word of `struct seccomp_data`.
const fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

/// Skips `same` instructions if the word that was loaded is `value`, else `other`.
const fn compare(value: u32, same: u8, other: u8) -> sock_filter {
    let code = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    instruction(code, value, same, other)
}

/// Ends the filter.
const fn answer(action: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, action, 0, 0)
}

#[expect(clippy::cast_possible_truncation, reason = "codes have 16 bits")]
const fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    let code = code as u16;
    sock_filter { code, jt, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel's interpreter makes of the filter.
    fn run(arch: u32, nr: u32) -> u32 {
        let program = program();
        let (mut word, mut at) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match u32::from(code) & 7 {
                libc::BPF_LD => word = if k == 0 { nr } else { arch },
                libc::BPF_JMP => at += usize::from(if word == k { jt } else { jf }),
                _ => return k,
            }
        }
    }

    #[test]
    fn perf_event_open_of_each_abi_is_for_the_listener() {
        const OTHER: u32 = 0xc000_00b7;
        let table = [
            (X86_64, 298, true),
            (X86_64, 0x12a | X32_BIT, true),
            (X86_64, 336, false),
            (X86_64, 0, false),
            (I386, 336, true),
            (I386, 298, false),
            (OTHER, 298, false),
            (OTHER, 336, false),
        ];
        for (arch, nr, ours) in table {
            let wanted = if ours {
                libc::SECCOMP_RET_USER_NOTIF
            } else {
                libc::SECCOMP_RET_ALLOW
            };
            assert_eq!(run(arch, nr), wanted, "{arch:#x} {nr}");
        }
    }
}
