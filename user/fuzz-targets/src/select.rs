// SPDX-License-Identifier: MIT OR Apache-2.0
//! Event selects, as programs pass them to the driver.

use perfmon_core::logic::counter::InvalidCounter;
use perfmon_core::logic::evtsel::EventSelect;

/// Converts an event select. The input has two words of 8 bytes: the bits of the select, and the bits that the CPU has. An
/// accepted select has none of the bits that the driver refuses, and differs from the input only in the enable and the
/// interrupt bit, which the driver sets itself.
///
/// # Panics
/// If one of these properties does not hold.
pub fn select(bytes: &[u8]) {
    let word = |n: usize| {
        let mut word = [0; 8];
        let from = bytes.iter().skip(8 * n);
        word.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        u64::from_le_bytes(word)
    };
    let (bits, available) = (word(0), word(1) & EventSelect::ANY_BITS);
    let own_bits = EventSelect::ENABLE | EventSelect::INTERRUPT;
    let refused_bits = EventSelect::PIN_CONTROL | EventSelect::ANY_THREAD;
    match EventSelect::from_abi(bits, available) {
        Ok(select) => {
            assert_eq!(bits & (refused_bits | !available), 0);
            assert_eq!(select.stopped(), bits & !own_bits);
            assert_eq!(select.running(), bits | own_bits);
            assert_eq!(EventSelect::from_bits(select.running()), select);
            let modes = EventSelect::USER | EventSelect::KERNEL;
            assert_eq!(select.is_modes_only(), select.stopped() & !modes == 0);
            for running in [false, true] {
                let abi_bits = select.to_abi(running);
                assert_eq!(abi_bits & EventSelect::ENABLE != 0, running);
                // A select that the driver returns is accepted again, if the CPU has all of its bits.
                let select_again = EventSelect::from_abi(abi_bits, available | own_bits);
                assert_eq!(select_again, Ok(select));
            }
        }
        Err(InvalidCounter::PinControl) => assert_ne!(bits & EventSelect::PIN_CONTROL, 0),
        Err(InvalidCounter::AnyThread) => assert_ne!(bits & EventSelect::ANY_THREAD, 0),
        Err(InvalidCounter::Select) => assert_ne!(bits & !available, 0),
        Err(other) => panic!("{other:?} is not about event selects"),
    }
    // The value of a register is never refused: the bits that a select can't have are cleared.
    assert_eq!(
        EventSelect::from_bits(bits).stopped() & (own_bits | refused_bits),
        0
    );
}
