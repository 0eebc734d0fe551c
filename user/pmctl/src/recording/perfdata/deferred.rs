// SPDX-License-Identifier: MIT OR Apache-2.0
//! Call chains of which the kernel gives the program's part when it returns to the program (`attr.defer_callchain`, from
//! Linux 6.19 on): a record has it once, and the samples before it have a cookie in its place.

use ahash::{AHashMap, AHashSet};

use super::bytes::Reader;
use crate::system::text::count;

/// `PERF_RECORD_CALLCHAIN_DEFERRED`
pub(super) const CALLCHAIN_DEFERRED: u32 = 22;

/// `PERF_CONTEXT_USER`, and `PERF_CONTEXT_USER_DEFERRED`, which the cookie is behind.
const USER: u64 = 512_u64.wrapping_neg();
const USER_DEFERRED: u64 = 640_u64.wrapping_neg();

/// The programs' parts of call chains.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    /// Chains by their cookies, which differ on all CPUs.
    chains: AHashMap<u64, Vec<u64>>,
    /// Cookies that samples have asked for, and whose chains did not come.
    missing: AHashSet<u64>,
    /// Samples without their part.
    cut: u64,
}

impl Deferred {
    /// Takes the content of a record; `None` if it is broken.
    pub(super) fn take(&mut self, content: &[u8]) -> Option<()> {
        let mut reader = Reader(content);
        let cookie = reader.u64()?;
        let mut chain = reader.words()?;
        if chain.first() == Some(&USER) {
            chain.remove(0);
        }
        self.chains.insert(cookie, chain);
        Some(())
    }

    /// Puts the program's part into the place of the cookie, if the chain ends with one.
    pub(super) fn join(&mut self, chain: &mut Vec<u64>) {
        let [.., USER_DEFERRED, cookie] = chain[..] else {
            return;
        };
        chain.truncate(chain.len() - 2);
        if let Some(part) = self.chains.get(&cookie) {
            chain.push(USER);
            chain.extend(part);
        } else {
            self.cut += 1;
            self.missing.insert(cookie);
        }
    }

    /// Returns what the user must know if parts are missing.
    pub(super) fn in_words(&self) -> Option<String> {
        (self.cut > 0).then(|| {
            format!(
                "{} the callers in the program: the kernel defers these until it returns to the program, and {} of them did \
                 not come before the end, or were lost",
                match self.cut {
                    1 => "1 call chain lacks".to_owned(),
                    cut => format!("{} lack", count(cut, "call chain")),
                },
                count(self.missing.len() as u64, "record"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::bytes::Put;
    use super::*;

    const KERNEL: u64 = 128_u64.wrapping_neg();

    fn record(cookie: u64, chain: &[u64]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.u64(cookie);
        bytes.u64(chain.len() as u64);
        chain.iter().for_each(|word| bytes.u64(*word));
        bytes
    }

    #[test]
    fn a_cookie_is_replaced_by_the_programs_part() {
        let mut deferred = Deferred::default();
        for (cookie, chain) in [(7, &[0x1000, 0x2000][..]), (8, &[USER, 0x3000])] {
            deferred.take(&record(cookie, chain)).expect("it is whole");
        }
        assert_eq!(deferred.take(&record(7, &[1, 2])[..24]), None);
        let mut joined = |chain: &[u64]| {
            let mut chain = chain.to_vec();
            deferred.join(&mut chain);
            chain
        };
        let in_kernel = [KERNEL, u64::MAX - 9999, USER_DEFERRED, 7];
        let expected = [KERNEL, u64::MAX - 9999, USER, 0x1000, 0x2000];
        assert_eq!(joined(&in_kernel), expected);
        // Several samples have the same.
        assert_eq!(joined(&in_kernel), expected);
        assert_eq!(joined(&[USER_DEFERRED, 8]), [USER, 0x3000]);
        assert_eq!(joined(&[USER, 0x4000]), [USER, 0x4000]);
        assert_eq!(
            joined(&[KERNEL, 1 << 63, USER_DEFERRED, 9]),
            [KERNEL, 1 << 63]
        );
        let words = deferred.in_words().expect("one is missing");
        assert!(
            words.starts_with("1 call chain lacks the callers"),
            "{words}"
        );
    }
}
