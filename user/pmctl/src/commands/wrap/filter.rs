// SPDX-License-Identifier: MIT OR Apache-2.0
//! The filter that hands a program's calls about events to pmctl.

use std::mem::offset_of;

use nix::errno::Errno;
use nix::libc::{self, sock_filter};
use nix::sys::prctl;

/// A call that the filter hands over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FilteredCall {
    /// `perf_event_open(2)`.
    Open,
    /// `prctl(2)` that enables or disables all events that the calling thread has opened.
    SetAll { enabled: bool },
    /// `ioctl(2)` that attaches a BPF program to an event.
    SetBpf,
    /// `bpf(2)` that links a BPF program to an event, or to something else.
    LinkBpf,
}

/// The architectures `AUDIT_ARCH_*` of `<linux/audit.h>`.
const X86_64: u32 = 0xc000_003e;
const I386: u32 = 0x4000_0003;

/// The bit in the numbers of calls that tells the x32 ABI from x86-64.
const X32_BIT: u32 = 0x4000_0000;

/// The conditions under which the filter hands a call over.
struct Rule {
    call: FilteredCall,
    /// Numbers of the call for each of [`ARCHITECTURES`]: programs of x86-64, of x32 and of 32 bits.
    numbers: [u32; 3],
    /// Index of an argument, and the value that its lower half must have; `None` if the arguments don't matter.
    argument: Option<(usize, u32)>,
}

/// The architectures of programs of x86-64, of x32 and of 32 bits.
const ARCHITECTURES: [u32; 3] = [X86_64, X86_64, I386];
/// Numbers of calls for each of [`ARCHITECTURES`].
const OPEN_NUMBERS: [u32; 3] = [298, X32_BIT | 298, 336];
const PRCTL_NUMBERS: [u32; 3] = [157, X32_BIT | 157, 172];
const IOCTL_NUMBERS: [u32; 3] = [16, X32_BIT | 514, 54];
const BPF_NUMBERS: [u32; 3] = [321, X32_BIT | 321, 357];

/// Values of arguments: `PR_TASK_PERF_EVENTS_*`, `PERF_EVENT_IOC_SET_BPF` and `BPF_LINK_CREATE`.
const DISABLE: u32 = 31;
const ENABLE: u32 = 32;
const SET_BPF: u32 = 0x4004_2408;
const LINK_CREATE: u32 = 28;

const RULES: [Rule; 5] = [
    Rule::new(FilteredCall::Open, OPEN_NUMBERS, None),
    Rule::new(
        FilteredCall::SetAll { enabled: true },
        PRCTL_NUMBERS,
        Some((0, ENABLE)),
    ),
    Rule::new(
        FilteredCall::SetAll { enabled: false },
        PRCTL_NUMBERS,
        Some((0, DISABLE)),
    ),
    Rule::new(FilteredCall::SetBpf, IOCTL_NUMBERS, Some((1, SET_BPF))),
    Rule::new(FilteredCall::LinkBpf, BPF_NUMBERS, Some((0, LINK_CREATE))),
];

impl Rule {
    const fn new(call: FilteredCall, numbers: [u32; 3], argument: Option<(usize, u32)>) -> Self {
        Self {
            call,
            numbers,
            argument,
        }
    }

    /// Returns whether the rule applies to a call.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "only the lower half counts, and numbers have no sign"
    )]
    fn applies(&self, data: &libc::seccomp_data) -> bool {
        let number = data.nr as u32;
        let mut numbers = ARCHITECTURES.iter().zip(self.numbers);
        let has_argument = |(index, value): (usize, u32)| data.args[index] as u32 == value;
        numbers.any(|known| known == (&data.arch, number)) && self.argument.is_none_or(has_argument)
    }
}

impl FilteredCall {
    /// Returns the call that the filter has handed over; `None` for a call without a rule.
    pub(super) fn from_data(data: &libc::seccomp_data) -> Option<Self> {
        let rule = RULES.iter().find(|rule| rule.applies(data))?;
        Some(rule.call)
    }
}

/// Installs the filter in this process, for good, and returns the descriptor of its listener. Children inherit the
/// filter, and it stays at exec.
///
/// A call that the listener has received waits for its answer, and only SIGKILL ends this wait: a call that was
/// restarted would open two events. As long as the listener has not received the call, every signal with a handler ends
/// the wait.
pub(super) fn install() -> Result<i32, Errno> {
    // Without privileges the kernel accepts a filter only after no_new_privs: a setuid program
    // would otherwise run with the filter, too.
    prctl::set_no_new_privs()?;
    let mut instructions = build_program();
    let program = libc::sock_fprog {
        len: u16::try_from(instructions.len()).or(Err(Errno::EINVAL))?,
        filter: instructions.as_mut_ptr(),
    };
    let flags =
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    // SAFETY: seccomp(2) reads the `sock_fprog` at its last argument, and from `filter` as many instructions as `len` says,
    // which is the length of the vector there. The structure and the vector live until the end of this function.
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

/// Returns the filter's program: calls of [`RULES`] go to the listener, and every other call is allowed.
fn build_program() -> Vec<sock_filter> {
    // Offsets in `struct seccomp_data`. The lower half of an argument comes first.
    const NR: u32 = 0;
    const ARCH: u32 = 4;
    const ARGUMENTS: usize = 16;
    const {
        assert!(offset_of!(libc::seccomp_data, nr) == NR as usize);
        assert!(offset_of!(libc::seccomp_data, arch) == ARCH as usize);
        assert!(offset_of!(libc::seccomp_data, args) == ARGUMENTS);
    }
    let mut program = Vec::new();
    for rule in &RULES {
        for (architecture, number) in ARCHITECTURES.into_iter().zip(rule.numbers) {
            let mut comparisons = vec![(ARCH, architecture), (NR, number)];
            let offset =
                |argument: usize| u32::try_from(ARGUMENTS + 8 * argument).unwrap_or(u32::MAX);
            comparisons.extend(
                rule.argument
                    .map(|(argument, value)| (offset(argument), value)),
            );
            // If a comparison fails, the rest of the rule is skipped: the further comparisons, and the action.
            for (index, (offset, value)) in comparisons.iter().enumerate() {
                let skipped =
                    u8::try_from(2 * (comparisons.len() - 1 - index) + 1).unwrap_or(u8::MAX);
                program.extend([load(*offset), compare(*value, 0, skipped)]);
            }
            program.push(return_action(libc::SECCOMP_RET_USER_NOTIF));
        }
    }
    program.push(return_action(libc::SECCOMP_RET_ALLOW));
    program
}

/// Returns the instruction that loads a word of `struct seccomp_data`.
const fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

/// Returns the instruction that skips `same` instructions if the loaded word is `value`, otherwise `other` instructions.
const fn compare(value: u32, same: u8, other: u8) -> sock_filter {
    let code = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    instruction(code, value, same, other)
}

/// Returns the instruction that ends the filter with an action.
const fn return_action(action: u32) -> sock_filter {
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

    /// Runs the filter as the kernel's interpreter does, and returns its action.
    fn run_filter(data: &libc::seccomp_data) -> u32 {
        let program = build_program();
        let (mut word, mut at) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match u32::from(code) & 7 {
                libc::BPF_LD => {
                    word = match k {
                        0 => u32::try_from(data.nr).expect("it has no sign"),
                        4 => data.arch,
                        k => {
                            let argument = usize::try_from(k - 16).expect("it is small") / 8;
                            u32::try_from(data.args[argument] & 0xffff_ffff).expect("it is masked")
                        }
                    }
                }
                libc::BPF_JMP => at += usize::from(if word == k { jt } else { jf }),
                _ => return k,
            }
        }
    }

    /// Returns a call with two arguments.
    fn call(arch: u32, nr: u32, first: u64, second: u64) -> libc::seccomp_data {
        libc::seccomp_data {
            nr: i32::try_from(nr).expect("it has no sign"),
            arch,
            instruction_pointer: 0,
            args: [first, second, 0, 0, 0, 0],
        }
    }

    #[test]
    fn calls_about_events_of_each_abi_are_for_the_listener() {
        const OTHER: u32 = 0xc000_00b7;
        let (enable, disable) = (
            FilteredCall::SetAll { enabled: true },
            FilteredCall::SetAll { enabled: false },
        );
        for (data, expected) in [
            (call(X86_64, 298, 0, 0), Some(FilteredCall::Open)),
            (call(X86_64, X32_BIT | 298, 0, 0), Some(FilteredCall::Open)),
            (call(I386, 336, 0, 0), Some(FilteredCall::Open)),
            // These numbers are other calls on these architectures.
            (call(X86_64, 336, 0, 0), None),
            (call(I386, 298, 0, 0), None),
            (call(I386, X32_BIT | 298, 0, 0), None),
            (call(OTHER, 298, 0, 0), None),
            (call(X86_64, 0, 0, 0), None),
            (call(X86_64, 157, 32, 0), Some(enable)),
            (call(X86_64, X32_BIT | 157, 31, 0), Some(disable)),
            (call(I386, 172, 31, 0), Some(disable)),
            // The option is an int, so the upper half of its register is ignored.
            (call(X86_64, 157, 1 << 32 | 31, 0), Some(disable)),
            (call(X86_64, 157, 15, 31), None),
            (call(X86_64, 172, 31, 0), None),
            (call(X86_64, 16, 3, 0x4004_2408), Some(FilteredCall::SetBpf)),
            (
                call(X86_64, X32_BIT | 514, 3, 0x4004_2408),
                Some(FilteredCall::SetBpf),
            ),
            (call(I386, 54, 3, 0x4004_2408), Some(FilteredCall::SetBpf)),
            (call(X86_64, 16, 3, 0x2400), None),
            (call(X86_64, 321, 28, 0), Some(FilteredCall::LinkBpf)),
            (call(I386, 357, 28, 0), Some(FilteredCall::LinkBpf)),
            (call(X86_64, 321, 2, 0), None),
        ] {
            let answer = if expected.is_some() {
                libc::SECCOMP_RET_USER_NOTIF
            } else {
                libc::SECCOMP_RET_ALLOW
            };
            let words = (data.arch, data.nr, data.args);
            assert_eq!(run_filter(&data), answer, "{words:?}");
            assert_eq!(FilteredCall::from_data(&data), expected, "{words:?}");
        }
    }
}
