// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device that the events of a program share, so that all of them need only one descriptor of
//! the device.

use std::sync::{Arc, Mutex, TryLockError, Weak};

use crate::sys::Driver;
use crate::{Device, Error};

/// The device, while an event keeps it open.
static SHARED_DEVICE: Mutex<Option<(Weak<dyn Driver>, crate::Properties)>> = Mutex::new(None);

/// Returns the shared device, and opens it if no event keeps it open.
pub(crate) fn device() -> Result<Device, Error> {
    let mut shared = match SHARED_DEVICE.try_lock() {
        Ok(shared) => shared,
        // A poisoned lock can be used: it protects a single assignment, which a panic can't leave
        // half done.
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        // Another thread has the lock while it opens the device. In a child of fork(2) this may be
        // a thread of the parent, which would never unlock it.
        Err(TryLockError::WouldBlock) => return Device::open(),
    };
    if let Some((driver, properties)) = shared.as_ref() {
        if let Some(driver) = driver.upgrade() {
            return Ok(Device::with_properties(driver, *properties));
        }
    }
    let device = Device::open()?;
    *shared = Some((
        Arc::downgrade(&device.shared_driver()),
        *device.properties(),
    ));
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_opens_the_device_is_not_waited_for() {
        let _held = SHARED_DEVICE.try_lock();
        // The result is an error on a machine without the driver.
        let _ = std::thread::spawn(device).join();
    }
}
