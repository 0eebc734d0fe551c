// SPDX-License-Identifier: MIT OR Apache-2.0
//! The most samples in a second that an event may ask for.
//!
//! The kernel shows the parameters of no module in Rust, so the driver is asked: it refuses an event with a higher
//! frequency.

use perfmon::event::Builder;
use perfmon::{Cause, Device};

/// The parameter of the module.
const PARAMETER: &str = "perf_event_max_sample_rate";

/// Returns whether an event may be sampled so often, as far as the driver looks at that: whatever else it refuses, it
/// refuses again.
pub(super) fn takes(event: &Builder, device: &Device, hertz: u64) -> bool {
    let opened = event.clone().frequency(hertz).open_on(device);
    !opened.is_err_and(|error| error.cause == Cause::NoSuchEvent)
}

/// Returns the highest frequency that is taken, by halving; `None` if there is no limit. 1 is taken.
pub(super) fn limit(takes: impl Fn(u64) -> bool) -> Option<u64> {
    /// Above every limit.
    const ABOVE: u64 = 1 << 32;
    let (mut taken, mut refused) = (1, ABOVE);
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
         {PARAMETER}=, which is that limit, for more (0: no limit)."
    )
}

/// Returns what to say of `-F max` where there is no limit.
pub(super) fn no_limit() -> String {
    format!(
        "-F max: the module has no limit (it was loaded with {PARAMETER}=0). Give a number, as -F 9999."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_found_by_asking() {
        for most in [1, 2, 99_999, 100_000, u64::from(u32::MAX)] {
            assert_eq!(limit(|hertz| hertz <= most), Some(most));
        }
        assert_eq!(limit(|_| true), None);
    }
}
