// SPDX-License-Identifier: GPL-2.0-only
//! The table of calls.

use crate::{abi, counting, session::Session, trace, uaccess};
use kernel::{
    ioctl::{_IOC_DIR, _IOC_SIZE},
    prelude::*,
    uapi::{_IOC_NONE, _IOC_READ, _IOC_WRITE},
};
use zerocopy::FromZeros;

/// Makes [`dispatch`] of a table: command, what is copied in which direction, which descriptors may
/// call it, and who does it.
///
/// `In(T)` is copied in, `Out(T)` out, `InOut(T)` both: the handler changes it in place. `Nothing(())`
/// has no argument; `Opens(T)` is copied in, and the call returns a new descriptor. `Boxed(T)` is copied
/// in, to the heap: it is too large for the stack. A handler of
/// something to copy out has changed nothing else, so a failed copy needs not be undone. That the
/// direction and the size in the command's number are those of the row is checked when the module is
/// compiled.
macro_rules! calls {
    (@bits Nothing) => { _IOC_NONE };
    (@bits In) => { _IOC_WRITE };
    (@bits Boxed) => { _IOC_WRITE };
    (@bits Opens) => { _IOC_WRITE };
    (@bits Out) => { _IOC_READ };
    (@bits InOut) => { _IOC_READ | _IOC_WRITE };
    (@call Nothing $t:ty, $session:ident, $arg:ident, $handler:path) => {
        $handler($session).map(|()| 0)
    };
    (@call In $t:ty, $session:ident, $arg:ident, $handler:path) => {
        $handler($session, uaccess::get::<$t>($arg)?).map(|()| 0)
    };
    (@call Boxed $t:ty, $session:ident, $arg:ident, $handler:path) => {
        $handler($session, uaccess::get_boxed::<$t>($arg)?).map(|()| 0)
    };
    (@call Opens $t:ty, $session:ident, $arg:ident, $handler:path) => {
        $handler($session, uaccess::get::<$t>($arg)?).map(|fd| fd as isize)
    };
    (@call Out $t:ty, $session:ident, $arg:ident, $handler:path) => {
        uaccess::put::<$t>($arg, &$handler($session)?).map(|()| 0)
    };
    (@call InOut $t:ty, $session:ident, $arg:ident, $handler:path) => {{
        let mut value = <$t>::new_zeroed();
        uaccess::fill(&mut value, $arg)?;
        $handler($session, &mut value)?;
        uaccess::put::<$t>($arg, &value).map(|()| 0)
    }};
    (@writers writers, $session:ident) => { $session.is_writer() };
    (@writers anybody, $session:ident) => { true };

    ($($command:ident: $way:ident($t:ty), $who:ident, $handler:path;)*) => {
        $(const _: () = {
            assert!(_IOC_DIR(abi::$command) == calls!(@bits $way));
            assert!(_IOC_SIZE(abi::$command) == size_of::<$t>());
        };)*

        /// Does what `command` asks for, and returns what ioctl(2) does. `arg` is the address of its
        /// argument.
        ///
        /// Makes the first three checks of every call: that there is such a command (ENOTTY), that
        /// the descriptor is open for writing if it must be (EPERM), that the argument can be copied
        /// in (EFAULT).
        #[inline]
        pub(crate) fn dispatch(session: &Session, command: u32, arg: usize) -> Result<isize> {
            match command {
                $(abi::$command => {
                    /// Apart, so that no call pays for the arguments and registers of another.
                    #[inline(never)]
                    #[allow(unused_variables, reason = "some calls have no argument")]
                    fn call(session: &Session, arg: usize) -> Result<isize> {
                        calls!(@call $way $t, session, arg, $handler)
                    }
                    if !calls!(@writers $who, session) {
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
    PMIOREAD: InOut(abi::pmc_data), anybody, counting::read;
    PMIORESET: In(c_int), writers, counting::reset;
    PMIOTSTAMP: Out(abi::pmc_tstamp), anybody, counting::tstamp;
    PMIOGET: InOut(abi::pmc), anybody, counting::get;
    PMIOREADCPU: InOut(abi::pmc_cpu_data), anybody, counting::read_cpu;
    PMIOSETUP2: In(abi::pmc2), writers, counting::setup2;
    PMIOGET2: InOut(abi::pmc2), anybody, counting::get2;

    IOCTL_PERFMON_GET_PROPERTIES: Out(abi::perfmon_properties), anybody, trace::properties;
    IOCTL_PERFMON_ALLOC_TRACE: In(abi::perfmon_alloc), writers, trace::alloc;
    IOCTL_PERFMON_FREE_TRACE: Nothing(()), writers, trace::free;
    IOCTL_PERFMON_GET_ALLOC: Out(abi::perfmon_alloc), writers, trace::get_alloc;
    IOCTL_PERFMON_STAGE_CONFIG: Boxed(abi::perfmon_config), writers, trace::stage;
    IOCTL_PERFMON_GET_CONFIG: Out(abi::perfmon_config), writers, trace::get_config;
    IOCTL_PERFMON_GET_BUFFER_HANDLE: Opens(abi::perfmon_buffer_handle_req), writers, trace::handle;
    IOCTL_PERFMON_START: Nothing(()), writers, trace::start;
    IOCTL_PERFMON_STOP: Nothing(()), writers, trace::stop;
    PERFMON_DEFINE_EVENT: In(abi::perfmon_event_definition), writers, trace::define;
    PERFMON_GET_INFO: Out(abi::perfmon_info), anybody, trace::info;
}
