// SPDX-License-Identifier: MIT OR Apache-2.0
//! Samples of programs: a ring that the kernel writes records to while the program runs.
//!
//! A [`Sampler`] is an [`Event`] with a ring. A [`Builder`] chooses the event and the period of its
//! samples:
//!
//! ```no_run
//! use perfmon::Event;
//! use perfmon::sampler::Record;
//!
//! let mut sampler = Event::cycles().user().period(100_003).callchain().sample()?;
//! let sum: u64 = (0..10_000_000).map(std::hint::black_box).sum();
//! for record in &sampler.records() {
//!     match record? {
//!         Record::Sample(sample) => println!("{:#x}, {} calls", sample.ip, sample.callchain().count()),
//!         Record::Lost { samples, .. } => println!("{samples} samples lost"),
//!         _ => {}
//!     }
//! }
//! # let _ = sum;
//! # Ok::<(), perfmon::Error>(())
//! ```
//!
//! - **Nothing is copied.** [`Records`] borrows the ring, and a [`Record`] reads its words there. Dropping `Records` frees
//!   the space in the ring for the kernel.
//! - **A full ring loses samples**, and [`Record::Lost`] has their number. Make the ring larger with
//!   [`pages`](Builder::pages), and read when [`wait`](Sampler::wait) returns.
//! - **Async**: a sampler is a descriptor ([`AsFd`], [`AsRawFd`]) that becomes readable when the ring is half full, or as
//!   [`wake_after`](Builder::wake_after) says. It fits into poll(2), epoll(7), and `AsyncFd` of Tokio.
//! - **Flight recording**: a ring with [`overwrite`](Builder::overwrite) holds the newest records.
//! - **Several events** can share a ring ([`Sampler::add`]). Their records are then in one order,
//!   and one descriptor is enough to wait for all of them.
//! - **Programs with children**: [`inherit`](Builder::inherit) needs a sampler for each [CPU](Builder::cpu), as Linux's perf
//!   does.
//! - **Names**: [`tasks`](Builder::tasks) and [`mappings`](Builder::mappings) record in the same
//!   ring the names and files that addresses belong to. A [`dummy`](Event::dummy) event has these
//!   records without samples.
//! - **Nothing in a ring is trusted**: whatever another program writes there, reading the ring returns an error and never
//!   faults.

mod builder;
mod mapping;
mod raw;
mod record;
mod records;
mod stamp;
mod wait;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use self::record::SampleShape;
use self::wait::Waiter;
use crate::event::{Builder, Event, shared};
use crate::sys::{EventCall, RingMapping, wait_for_kernel};
use crate::{Attempt, Device, Error};

pub use mapping::Mapping;
pub use raw::RawRecord;
pub use record::{Callchain, Frame, Record, Sample};
pub use records::{Iter, RawRecords, Records};
pub use stamp::{Stamp, Task, TaskName};
pub use wait::Ready;

/// An event that writes samples into a ring, until it is dropped. [`Builder::sample`] opens it.
#[derive(Debug)]
pub struct Sampler {
    /// The first event's ring. This field is declared first, so that the ring is unmapped before
    /// the events are closed.
    ring: RingMapping,
    /// The reader's position: bytes read since the ring was mapped. The position is stored here,
    /// and never read back from the ring, because other programs may write there.
    tail: u64,
    shape: SampleShape,
    /// The events with their IDs; the first event owns the ring.
    events: Vec<(u64, Event)>,
    waiter: Waiter,
}

impl Sampler {
    fn new(builder: &Builder, device: &Device) -> Result<Self, Error> {
        let event = builder.open_sampled(device)?;
        let attempt = |errno| {
            Error::new(
                Attempt::MapRing(event.label().clone(), builder.pages),
                errno,
            )
        };
        let overwrites = builder.overwrites();
        let ring = RingMapping::new(event.as_fd(), builder.pages, !overwrites).map_err(attempt)?;
        Ok(Self {
            ring,
            tail: 0,
            shape: builder.shape(),
            events: vec![(event.id()?, event)],
            waiter: Waiter::default(),
        })
    }

    /// Opens another event that writes to this ring, and returns its index in [`events`](Self::events). Its samples
    /// have the same fields as the first event's: they have [data addresses](Builder::data_addresses) only if the first
    /// event's samples have them. The added event must count the same thread, or the same CPU, as the first event.
    ///
    /// # Errors
    /// As [`Builder::open`]; [`Cause::RingMismatch`](crate::Cause::RingMismatch) if the two can't share a ring.
    pub fn add(&mut self, event: &Builder) -> Result<usize, Error> {
        self.add_on(event, &shared::device()?)
    }

    /// Adds the event on a device that is open already.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_on(&mut self, event: &Builder, device: &Device) -> Result<usize, Error> {
        let mut event = event.with_shape(SampleShape {
            // Events without samples, such as a dummy, have no data address. Samples that are not precise have the
            // address 0.
            has_data_address: self.shape.has_data_address && event.is_sampled(),
            ..self.shape
        });
        if self.ring.tail().is_none() {
            event = event.overwrite();
        }
        let event = event.open_sampled(device)?;
        let attempt = Attempt::ShareRing(event.label().clone());
        event.call(attempt, EventCall::SetOutput(self.as_fd()))?;
        self.events.push((event.id()?, event));
        Ok(self.events.len() - 1)
    }

    /// Returns the events, in the order in which they were added.
    #[must_use]
    pub fn events(&self) -> impl ExactSizeIterator<Item = &Event> {
        self.events.iter().map(|(_, event)| event)
    }

    /// Returns the index in [`events`](Self::events) of the event with this ID, which records have as [`Stamp::id`].
    #[must_use]
    pub fn index_of(&self, id: u64) -> Option<usize> {
        self.events.iter().position(|(known, _)| *known == id)
    }

    /// Returns the records that were written since the last call, in their order.
    ///
    /// Dropping them frees their space in the ring. A ring with [`overwrite`](Builder::overwrite)
    /// returns the newest record first and the oldest record that is not overwritten last.
    /// [`pause`](Self::pause) such a ring before this call.
    pub fn records(&mut self) -> Records<'_> {
        let event = &self.events[0].1;
        Records::new(&self.ring, &mut self.tail, event, self.shape)
    }

    /// Stops the kernel from writing to the ring until [`resume`](Self::resume), so that a ring with
    /// [`overwrite`](Builder::overwrite) does not change while it is read. Samples are lost meanwhile.
    ///
    /// ```no_run
    /// use perfmon::Event;
    /// use perfmon::sampler::Record;
    ///
    /// let mut sampler = Event::cycles().user().period(100_003).overwrite().sample()?;
    /// // When something has gone wrong:
    /// sampler.pause()?;
    /// for record in &sampler.records() {
    ///     if let Record::Sample(sample) = record? {
    ///         println!("{:#x} at {}", sample.ip, sample.stamp.time);
    ///     }
    /// }
    /// sampler.resume()?;
    /// # Ok::<(), perfmon::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of `PERF_EVENT_IOC_PAUSE_OUTPUT`.
    pub fn pause(&self) -> Result<(), Error> {
        Self::pause_all([self])
    }

    /// Pauses several samplers, and waits only once for all of them.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub fn pause_all<'a>(samplers: impl IntoIterator<Item = &'a Self>) -> Result<(), Error> {
        let mut samplers = samplers.into_iter();
        samplers.try_for_each(|sampler| sampler.call(EventCall::Pause(true)))?;
        // Waits until the kernel has finished all records that it had begun before the pause.
        wait_for_kernel();
        Ok(())
    }

    /// Lets the kernel write to the ring again.
    ///
    /// # Errors
    /// As [`pause`](Self::pause).
    pub fn resume(&self) -> Result<(), Error> {
        self.call(EventCall::Pause(false))
    }

    fn call(&self, call: EventCall<'_>) -> Result<(), Error> {
        let event = &self.events[0].1;
        event.call(Attempt::ControlEvent(event.label().clone()), call)
    }

    /// Waits until the ring is half full, or as [`wake_after`](Builder::wake_after) says; at most for `limit`, or without
    /// limit if it is `None`.
    ///
    /// # Errors
    /// The errors of poll(2).
    pub fn wait(&self, limit: Option<Duration>) -> Result<Ready, Error> {
        let event = |index: usize| self.events.get(index).map(|(_, event)| event.as_fd());
        let ready = self.waiter.wait(event, limit);
        let attempt = || Attempt::ReadRing(self.events[0].1.label().clone());
        ready.map_err(|errno| Error::new(attempt(), errno))
    }

    /// Starts sampling.
    ///
    /// # Errors
    /// As [`Event::enable`].
    pub fn enable(&self) -> Result<(), Error> {
        self.events().try_for_each(Event::enable)
    }

    /// Stops sampling. The records in the ring are kept.
    ///
    /// # Errors
    /// As [`Event::disable`].
    pub fn disable(&self) -> Result<(), Error> {
        self.events().try_for_each(Event::disable)
    }

    /// Returns the number of lost samples of all events.
    ///
    /// # Errors
    /// As [`Event::read`].
    pub fn lost_samples(&self) -> Result<u64, Error> {
        self.events().map(Event::lost_samples).sum()
    }
}

/// The descriptor of the first event, for poll(2). It hangs up as soon as the tasks of this event have ended. The
/// descriptors of the other [`events`](Sampler::events) also become readable with the ring.
impl AsFd for Sampler {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events[0].1.as_fd()
    }
}

impl AsRawFd for Sampler {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}
