// SPDX-License-Identifier: MIT OR Apache-2.0
//! The highest frequency that the driver accepts, in samples a second.
//!
//! The kernel does not show the parameters of modules in Rust, so the limit is found by trial: the driver refuses to open
//! an event with a higher frequency.

use perfmon::event::Builder;
use perfmon::{Cause, Device};

/// The parameter of the module that sets the limit.
const SAMPLE_RATE_PARAMETER: &str = "perf_event_max_sample_rate";

/// Returns whether the driver accepts the frequency. Other errors of the driver do not matter here:
/// they are reported when the event is opened.
pub(super) fn accepts_frequency(event: &Builder, device: &Device, hertz: u64) -> bool {
    let opened = event.clone().frequency(hertz).open_on(device);
    !opened
        .is_err_and(|error| matches!(error.cause, Cause::NoSuchEvent | Cause::FrequencyTooHigh(_)))
}

/// Returns the highest accepted frequency, by bisection; `None` without a limit. 1 must be accepted.
pub(super) fn highest_accepted(accepts: impl Fn(u64) -> bool) -> Option<u64> {
    /// A frequency above every limit that the module may have.
    const ABOVE_ANY_LIMIT: u64 = 1 << 32;
    let (mut accepted, mut refused) = (1, ABOVE_ANY_LIMIT);
    if accepts(refused) {
        return None;
    }
    while accepted + 1 < refused {
        let middle = u64::midpoint(accepted, refused);
        if accepts(middle) {
            accepted = middle;
        } else {
            refused = middle;
        }
    }
    Some(accepted)
}

/// Returns the message for a frequency above the limit.
pub(super) fn above_limit_message(hertz: u64, limit: u64) -> String {
    format!(
        "-F {hertz}: the module takes at most {limit} samples a second, which `-F max` asks for. For more, load the \
         module with {SAMPLE_RATE_PARAMETER}={hertz} (0: no limit)."
    )
}

/// Returns the message for `-F max` if the module has no limit.
pub(super) fn no_limit_message() -> String {
    format!(
        "-F max: the module has no limit (it was loaded with {SAMPLE_RATE_PARAMETER}=0). Give a number, as -F 9999."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_found_by_trial() {
        for most in [1, 2, 99_999, 100_000, u64::from(u32::MAX)] {
            assert_eq!(highest_accepted(|hertz| hertz <= most), Some(most));
        }
        assert_eq!(highest_accepted(|_| true), None);
    }
}
