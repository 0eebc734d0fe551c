// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Lion Cove and Cougar Cove.

use super::golden_cove::CACHE;
use super::limit::{Limit, ALL, EXTRA_REGISTER};
use super::{Core, REFERENCE_CYCLES};

/// Lion Cove, and Cougar Cove, which has the same events.
pub(super) const LION_COVE: Core = Core {
    limits: &[
        Limit::unit(0x012a, EXTRA_REGISTER),
        Limit::unit(0x012b, EXTRA_REGISTER),
        Limit::unit(0x01cd, EXTRA_REGISTER),
        Limit::unit(0x02c6, EXTRA_REGISTER),
        Limit::unit(0x03c6, EXTRA_REGISTER),
        Limit::unit(0x40ad, EXTRA_REGISTER),
        Limit::unit(0x04c2, EXTRA_REGISTER),
        Limit::event(0x20, 0xf),
        Limit::unit(0x0148, 0x4),
        Limit::unit(0x0175, 0x4),
        Limit::unit(0x08a3, 0x4),
        Limit::unit(0x0ca3, 0x4),
        Limit::unit(0x04a4, 0x1),
        Limit::unit(0x08a4, 0x1),
        Limit::unit(0x10a4, 0x8),
        Limit::unit(0x01b1, 0x8),
        Limit::unit(0x02cd, 0x3),
        Limit::unit(0x87d0, ALL),
        Limit::range(0xd0, 0xdf, 0xf),
    ],
    fixed: &[REFERENCE_CYCLES],
    cache: Some(&CACHE),
    ..Core::UNKNOWN
};
