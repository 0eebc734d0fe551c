// SPDX-License-Identifier: GPL-2.0-only
//! Memory that is freed by RCU: without waiting, when no CPU can be using it any more.

use core::cell::UnsafeCell;
use kernel::{bindings, prelude::*};

/// The part of a value that RCU uses from [`free`] on.
pub(super) struct Head(UnsafeCell<bindings::callback_head>);

impl Head {
    /// Returns one that RCU does not have.
    pub(super) fn new() -> Self {
        Self(UnsafeCell::new(pin_init::zeroed()))
    }
}

/// A type that has a [`Head`].
///
/// # Safety
///
/// A `Head` that nothing else uses is at [`Self::OFFSET`] of each value.
pub(super) unsafe trait HasHead {
    /// The offset of the head, in bytes.
    const OFFSET: usize;
}

/// Frees the value when no CPU can be using it any more.
///
/// # Safety
///
/// `this` must come from `KBox::into_raw`, and nothing finds it any more: only those use it that hold RCU already. The
/// function is called once for it.
pub(super) unsafe fn free<T: HasHead>(this: *const T) {
    /// # Safety
    ///
    /// `head` is that of a value from `KBox::into_raw` that has no user any more.
    unsafe extern "C" fn call<T: HasHead>(head: *mut bindings::callback_head) {
        // SAFETY: RCU passes the head that `call_rcu` below got, which is at `OFFSET` of the value.
        let this: *mut T = unsafe { head.byte_sub(T::OFFSET) }.cast();
        // SAFETY: It comes from `KBox::into_raw`, and after a grace period nothing uses it.
        drop(unsafe { KBox::from_raw(this) });
    }

    // SAFETY: There is a `Head` at `OFFSET` of the value, by the trait. The value is alive until `call` is called, which is
    // once.
    unsafe {
        let head: *const Head = this.byte_add(T::OFFSET).cast();
        let callback = UnsafeCell::raw_get(&raw const (*head).0);
        bindings::call_rcu(callback, Some(call::<T>));
    }
}
