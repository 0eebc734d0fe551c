// SPDX-License-Identifier: MIT OR Apache-2.0
//! Deferred call chains (`attr.defer_callchain`, from Linux 6.19 on). The kernel writes the
//! program's part of a call chain as a separate record, at its return to the program. The earlier
//! samples have a cookie in place of this part.

use ahash::{AHashMap, AHashSet};
use perfmon_core::logic::perf_event::{PERF_CONTEXT_USER, PERF_CONTEXT_USER_DEFERRED};

use super::bytes::Reader;
use crate::system::text::count;

/// The programs' parts of call chains.
#[derive(Debug, Default)]
pub(super) struct DeferredChains {
    /// Chains by their cookies, which are unique among all CPUs.
    chains: AHashMap<u64, Vec<u64>>,
    /// Cookies of samples for which no record with the chain came.
    missing: AHashSet<u64>,
    /// Number of samples that lack the program's part.
    incomplete: u64,
}

impl DeferredChains {
    /// Adds the chain in the content of a record; `None` if it can't be decoded.
    pub(super) fn add(&mut self, content: &[u8]) -> Option<()> {
        let mut reader = Reader(content);
        let cookie = reader.u64()?;
        let mut chain = reader.words()?;
        if chain.first() == Some(&PERF_CONTEXT_USER) {
            chain.remove(0);
        }
        self.chains.insert(cookie, chain);
        Some(())
    }

    /// Replaces the cookie at the end of a chain, if there is one, by the program's part.
    pub(super) fn resolve(&mut self, chain: &mut Vec<u64>) {
        let [.., PERF_CONTEXT_USER_DEFERRED, cookie] = chain[..] else {
            return;
        };
        chain.truncate(chain.len() - 2);
        if let Some(part) = self.chains.get(&cookie) {
            chain.push(PERF_CONTEXT_USER);
            chain.extend(part);
        } else {
            self.incomplete += 1;
            self.missing.insert(cookie);
        }
    }

    /// Returns a note for the user if parts are missing.
    pub(super) fn missing_note(&self) -> Option<String> {
        (self.incomplete > 0).then(|| {
            format!(
                "{} the callers in the program: the kernel defers these until it returns to the program, and {} of them did \
                 not come before the end, or were lost",
                match self.incomplete {
                    1 => "1 call chain lacks".to_owned(),
                    incomplete => format!("{} lack", count(incomplete, "call chain")),
                },
                count(self.missing.len() as u64, "record"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::bytes::Put;
    use perfmon_core::logic::perf_event::PERF_CONTEXT_KERNEL;

    use super::*;

    fn record(cookie: u64, chain: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.u64(cookie);
        bytes.u64(chain.len() as u64);
        chain.iter().for_each(|word| bytes.u64(*word));
        bytes
    }

    #[test]
    fn a_cookie_is_replaced_by_the_programs_part() {
        let mut deferred = DeferredChains::default();
        for (cookie, chain) in [
            (7, &[0x1000, 0x2000][..]),
            (8, &[PERF_CONTEXT_USER, 0x3000]),
        ] {
            deferred.add(&record(cookie, chain)).expect("it is whole");
        }
        assert_eq!(deferred.add(&record(7, &[1, 2])[..24]), None);
        let mut resolved = |chain: &[u64]| {
            let mut chain = chain.to_vec();
            deferred.resolve(&mut chain);
            chain
        };
        let in_kernel = [
            PERF_CONTEXT_KERNEL,
            u64::MAX - 9999,
            PERF_CONTEXT_USER_DEFERRED,
            7,
        ];
        let expected = [
            PERF_CONTEXT_KERNEL,
            u64::MAX - 9999,
            PERF_CONTEXT_USER,
            0x1000,
            0x2000,
        ];
        assert_eq!(resolved(&in_kernel), expected);
        // Several samples have the same cookie.
        assert_eq!(resolved(&in_kernel), expected);
        assert_eq!(
            resolved(&[PERF_CONTEXT_USER_DEFERRED, 8]),
            [PERF_CONTEXT_USER, 0x3000]
        );
        assert_eq!(
            resolved(&[PERF_CONTEXT_USER, 0x4000]),
            [PERF_CONTEXT_USER, 0x4000]
        );
        assert_eq!(
            resolved(&[PERF_CONTEXT_KERNEL, 1 << 63, PERF_CONTEXT_USER_DEFERRED, 9]),
            [PERF_CONTEXT_KERNEL, 1 << 63]
        );
        let words = deferred.missing_note().expect("one is missing");
        assert!(
            words.starts_with("1 call chain lacks the callers"),
            "{words}"
        );
    }
}
