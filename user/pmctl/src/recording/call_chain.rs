// SPDX-License-Identifier: MIT OR Apache-2.0
//! The words of a call chain: addresses, and marks that say whether the addresses that follow are the kernel's or the
//! program's.

use perfmon_core::logic::perf_event::PERF_CONTEXT_MAX;

use super::unwind::UNWOUND;

/// Returns whether a word of a call chain is a mark between kernel and program: `enum perf_callchain_context`.
pub(super) const fn is_mark(word: u64) -> bool {
    word >= PERF_CONTEXT_MAX
}

/// State of a walk along a call chain.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk {
    /// The next address is that of a caller. Only the first address after a mark is not that of a
    /// caller: it is the place where the kernel or the program was interrupted.
    pub(super) is_at_caller: bool,
    /// The addresses of callers are addresses of calls, and not return addresses.
    pub(super) has_call_addresses: bool,
}

/// Returns the addresses of a call chain, or of its last part. Each address comes with true if it
/// is a return address.
pub(super) fn addresses(chain: &[u64], mut walk: Walk) -> impl Iterator<Item = (u64, bool)> + '_ {
    chain.iter().filter_map(move |word| {
        if is_mark(*word) {
            walk = Walk {
                is_at_caller: false,
                has_call_addresses: *word == UNWOUND,
            };
            return None;
        }
        let is_return = walk.is_at_caller && !walk.has_call_addresses;
        walk.is_at_caller = true;
        Some((*word, is_return))
    })
}

/// Returns the address of the call in front of a return address: the address of the last byte of
/// the call instruction.
pub(crate) const fn call_in_front_of(return_address: u64) -> u64 {
    return_address.wrapping_sub(1)
}

/// Returns the addresses whose names a call chain shows. For a return address, this includes the address of the call,
/// which may be the last instruction of another function.
pub(crate) fn named_addresses(chain: &[u64]) -> impl Iterator<Item = u64> + '_ {
    let addresses = addresses(chain, Walk::default());
    addresses.flat_map(|(address, is_return)| {
        let call = is_return.then(|| call_in_front_of(address));
        call.into_iter().chain([address])
    })
}

#[cfg(test)]
mod tests {
    use perfmon_core::logic::perf_event::{PERF_CONTEXT_KERNEL, PERF_CONTEXT_USER};

    use super::*;

    #[test]
    fn a_return_address_is_named_by_its_call() {
        let named = |chain: &[u64]| named_addresses(chain).collect::<Vec<_>>();
        assert_eq!(named(&[PERF_CONTEXT_USER, 10, 20]), [10, 19, 20]);
        let chain = [PERF_CONTEXT_KERNEL, 1 << 63, PERF_CONTEXT_USER, 10];
        assert_eq!(named(&chain), [1 << 63, 10]);
        assert_eq!(named(&[UNWOUND, 10, 20]), [10, 20], "these are calls");
    }
}
