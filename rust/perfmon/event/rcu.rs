// SPDX-License-Identifier: GPL-2.0-only
//! Memory that RCU frees after a grace period, so that no caller has to wait for the period.

use core::cell::UnsafeCell;
use kernel::{bindings, prelude::*};

/// The callback head of a value, which RCU uses after [`free`] was called.
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
/// Each value must have a `Head` at [`Self::OFFSET`], which only [`free`] uses.
pub(super) unsafe trait HasHead {
    /// The offset of the head, in bytes.
    const OFFSET: usize;
}

/// Frees a value after a grace period, when no RCU reader uses it any more.
///
/// # Safety
///
/// `this` must come from `KBox::into_raw`, and must not be found any more: only RCU readers that found it before may
/// still use it. To be called once for each value.
pub(super) unsafe fn free<T: HasHead>(this: *const T) {
    /// Frees the value that has this head.
    ///
    /// # Safety
    ///
    /// `head` must belong to a value from `KBox::into_raw` that nothing uses any more.
    unsafe extern "C" fn call<T: HasHead>(head: *mut bindings::callback_head) {
        // SAFETY: `byte_sub` requires that the result stays within the value: RCU passes the head that `call_rcu` got
        // below, which is at `OFFSET` bytes in a `T`.
        let this: *mut T = unsafe { head.byte_sub(T::OFFSET) }.cast();
        // SAFETY: `from_raw` requires a value from `KBox::into_raw` that nothing else uses: the
        // caller of `free` has promised that the value is from `KBox::into_raw`, and that only RCU
        // readers may still use the value, and the grace period has waited for these readers.
        drop(unsafe { KBox::from_raw(this) });
    }

    // SAFETY: `byte_add` requires that the result stays within the value: by `HasHead` a `Head` is at `OFFSET`.
    // `call_rcu` requires a head that is not queued and stays until the callback: the caller passes each value once,
    // and only `call` frees it.
    unsafe {
        let head: *const Head = this.byte_add(T::OFFSET).cast();
        let callback = UnsafeCell::raw_get(&raw const (*head).0);
        bindings::call_rcu(callback, Some(call::<T>));
    }
}
