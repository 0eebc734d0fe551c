// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device that all events of a program share, so that only one descriptor of it is open.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::sys::Driver;
use crate::{Device, Error};

/// The device, while an event keeps it open.
static SHARED_DEVICE: Mutex<Option<(Weak<dyn Driver>, crate::Properties)>> = Mutex::new(None);

/// Returns the shared device, and opens it if no event keeps it open.
pub(crate) fn device() -> Result<Device, Error> {
    // The lock protects one assignment: a panic can't leave it half done.
    let mut shared = SHARED_DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
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
