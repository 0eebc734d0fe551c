// SPDX-License-Identifier: GPL-2.0-only
//! The values of the extra registers, which some of Intel's events need.

use super::Word;
use crate::logic::extra_registers::ExtraRegister;

/// The [extra registers](crate::logic::extra_registers) of a CPU. All bits zero: the module has written none.
pub(crate) struct ExtraRegisters {
    /// The registers that the module has written since it claimed the CPU, as a mask.
    pub(crate) written_registers: Word,
    /// The present values of the written registers, by [`ExtraRegister::index`].
    pub(crate) values: [Word; ExtraRegister::COUNT],
    /// The values that the written registers had before the module wrote them, by
    /// [`ExtraRegister::index`].
    pub(crate) saved_values: [Word; ExtraRegister::COUNT],
    /// The counters of the events that need an extra register, as a mask.
    pub(crate) counters: Word,
}
