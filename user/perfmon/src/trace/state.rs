// SPDX-License-Identifier: MIT OR Apache-2.0
//! The states of a trace: one type for each state, one method for each call.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;

use nix::errno::Errno;
use perfmon_core::abi;
use zerocopy::FromZeros;

use super::{Alloc, Buffer, Config};
use crate::sys::Call;
use crate::{Attempt, Cause, Device, Error};

/// Bytes of a page of x86-64.
const PAGE_SIZE: usize = 4096;

/// A state of a [`Trace`].
pub trait State: sealed::State {}
/// A state in which the trace does not run.
pub trait AtRest: State {}

/// The state of a trace that has buffers.
#[derive(Clone, Copy, Debug)]
pub struct Allocated;
/// The state of a trace that has buffers and a configuration.
#[derive(Clone, Copy, Debug)]
pub struct Staged;
/// The state of a trace that records.
#[derive(Clone, Copy, Debug)]
pub struct Running;

mod sealed {
    pub trait State: std::fmt::Debug {}
    impl State for super::Allocated {}
    impl State for super::Staged {}
    impl State for super::Running {}
}

impl State for Allocated {}
impl State for Staged {}
impl State for Running {}
impl AtRest for Allocated {}
impl AtRest for Staged {}

/// The trace of a [`Session`](crate::Session). Dropping it stops the trace and frees its buffers.
///
/// ```text
///  Session --allocate--> Trace<Allocated> --stage--> Trace<Staged> --start--> Trace<Running>
///                               |                     |  ^   ^                      |
///                              free                free  |   '---------stop---------'
///                                                       stage
/// ```
///
/// A session has one trace at a time. The counters of the session may count while the trace runs. A
/// call that fails returns the trace in its old state, in [`Refused`]; with `?` in a function that
/// returns an [`Error`], the trace is dropped.
///
/// ```no_run
/// use perfmon::Session;
/// use perfmon::trace::{Alloc, Config, Event, FixedEvent};
///
/// let config = Config::builder()
///     .event(Event::sampling(FixedEvent::Instructions, 1_000_000).pc())
///     .build()?;
/// let session = Session::open()?;
/// let info = session.device().info()?;
/// let trace = session.allocate(Alloc::new(&info, 256))?.stage(&config)?;
/// let mut buffers = trace.buffers()?;
/// let trace = trace.start()?;
/// std::thread::sleep(std::time::Duration::from_secs(1));
/// let trace = trace.stop()?;
/// for buffer in &mut buffers {
///     for record in buffer.records()?.records() {
///         println!("{:?}", record?);
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Trace<S: State> {
    held_buffers: HeldBuffers,
    state: PhantomData<S>,
}

/// The buffers of a trace in any state, freed on drop.
#[derive(Debug)]
struct HeldBuffers {
    device: Device,
    alloc: Alloc,
    is_freed: bool,
}

impl Drop for HeldBuffers {
    fn drop(&mut self) {
        if !self.is_freed {
            // An error can be ignored: the last drop closes the descriptor, which also frees the trace.
            let _ = self.device.call(Call::StopTrace, || Attempt::StopTrace);
            let _ = self.device.call(Call::FreeTrace, || Attempt::Free);
        }
    }
}

impl Trace<Allocated> {
    pub(crate) fn allocate(device: &Device, alloc: Alloc) -> Result<Self, Error> {
        let raw = abi::perfmon_alloc {
            num_buffers: alloc.buffers,
            buffer_size_in_pages: alloc.pages,
        };
        let attempt = || Attempt::Allocate(alloc);
        device
            .call(Call::AllocTrace(&raw), attempt)
            .map_err(|error| match error.cause {
                Cause::LockedDown if !is_locked_down(device) => Error {
                    cause: Cause::MemoryLimit,
                    ..error
                },
                _ => error,
            })?;
        Ok(Self {
            held_buffers: HeldBuffers {
                device: device.clone(),
                alloc,
                is_freed: false,
            },
            state: PhantomData,
        })
    }
}

/// Returns whether the kernel is locked down. EPERM of an allocation means lockdown or a limit of
/// memory, so this function executes a call that needs no memory: its EPERM means lockdown.
fn is_locked_down(device: &Device) -> bool {
    let mut raw = abi::perfmon_alloc {
        num_buffers: 0,
        buffer_size_in_pages: 0,
    };
    let result = device.call(Call::GetAlloc(&mut raw), || Attempt::Allocation);
    result.is_err_and(|error| error.cause == Cause::LockedDown)
}

impl<S: State> Trace<S> {
    /// Returns the number and size of the buffers that the driver has allocated.
    ///
    /// # Errors
    /// None that are specific to this call.
    pub fn allocation(&self) -> Result<Alloc, Error> {
        let mut raw = abi::perfmon_alloc {
            num_buffers: 0,
            buffer_size_in_pages: 0,
        };
        let device = &self.held_buffers.device;
        device.call(Call::GetAlloc(&mut raw), || Attempt::Allocation)?;
        Ok(Alloc {
            buffers: raw.num_buffers,
            pages: raw.buffer_size_in_pages,
        })
    }

    /// Executes a call that changes the trace's state to `T`.
    fn transition<T: State>(
        self,
        call: Call<'_>,
        attempt: fn() -> Attempt,
    ) -> Result<Trace<T>, Refused<S>> {
        match self.held_buffers.device.call(call, attempt) {
            Ok(()) => Ok(Trace {
                held_buffers: self.held_buffers,
                state: PhantomData,
            }),
            Err(error) => Err(Refused { error, trace: self }),
        }
    }
}

impl<S: AtRest> Trace<S> {
    /// Sets the configuration. It replaces an earlier configuration.
    ///
    /// # Errors
    /// [`Cause::InvalidConfig`], [`Cause::Forbidden`], [`Cause::LockedDown`].
    pub fn stage(self, config: &Config) -> Result<Trace<Staged>, Refused<S>> {
        self.transition(Call::StageConfig(&config.to_abi()), || Attempt::Stage)
    }

    /// Maps the buffer of a CPU.
    ///
    /// # Errors
    /// [`Cause::NoSuchBuffer`], [`Cause::NoDescriptor`], [`Cause::NoMemory`].
    pub fn buffer(&self, cpu: u32) -> Result<Buffer, Error> {
        let HeldBuffers { device, alloc, .. } = &self.held_buffers;
        let request = abi::perfmon_buffer_handle_req { descriptor: cpu };
        let handle = device
            .driver()
            .buffer_handle(&request)
            .map_err(|errno| Error::new(Attempt::BufferHandle(cpu), errno))?;
        let memory = NonZeroUsize::new((alloc.pages as usize).saturating_mul(PAGE_SIZE))
            .ok_or(Errno::EINVAL)
            .and_then(|length| device.driver().map(handle.as_fd(), length))
            .map_err(|errno| Error::new(Attempt::Map(cpu), errno))?;
        Buffer::new(cpu, memory)
    }

    /// Maps the buffers of all CPUs.
    ///
    /// # Errors
    /// As [`buffer`](Self::buffer).
    pub fn buffers(&self) -> Result<Vec<Buffer>, Error> {
        (0..self.held_buffers.alloc.buffers)
            .map(|cpu| self.buffer(cpu))
            .collect()
    }

    /// Frees the buffers. Mapped buffers can still be read.
    ///
    /// # Errors
    /// [`Cause::Forbidden`], [`Cause::LockedDown`]. Dropping the trace also frees the buffers, but can't report an error.
    pub fn free(mut self) -> Result<(), Refused<S>> {
        match self
            .held_buffers
            .device
            .call(Call::FreeTrace, || Attempt::Free)
        {
            Ok(()) => {
                self.held_buffers.is_freed = true;
                Ok(())
            }
            Err(error) => Err(Refused { error, trace: self }),
        }
    }
}

impl Trace<Staged> {
    /// Returns the configuration that the driver has staged.
    ///
    /// # Errors
    /// None that are specific to this call.
    pub fn configuration(&self) -> Result<Config, Error> {
        let mut raw = abi::perfmon_config::new_zeroed();
        let device = &self.held_buffers.device;
        device.call(Call::GetConfig(&mut raw), || Attempt::Staged)?;
        // The driver returns the configuration that it accepted, which was made from a `Config`, so
        // the conversion can't fail.
        Config::from_abi(&raw).map_err(|_| Error {
            attempt: Attempt::Staged,
            cause: Cause::Unexpected(Errno::ERANGE),
        })
    }

    /// Starts recording. The new run overwrites the records of an earlier run, so
    /// [rewind](Buffer::rewind) the buffers before reading them again.
    ///
    /// # Errors
    /// [`Cause::HardwareBusy`] if not enough counters are free,
    /// [`Cause::Untrusted`], [`Cause::Forbidden`], [`Cause::LockedDown`].
    pub fn start(self) -> Result<Trace<Running>, Refused<Staged>> {
        self.transition(Call::StartTrace, || Attempt::StartTrace)
    }
}

impl Trace<Running> {
    /// Stops recording, after writing the last counts.
    ///
    /// # Errors
    /// [`Cause::Untrusted`] if something else changed the registers, so that the records may be wrong. The trace has
    /// stopped nevertheless, and a second call succeeds. [`Cause::Forbidden`], [`Cause::LockedDown`].
    pub fn stop(self) -> Result<Trace<Staged>, Refused<Running>> {
        self.transition(Call::StopTrace, || Attempt::StopTrace)
    }
}

/// The error of a failed call, with the trace in its old state.
///
/// ```no_run
/// use perfmon::trace::{Refused, Running, Staged, Trace};
/// use perfmon::{Cause, Error};
///
/// /// Waits for the counters, if they are in use.
/// fn start(mut trace: Trace<Staged>) -> Result<Trace<Running>, Error> {
///     loop {
///         match trace.start() {
///             Err(Refused { error, trace: same }) if error.cause == Cause::HardwareBusy => trace = same,
///             result => return Ok(result?),
///         }
///         std::thread::sleep(std::time::Duration::from_secs(1));
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Refused<S: State> {
    /// The error of the call.
    pub error: Error,
    /// The trace, in its old state.
    pub trace: Trace<S>,
}

impl<S: State> fmt::Display for Refused<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<S: State> std::error::Error for Refused<S> {}

impl<S: State> From<Refused<S>> for Error {
    fn from(refused: Refused<S>) -> Self {
        refused.error
    }
}
