// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counting on the whole machine: the descriptor that may set counters up, and its counters.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use perfmon_core::abi;

use crate::properties::Configuration;
use crate::sys::{Access, Call, Driver};
use crate::trace::{Alloc, Allocated, EventId, Trace};
use crate::{Attempt, Cause, CounterId, Device, Error, EventSelect};

/// The driver, open for counting. Only one program at a time may have it open for counting.
///
/// Its counters become free when the session and all of its [`Counter`]s are dropped.
///
/// ```no_run
/// use perfmon::{CounterId, EventSelect, Modes, Session};
///
/// let session = Session::open()?;
/// let instructions = EventSelect::new(0xc0, 0x00).modes(Modes::User);
/// let counter = session.counter(CounterId::General(0), instructions)?;
/// counter.start()?;
/// let sum: u64 = (0..1000).map(std::hint::black_box).sum();
/// counter.stop()?;
/// println!("{} instructions for {sum}", counter.read()?);
/// # Ok::<(), perfmon::Error>(())
/// ```
#[derive(Debug)]
pub struct Session {
    device: Device,
    /// The counters in use. They are noted because a second `Counter` on the same hardware counter
    /// would change the count of the first.
    counters_in_use: Arc<Mutex<Vec<CounterId>>>,
}

impl Session {
    /// Opens `/dev/perfmon` for counting.
    ///
    /// # Errors
    /// As [`Device::open`], and [`Cause::AnotherWriter`] if another program is counting.
    pub fn open() -> Result<Self, Error> {
        Self::open_path(crate::PATH)
    }

    /// Opens a session on the device node at `path` instead of `/dev/perfmon`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_path(path: impl AsRef<Path>) -> Result<Self, Error> {
        Device::open_node(path.as_ref(), Access::Write).map(Self::with_device)
    }

    /// Creates a session on top of `driver`, for tests.
    ///
    /// # Errors
    /// As [`Device::with_driver`].
    pub fn with_driver(driver: Arc<dyn Driver>) -> Result<Self, Error> {
        Device::with_driver(driver).map(Self::with_device)
    }

    fn with_device(device: Device) -> Self {
        Self {
            device,
            counters_in_use: Arc::default(),
        }
    }

    /// Returns the device, for calls that need no counter.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Sets a counter up on every CPU, stopped and with value 0.
    ///
    /// The first call takes all counters of the machine from Linux's perf until the session ends.
    ///
    /// # Errors
    /// [`Cause::InUse`] if this session has the counter already, [`Cause::HardwareBusy`] if Linux's perf or
    /// the NMI watchdog has the counters, [`Cause::Invalid`] for a counter that the CPUs don't have or a
    /// select that isn't allowed, [`Cause::Untrusted`] if a register does not keep its value,
    /// [`Cause::Forbidden`], [`Cause::LockedDown`].
    pub fn counter(&self, id: CounterId, select: EventSelect) -> Result<Counter, Error> {
        let claim = Claim::new(&self.counters_in_use, id).ok_or(Error {
            attempt: Attempt::Setup(id, select),
            cause: Cause::InUse,
        })?;
        let raw = abi::pmc2 {
            pmc2_num: id.number(),
            pmc2_flags: 0,
            pmc2_select: select.bits(),
            pmc2_extra: 0,
            pmc2_type: 0,
            reserved: 0,
        };
        self.device
            .call(Call::Setup2(&raw), || Attempt::Setup(id, select))?;
        Ok(Counter {
            device: self.device.clone(),
            claim,
            select,
        })
    }

    /// Defines the event of an ID that [`EventId::model`] made, for this session's traces. A later definition
    /// replaces an earlier one. The modes of the select are ignored: [`Event::modes`](crate::trace::Event::modes) of the
    /// configuration sets them.
    ///
    /// ```no_run
    /// use perfmon::trace::EventId;
    /// use perfmon::{EventSelect, Session};
    ///
    /// // Loads that retired, on Intel's large cores.
    /// let loads = EventId::model(0);
    /// Session::open()?.define_event(loads, EventSelect::new(0xd0, 0x81))?;
    /// # Ok::<(), perfmon::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`Cause::InvalidEvent`] if the ID is not model-specific, or the select isn't allowed;
    /// - [`Cause::WrongState`] while a trace of this session is staged or runs;
    /// - [`Cause::Forbidden`], [`Cause::LockedDown`].
    pub fn define_event(&self, id: EventId, select: EventSelect) -> Result<(), Error> {
        let raw = abi::perfmon_event_definition {
            id: id.bits(),
            reserved: 0,
            type_: 0,
            select: select.bits(),
            extra: 0,
            reserved2: [0; 2],
        };
        self.device
            .call(Call::DefineEvent(&raw), || Attempt::DefineEvent(id, select))
    }

    /// Allocates the buffers of a trace: whole buffers for the online CPUs, and only a header for the others.
    ///
    /// ```no_run
    /// use perfmon::Session;
    /// use perfmon::trace::Alloc;
    ///
    /// let session = Session::open()?;
    /// let alloc = Alloc::new(&session.device().info()?, 256);
    /// let trace = session.allocate(alloc)?;
    /// # Ok::<(), perfmon::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Cause::WrongState`] if this session has a trace, [`Cause::InvalidAlloc`], [`Cause::MemoryLimit`],
    /// [`Cause::NoMemory`], [`Cause::Forbidden`], [`Cause::LockedDown`].
    pub fn allocate(&self, alloc: Alloc) -> Result<Trace<Allocated>, Error> {
        Trace::allocate(&self.device, alloc)
    }
}

/// A counter that is set up; it stops when it is dropped.
#[derive(Debug)]
pub struct Counter {
    device: Device,
    claim: Claim,
    select: EventSelect,
}

impl Counter {
    /// Returns the counter's id.
    #[must_use]
    pub fn id(&self) -> CounterId {
        self.claim.id
    }

    /// Returns the counter's event select.
    #[must_use]
    pub fn select(&self) -> EventSelect {
        self.select
    }

    /// Starts the counter. It continues from its present value. Has no effect if the counter runs already.
    ///
    /// # Errors
    /// [`Cause::Untrusted`], [`Cause::Forbidden`], [`Cause::LockedDown`].
    pub fn start(&self) -> Result<(), Error> {
        let id = self.id();
        self.device
            .call(Call::Start(&id.number()), || Attempt::Start(id))
    }

    /// Stops the counter and keeps its value. Has no effect if the counter is stopped already.
    ///
    /// # Errors
    /// [`Cause::Untrusted`] if something else changed the registers, [`Cause::Forbidden`], [`Cause::LockedDown`].
    pub fn stop(&self) -> Result<(), Error> {
        let id = self.id();
        self.device
            .call(Call::Stop(&id.number()), || Attempt::Stop(id))
    }

    /// Zeroes the value; a running counter continues from 0.
    ///
    /// # Errors
    /// [`Cause::Untrusted`], [`Cause::Forbidden`], [`Cause::LockedDown`].
    pub fn reset(&self) -> Result<(), Error> {
        let id = self.id();
        self.device
            .call(Call::Reset(&id.number()), || Attempt::Reset(id))
    }

    /// Returns the number of events that were counted since the setup or the last [`reset`](Self::reset), like
    /// [`Device::read`].
    ///
    /// # Errors
    /// [`Cause::Untrusted`] if something else changed the registers, [`Cause::Forbidden`].
    pub fn read(&self) -> Result<u64, Error> {
        self.device.read(self.id())
    }

    /// Returns the value on each CPU of the range, as [`Device::read_on`] does.
    ///
    /// # Errors
    /// As [`read`](Self::read), [`Cause::NoSuchCpu`], [`Cause::NotCounted`].
    pub fn read_on(&self, cpus: Range<u32>) -> Result<Vec<u64>, Error> {
        self.device.read_on(self.id(), cpus)
    }

    /// Returns the counter's event select, and whether the counter runs.
    ///
    /// # Errors
    /// None that are specific to this call.
    pub fn configuration(&self) -> Result<Configuration, Error> {
        self.device.configuration(self.id())
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // An error can be ignored: the last drop closes the descriptor, which also stops the counter.
        let _ = self.stop();
    }
}

/// A counter's entry in [`Session::counters_in_use`], removed on drop.
#[derive(Debug)]
struct Claim {
    counters_in_use: Arc<Mutex<Vec<CounterId>>>,
    id: CounterId,
}

impl Claim {
    /// Claims the counter, unless it is claimed already.
    fn new(counters_in_use: &Arc<Mutex<Vec<CounterId>>>, id: CounterId) -> Option<Self> {
        // A poisoned lock can be used: a panic can't leave the list half changed.
        let mut list = counters_in_use
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if list.contains(&id) {
            return None;
        }
        list.push(id);
        Some(Self {
            counters_in_use: Arc::clone(counters_in_use),
            id,
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.counters_in_use
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|&id| id != self.id);
    }
}
