// SPDX-License-Identifier: GPL-2.0-only
//! The character device, /dev/perfmon.

use crate::{compat, ioctl, session::Session};
use kernel::{
    fs::File,
    miscdevice::{MiscDevice, MiscDeviceOptions, MiscDeviceRegistration},
    prelude::*,
};

/// The name under /dev.
const NAME: &CStr = c"perfmon";

/// Makes the device appear.
pub(crate) fn register() -> impl PinInit<MiscDeviceRegistration<Session>, Error> {
    MiscDeviceRegistration::register(MiscDeviceOptions { name: NAME })
}

#[vtable]
impl MiscDevice for Session {
    type Ptr = KBox<Self>;

    fn open(file: &File, _device: &MiscDeviceRegistration<Self>) -> Result<KBox<Self>> {
        compat::keep_module(file)?;
        Ok(KBox::new(Session::new(file)?, GFP_KERNEL)?)
    }

    #[inline]
    fn ioctl(session: &Self, _file: &File, command: u32, arg: usize) -> Result<isize> {
        ioctl::dispatch(session, command, arg)
    }
}
