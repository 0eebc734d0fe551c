// SPDX-License-Identifier: GPL-2.0-only
//! The character device, /dev/perfmon.

use crate::{ioctl, session::Session, sys::compat};
use kernel::{
    fs::File,
    miscdevice::{MiscDevice, MiscDeviceOptions, MiscDeviceRegistration},
    prelude::*,
};

/// The name under /dev.
const NAME: &CStr = c"perfmon";

/// Registers the device.
pub(crate) fn register() -> impl PinInit<MiscDeviceRegistration<Session>, Error> {
    MiscDeviceRegistration::register(MiscDeviceOptions { name: NAME })
}

#[vtable]
impl MiscDevice for Session {
    type Ptr = Pin<KBox<Self>>;

    fn open(file: &File, _device: &MiscDeviceRegistration<Self>) -> Result<Pin<KBox<Self>>> {
        compat::keep_module(file)?;
        KBox::try_pin_init(Session::new(file), GFP_KERNEL)
    }

    #[inline]
    fn ioctl(session: Pin<&Self>, _file: &File, command: u32, arg: usize) -> Result<isize> {
        ioctl::dispatch(session.get_ref(), command, arg)
    }
}
