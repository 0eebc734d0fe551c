// SPDX-License-Identifier: GPL-2.0-only
//! The table of the device's calls of ioctl(2).

use crate::{
    abi, counting, event,
    ownership::{self, Client},
    session::Session,
    sys::uaccess,
    trace,
};
use kernel::{
    ioctl::{_IOC_DIR, _IOC_SIZE},
    prelude::*,
    uapi::{_IOC_NONE, _IOC_READ, _IOC_WRITE},
};
use zerocopy::FromZeros;

/// Generates [`dispatch`] from a table. A row has the command, its argument, the descriptors that
/// may make the call (`all`, or `writers`: the descriptors that are open for writing), and the
/// handler.
///
/// An argument `In(T)` is copied from the caller, `Out(T)` to the caller. `InOut(T)` is copied both
/// ways, and the handler changes it in place. `Nothing(())` stands for a call without an argument.
/// `Opens(T)` is copied from the caller, and the call returns a new descriptor. `Boxed(T)` is
/// copied from the caller to the heap, since it is too large for the stack. A handler that returns
/// a result to copy out has no other effect, so nothing has to be undone if the copy fails. The
/// compiler checks each row against the direction and the size in the command's number.
///
/// A handler gets the part of the session that it works on, by [`AsRef`].
macro_rules! calls {
    (@direction Nothing) => { _IOC_NONE };
    (@direction In) => { _IOC_WRITE };
    (@direction Boxed) => { _IOC_WRITE };
    (@direction Opens) => { _IOC_WRITE };
    (@direction Out) => { _IOC_READ };
    (@direction InOut) => { _IOC_READ | _IOC_WRITE };
    (@call Nothing $t:ty, $session:ident, $arg:ident, $handler:path) => {
        $handler($session.as_ref()).map(|()| 0)
    };
    (@call In $t:ty, $session:ident, $arg:ident, $handler:path) => {
        $handler($session.as_ref(), uaccess::get::<$t>($arg)?).map(|()| 0)
    };
    (@call Boxed $t:ty, $session:ident, $arg:ident, $handler:path) => {
        $handler($session.as_ref(), uaccess::get_boxed::<$t>($arg)?).map(|()| 0)
    };
    (@call Opens $t:ty, $session:ident, $arg:ident, $handler:path) => {
        $handler($session.as_ref(), uaccess::get::<$t>($arg)?).map(|fd| fd as isize)
    };
    (@call Out $t:ty, $session:ident, $arg:ident, $handler:path) => {
        uaccess::put::<$t>($arg, &$handler($session.as_ref())?).map(|()| 0)
    };
    (@call InOut $t:ty, $session:ident, $arg:ident, $handler:path) => {{
        let mut value = <$t>::new_zeroed();
        uaccess::copy_from_user(&mut value, $arg)?;
        $handler($session.as_ref(), &mut value)?;
        uaccess::put::<$t>($arg, &value).map(|()| 0)
    }};
    (@writers writers, $session:ident) => { AsRef::<Client>::as_ref($session).is_writer() };
    (@writers all, $session:ident) => { true };

    ($($command:ident: $argument:ident($t:ty), $callers:ident, $handler:path;)*) => {
        $(const _: () = {
            assert!(_IOC_DIR(abi::$command) == calls!(@direction $argument));
            assert!(_IOC_SIZE(abi::$command) == size_of::<$t>());
        };)*

        /// Serves ioctl(2). `arg` is the user address of the argument.
        ///
        /// Makes the first three checks of every call: that the command exists (ENOTTY), that the descriptor
        /// is open for writing if it must be (EPERM), that the argument can be copied in (EFAULT).
        #[inline]
        pub(crate) fn dispatch(session: &Session, command: u32, arg: usize) -> Result<isize> {
            match command {
                $(abi::$command => {
                    /// The function is not inlined, to keep large arguments off the stack of the fast calls.
                    #[inline(never)]
                    #[allow(unused_variables, reason = "some calls have no argument")]
                    fn call(session: &Session, arg: usize) -> Result<isize> {
                        calls!(@call $argument $t, session, arg, $handler)
                    }
                    if !calls!(@writers $callers, session) {
                        return Err(EPERM);
                    }
                    call(session, arg)
                })*
                _ => Err(ENOTTY),
            }
        }
    };
}

calls! {
    PMIOSETUP: In(abi::pmc), writers, counting::setup;
    PMIOSTART: In(c_int), writers, counting::start;
    PMIOSTOP: In(c_int), writers, counting::stop;
    PMIOREAD: InOut(abi::pmc_data), all, counting::read;
    PMIORESET: In(c_int), writers, counting::reset;
    PMIOTSTAMP: Out(abi::pmc_tstamp), all, counting::tstamp;
    PMIOGET: InOut(abi::pmc), all, counting::get;
    PMIOREADCPU: InOut(abi::pmc_cpu_data), all, counting::read_cpu;
    PMIOSETUP2: In(abi::pmc2), writers, counting::setup2;
    PMIOGET2: InOut(abi::pmc2), all, counting::get2;

    IOCTL_PERFMON_GET_PROPERTIES: Out(abi::perfmon_properties), all, trace::get_properties;
    IOCTL_PERFMON_ALLOC_TRACE: In(abi::perfmon_alloc), writers, trace::alloc;
    IOCTL_PERFMON_FREE_TRACE: Nothing(()), writers, trace::free;
    IOCTL_PERFMON_GET_ALLOC: Out(abi::perfmon_alloc), writers, trace::get_alloc;
    IOCTL_PERFMON_STAGE_CONFIG: Boxed(abi::perfmon_config), writers, trace::stage;
    IOCTL_PERFMON_GET_CONFIG: Out(abi::perfmon_config), writers, trace::get_config;
    IOCTL_PERFMON_GET_BUFFER_HANDLE: Opens(abi::perfmon_buffer_handle_req), writers, trace::get_buffer_handle;
    IOCTL_PERFMON_START: Nothing(()), writers, trace::start;
    IOCTL_PERFMON_STOP: Nothing(()), writers, trace::stop;
    PERFMON_DEFINE_EVENT: In(abi::perfmon_event_definition), writers, trace::define_event;
    PERFMON_GET_INFO: Out(abi::perfmon_info), all, trace::get_info;

    PERFMON_EVENT_OPEN: Opens(abi::perfmon_event_open), all, event::open;
    PERFMON_GET_OWNER: InOut(abi::perfmon_counter_owner), all, ownership::get_owner;
}
