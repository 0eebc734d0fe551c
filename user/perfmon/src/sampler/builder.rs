// SPDX-License-Identifier: MIT OR Apache-2.0
//! The sample rate, the fields of samples, and the reader's wake-up: options of sampling for the [`Builder`] of events.

use perfmon_core::logic::event_attr::{self as attr, PerfEventAttr};

use super::Sampler;
use super::record::{SAMPLE_FIELDS, SampleShape};
use crate::event::{Builder, Event, shared};
use crate::{Device, Error};

/// The fields that follow the call chain in a sample. Only [`RawRecord`](super::RawRecord) shows
/// them.
const RAW_ONLY_FIELDS: u64 = attr::PERF_SAMPLE_BRANCH_STACK
    | attr::PERF_SAMPLE_REGS_USER
    | attr::PERF_SAMPLE_STACK_USER
    | attr::PERF_SAMPLE_WEIGHT_STRUCT
    | attr::PERF_SAMPLE_DATA_SRC
    | attr::PERF_SAMPLE_CGROUP;

/// Sampling. [`sample`](Self::sample) makes a [`Sampler`].
impl Builder {
    /// Takes a sample each time that the event has happened `events` times.
    pub fn period(self, events: u64) -> Self {
        self.with_sample_rate(events, false)
    }

    /// Takes about `hertz` samples in each second that the task runs.
    pub fn frequency(self, hertz: u64) -> Self {
        self.with_sample_rate(hertz, true)
    }

    fn with_sample_rate(mut self, number: u64, is_frequency: bool) -> Self {
        self.attr.sample_period = number;
        self.flag(PerfEventAttr::FREQ, is_frequency)
    }

    /// Lets the processor take the samples (PEBS), so that each sample has the address of the instruction that caused
    /// the event. Level 0 asks for samples by interrupts instead, levels 1 and 2 mean the same, and level 3 asks for an
    /// even distribution of the samples.
    ///
    /// Opening fails with [`Cause::NotSupported`](crate::Cause::NotSupported) if the CPU lacks
    /// PEBS, or if the configuration asks for something that PEBS samples can't have. Samples with
    /// call chains, registers, stacks, counts or branches cost an interrupt each: see
    /// `Documentation/precise-samples.rst`.
    pub fn precise(mut self, level: u8) -> Self {
        self.attr.flags = self.attr.flags & !PerfEventAttr::PRECISE_IP
            | u64::from(level) * PerfEventAttr::PRECISE_LEVEL & PerfEventAttr::PRECISE_IP;
        self
    }

    /// Records the call chain of each sample, in the kernel and, by frame pointers, in the program.
    pub fn callchain(mut self) -> Self {
        self.attr.sample_type |= attr::PERF_SAMPLE_CALLCHAIN;
        self
    }

    /// Records the last branches of these kinds (`PERF_SAMPLE_BRANCH_*`) before each sample. Only
    /// [`RawRecord`](super::RawRecord) shows them.
    pub fn branches(mut self, kinds: u64) -> Self {
        self.attr.sample_type |= attr::PERF_SAMPLE_BRANCH_STACK;
        self.attr.branch_sample_type = kinds;
        self
    }

    /// Records at each sample the top `bytes` of the program's stack, a multiple of 8 below 65535, and the program's
    /// registers whose bits are set (`enum perf_event_x86_regs`), for readers that unwind the stack. Only
    /// [`RawRecord`](super::RawRecord) shows them.
    pub fn user_stack(mut self, bytes: u32, registers: u64) -> Self {
        self.attr.sample_type |= attr::PERF_SAMPLE_STACK_USER | attr::PERF_SAMPLE_REGS_USER;
        self.attr.sample_stack_user = bytes;
        self.attr.sample_regs_user = registers;
        self
    }

    /// Records the address of the data that the sampled instruction reads or writes:
    /// [`Sample::data_address`](super::Sample::data_address). Only [precise](Self::precise) samples have it.
    pub fn data_addresses(mut self) -> Self {
        self.attr.sample_type |= attr::PERF_SAMPLE_ADDR;
        self
    }

    /// Records the latency of the sampled memory access, as `union perf_sample_weight` with its three parts. Only
    /// [precise](Self::precise) samples have it, and only [`RawRecord`](super::RawRecord) shows it.
    pub fn weights(mut self) -> Self {
        self.attr.sample_type |= attr::PERF_SAMPLE_WEIGHT_STRUCT;
        self
    }

    /// Records where the data of the sampled memory access came from, as `union perf_mem_data_src`. Only
    /// [precise](Self::precise) samples have it, and only [`RawRecord`](super::RawRecord) shows it.
    pub fn data_sources(mut self) -> Self {
        self.attr.sample_type |= attr::PERF_SAMPLE_DATA_SRC;
        self
    }

    /// Records the cgroup of the sampled task: its id, which is the inode number of its directory, is the last word of a
    /// record as it stands in the ring.
    pub fn cgroup_ids(mut self) -> Self {
        self.attr.sample_type |= attr::PERF_SAMPLE_CGROUP;
        self
    }

    /// Records at most this number of addresses of each call chain; the default is 127.
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

    /// Records the executable mappings that tasks make: [`Map`](super::Record::Map). Requires a
    /// kernel where [`Info::has_mappings`](crate::Info::has_mappings) is set.
    pub fn mappings(self) -> Self {
        self.flag(PerfEventAttr::MMAP | PerfEventAttr::MMAP2, true)
    }

    /// Records the mappings of data, which can't be executed. [`mappings`](Self::mappings) records
    /// the mappings of code. Both need a kernel where
    /// [`Info::has_mappings`](crate::Info::has_mappings) is set.
    pub fn data_mappings(self) -> Self {
        self.flag(PerfEventAttr::MMAP_DATA, true)
    }

    /// Records when tasks are switched in and out: [`Switch`](super::Record::Switch).
    pub fn switches(self) -> Self {
        self.flag(PerfEventAttr::CONTEXT_SWITCH, true)
    }

    /// Records the ids and paths of new cgroups, as `PERF_RECORD_CGROUP`: [`Other`](super::Record::Other).
    pub fn new_cgroups(self) -> Self {
        self.flag(PerfEventAttr::CGROUP, true)
    }

    /// Sets the size of the ring in pages of 4 KiB, a power of 2; the default is 64.
    pub fn pages(mut self, pages: usize) -> Self {
        self.pages = pages;
        self
    }

    /// Lets the newest records overwrite the oldest records, like a flight recorder: see
    /// [`Sampler::pause`](super::Sampler::pause).
    pub fn overwrite(self) -> Self {
        self.flag(PerfEventAttr::WRITE_BACKWARD, true)
    }

    /// Makes the descriptor readable after this number of samples, instead of when the ring is half full.
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
    /// As [`open`](Self::open); [`Cause::RingSize`](crate::Cause::RingSize) if the number of pages
    /// is not a power of 2; [`Cause::InheritedRing`](crate::Cause::InheritedRing) for an event that
    /// is [inherited](Self::inherit) or counts a cgroup, unless it counts on [one CPU](Self::cpu)
    /// only; [`Cause::MemoryLimit`](crate::Cause::MemoryLimit) for more pages than the user may
    /// pin.
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

    /// Returns whether the newest records overwrite the oldest.
    pub(super) fn overwrites(&self) -> bool {
        self.attr.flags & PerfEventAttr::WRITE_BACKWARD != 0
    }

    /// Returns whether the event has samples.
    pub(super) const fn is_sampled(&self) -> bool {
        self.attr.sample_period != 0
    }

    /// Returns the optional fields that this library decodes and that the samples have.
    pub(super) fn shape(&self) -> SampleShape {
        let has_field = |field| self.attr.sample_type & field != 0;
        SampleShape {
            has_data_address: has_field(attr::PERF_SAMPLE_ADDR),
            has_chain: has_field(attr::PERF_SAMPLE_CALLCHAIN),
        }
    }

    /// Returns the configuration with these optional fields.
    pub(super) fn with_shape(&self, shape: SampleShape) -> Self {
        let mut builder = self.clone();
        builder.attr.sample_type =
            SAMPLE_FIELDS | builder.attr.sample_type & RAW_ONLY_FIELDS | shape.fields();
        builder
    }

    /// Opens the event with the record format that this library's readers expect.
    pub(super) fn open_sampled(&self, device: &Device) -> Result<Event, Error> {
        let mut builder = self.with_shape(self.shape());
        builder.attr.read_format |= attr::PERF_FORMAT_LOST;
        builder
            .flag(PerfEventAttr::SAMPLE_ID_ALL, true)
            .open_on(device)
    }
}
