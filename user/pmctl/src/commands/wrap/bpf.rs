// SPDX-License-Identifier: MIT OR Apache-2.0
//! Recognizes calls that attach BPF programs to events. The kernel attaches them to its own events only.

use super::answer::int_argument;
use super::filter::FilteredCall;
use super::listener::Request;
use super::target::Tid;

/// Returns whether a call would attach a BPF program to an event of the driver.
pub(super) fn attaches_to_driver_event(request: &Request) -> bool {
    let caller = Tid(request.thread);
    let [first, second, ..] = request.arguments;
    let event = match request.call {
        FilteredCall::SetBpf => Some(int_argument(first)),
        FilteredCall::LinkBpf => link_target(caller, second),
        FilteredCall::Open | FilteredCall::SetAll { .. } => None,
    };
    event.is_some_and(|event| caller.has_driver_event(event))
}

/// Returns the descriptor that `BPF_LINK_CREATE` links a program to: the second member of its attributes.
fn link_target(caller: Tid, attributes: u64) -> Option<i32> {
    let bytes = caller.read_memory(attributes, 8).ok()?;
    let target = bytes.get(4..)?.try_into().ok()?;
    Some(i32::from_ne_bytes(target))
}
