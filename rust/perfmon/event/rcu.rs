// SPDX-License-Identifier: GPL-2.0-only
//! Memory that RCU frees after a grace period, without a caller that waits.

use core::cell::UnsafeCell;
use kernel::{bindings, prelude::*};

/// The callback head of a value, which RCU uses from the call of [`free`].
pub(super) struct Head(UnsafeCell<bindings::callback_head>);

impl Head {
    /// Returns a head that is not queued.
    pub(super) fn new() -> Self {
        Self(UnsafeCell::new(pin_init::zeroed()))
    }
}

/// A type with a [`Head`], so that [`free`] can queue its values.
///
/// # Safety
///
/// Each value has a `Head` at [`Self::OFFSET`], which only [`free`] uses.
pub(super) unsafe trait HasHead {
    /// The offset of the head, in bytes.
    const OFFSET: usize;
}

/// Frees a value after a grace period, when no RCU reader uses it any more.
///
/// # Safety
///
/// `this` must come from `KBox::into_raw`. It can't be found any more: only RCU readers that found it before may
/// still use it. The function is called once for each value.
pub(super) unsafe fn free<T: HasHead>(this: *const T) {
    /// # Safety
    ///
    /// `head` must be that of a value from `KBox::into_raw`, which nothing uses any more.
    unsafe extern "C" fn call<T: HasHead>(head: *mut bindings::callback_head) {
        // SAFETY: RCU passes the head that `call_rcu` got below, which is at `OFFSET` bytes in a `T`: so the
        // subtraction stays within the value.
        let this: *mut T = unsafe { head.byte_sub(T::OFFSET) }.cast();
        // SAFETY: The value comes from `KBox::into_raw`, by the contract of `free`; after the grace period nothing
        // uses it.
        drop(unsafe { KBox::from_raw(this) });
    }

    // SAFETY: `HasHead` says that a `Head` is at `OFFSET` of the value, so the addition stays within the value. The
    // caller passes each value once, so the head is not queued yet; `call` alone frees the value, after RCU has used
    // the head.
    unsafe {
        let head: *const Head = this.byte_add(T::OFFSET).cast();
        let callback = UnsafeCell::raw_get(&raw const (*head).0);
        bindings::call_rcu(callback, Some(call::<T>));
    }
}
