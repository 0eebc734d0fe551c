// SPDX-License-Identifier: MIT OR Apache-2.0
//! The most samples in a second that an event may ask for.
//!
//! The kernel shows the parameters of no module in Rust, so the driver is asked: it refuses an event with a higher
//! frequency.

use perfmon::event::Builder;
use perfmon::{Cause, Device};

/// The parameter of the module.
const RATE_PARAMETER: &str = "perf_event_max_sample_rate";

/// Returns whether the driver accepts the frequency. Its other errors do not matter here: opening the event reports
/// them.
pub(super) fn accepts_frequency(event: &Builder, device: &Device, hertz: u64) -> bool {
    let opened = event.clone().frequency(hertz).open_on(device);
    !opened.is_err_and(|error| error.cause == Cause::NoSuchEvent)
}

/// Returns the highest accepted frequency, by bisection; `None` without a limit. 1 must be accepted.
pub(super) fn highest_accepted(takes: impl Fn(u64) -> bool) -> Option<u64> {
    /// Above every limit.
    const ABOVE_ANY_LIMIT: u64 = 1 << 32;
    let (mut taken, mut refused) = (1, ABOVE_ANY_LIMIT);
    if takes(refused) {
        return None;
    }
    while taken + 1 < refused {
        let middle = u64::midpoint(taken, refused);
        if takes(middle) {
            taken = middle;
        } else {
            refused = middle;
        }
    }
    Some(taken)
}

/// Returns what to say of a frequency above the limit.
pub(super) fn too_often(hertz: u64, limit: u64) -> String {
    format!(
        "-F {hertz}: the module takes at most {limit} samples a second, as -F max does. Load it with \
         {RATE_PARAMETER}=, which is that limit, for more (0: no limit)."
    )
}

/// Returns what to say of `-F max` where there is no limit.
pub(super) fn no_limit() -> String {
    format!(
        "-F max: the module has no limit (it was loaded with {RATE_PARAMETER}=0). Give a number, as -F 9999."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_found_by_asking() {
        for most in [1, 2, 99_999, 100_000, u64::from(u32::MAX)] {
            assert_eq!(highest_accepted(|hertz| hertz <= most), Some(most));
        }
        assert_eq!(highest_accepted(|_| true), None);
    }
}
