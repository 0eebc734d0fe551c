// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sample rate, the fields of samples, and the reader's wake-up.

use perfmon_core::logic::event_attr::{self as attr, PerfEventAttr};

use super::Sampler;
use super::record::ALWAYS;
use crate::event::{Builder, Event, shared};
use crate::{Device, Error};

/// Fields behind the call chain, which only [`RawRecord`](super::RawRecord) shows.
const RAW_ONLY_FIELDS: u64 =
    attr::PERF_SAMPLE_BRANCH_STACK | attr::PERF_SAMPLE_REGS_USER | attr::PERF_SAMPLE_STACK_USER;

/// Sampling. [`sample`](Self::sample) makes a [`Sampler`].
impl Builder {
    /// Takes a sample each time that the event has happened `events` times.
    pub fn period(self, events: u64) -> Self {
        self.rate(events, false)
    }

    /// Takes about `hertz` samples in each second that the task runs.
    pub fn frequency(self, hertz: u64) -> Self {
        self.rate(hertz, true)
    }

    fn rate(mut self, number: u64, is_frequency: bool) -> Self {
        self.attr.sample_period = number;
        self.flag(PerfEventAttr::FREQ, is_frequency)
    }

    /// Lets the processor take the samples (PEBS), so that each shows the instruction of the event. Levels 1 and 2 mean the
    /// same, 3 asks for an even distribution, 0 for samples by interrupts. [`Cause::NotSupported`](crate::Cause::NotSupported)
    /// if the CPU lacks it, or if the event asks for something that such samples can't have:
    /// `Documentation/precise-samples.rst`.
    pub fn precise(mut self, level: u8) -> Self {
        const SHIFT: u32 = PerfEventAttr::PRECISE_IP.trailing_zeros();
        self.attr.flags = self.attr.flags & !PerfEventAttr::PRECISE_IP
            | u64::from(level) << SHIFT & PerfEventAttr::PRECISE_IP;
        self
    }

    /// Records the call chain of each sample: of the kernel, and by frame pointers of the program.
    pub fn callchain(self) -> Self {
        self.with_chain(true)
    }

    /// Records the last branches before each sample, of these kinds: `PERF_SAMPLE_BRANCH_*`. They are in the records as
    /// they stand in the ring: [`RawRecord`](super::RawRecord).
    pub fn branches(mut self, kinds: u64) -> Self {
        self.attr.sample_type |= attr::PERF_SAMPLE_BRANCH_STACK;
        self.attr.branch_sample_type = kinds;
        self
    }

    /// Records the program's stack at each sample, at most so many bytes of it, a multiple of 8 below 65535; and those of
    /// its registers whose bit is set, by the numbers of `enum perf_event_x86_regs`. They are for readers that unwind the
    /// stack, as [`branches`](Self::branches) in the records as they stand in the ring.
    pub fn user_stack(mut self, bytes: u32, registers: u64) -> Self {
        self.attr.sample_type |= attr::PERF_SAMPLE_STACK_USER | attr::PERF_SAMPLE_REGS_USER;
        self.attr.sample_stack_user = bytes;
        self.attr.sample_regs_user = registers;
        self
    }

    /// Records at most so many addresses of each call chain; 127 without this.
    pub fn depth(mut self, addresses: u16) -> Self {
        self.attr.sample_max_stack = addresses;
        self
    }

    /// Records no call chains of the kernel.
    pub fn no_kernel_callchain(self) -> Self {
        self.flag(PerfEventAttr::EXCLUDE_CALLCHAIN_KERNEL, true)
    }

    /// Records no call chains of programs.
    pub fn no_user_callchain(self) -> Self {
        self.flag(PerfEventAttr::EXCLUDE_CALLCHAIN_USER, true)
    }

    /// Records the names of tasks, their beginnings and ends: [`Comm`](super::Record::Comm),
    /// [`Fork`](super::Record::Fork), [`Exit`](super::Record::Exit).
    pub fn tasks(self) -> Self {
        self.flag(
            PerfEventAttr::COMM | PerfEventAttr::COMM_EXEC | PerfEventAttr::TASK,
            true,
        )
    }

    /// Records what tasks map that can be executed: [`Map`](super::Record::Map). The kernel may be unable to tell:
    /// [`Info::mappings`](crate::Info::mappings).
    pub fn mappings(self) -> Self {
        self.flag(PerfEventAttr::MMAP | PerfEventAttr::MMAP2, true)
    }

    /// Records when tasks begin and cease to run: [`Switch`](super::Record::Switch).
    pub fn switches(self) -> Self {
        self.flag(PerfEventAttr::CONTEXT_SWITCH, true)
    }

    /// Gives the ring so many pages of 4 KiB, a power of 2; 64 without this.
    pub fn pages(mut self, pages: usize) -> Self {
        self.pages = pages;
        self
    }

    /// Lets the newest records take the place of the oldest, as a flight recorder does: see
    /// [`Sampler::pause`](super::Sampler::pause).
    pub fn overwrite(self) -> Self {
        self.flag(PerfEventAttr::WRITE_BACKWARD, true)
    }

    /// Makes the descriptor readable after so many samples, and not when the ring is half full.
    pub fn wake_after(mut self, samples: u32) -> Self {
        self.attr.wakeup_events = samples;
        self
    }

    /// Opens the event with a ring; its descriptor is closed on exec.
    ///
    /// ```no_run
    /// use perfmon::Event;
    ///
    /// let sampler = Event::instructions().user().frequency(1000).pages(16).sample()?;
    /// # Ok::<(), perfmon::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`open`](Self::open); [`Cause::InvalidRing`](crate::Cause::InvalidRing) for pages that are no power of 2, and for
    /// an [inherited](Self::inherit) event that is not on [one CPU](Self::cpu);
    /// [`Cause::MemoryLimit`](crate::Cause::MemoryLimit) for more pages than the user may pin.
    pub fn sample(&self) -> Result<Sampler, Error> {
        self.sample_on(&shared::device()?)
    }

    /// Opens the sampler on a device that is open already.
    ///
    /// # Errors
    /// As [`sample`](Self::sample).
    pub fn sample_on(&self, device: &Device) -> Result<Sampler, Error> {
        Sampler::new(self, device)
    }

    /// Returns whether the newest records take the place of the oldest.
    pub(super) fn overwrites(&self) -> bool {
        self.attr.flags & PerfEventAttr::WRITE_BACKWARD != 0
    }

    /// Returns whether samples have call chains.
    pub(super) fn has_chain(&self) -> bool {
        self.attr.sample_type & attr::PERF_SAMPLE_CALLCHAIN != 0
    }

    /// Returns the same with or without call chains.
    pub(super) fn with_chain(&self, has_chain: bool) -> Self {
        let mut builder = self.clone();
        builder.attr.sample_type = ALWAYS
            | builder.attr.sample_type & RAW_ONLY_FIELDS
            | if has_chain {
                attr::PERF_SAMPLE_CALLCHAIN
            } else {
                0
            };
        builder
    }

    /// Opens the event such that its records can be read here.
    pub(super) fn open_sampled(&self, device: &Device) -> Result<Event, Error> {
        let mut builder = self.with_chain(self.has_chain());
        builder.attr.read_format |= attr::PERF_FORMAT_LOST;
        builder
            .flag(PerfEventAttr::SAMPLE_ID_ALL, true)
            .open_on(device)
    }
}
