// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one place where this crate calls the kernel.
//!
//! Everything above speaks to a [`Driver`]. The real one is [`Node`], an open `/dev/perfmon`; a test
//! gives its own to [`Session::with_driver`](crate::Session::with_driver).

mod event;
mod mapping;
mod ring;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use perfmon_core::abi;

pub use event::{EventCall, EventOpen};
pub use mapping::Mapping;
pub(crate) use ring::{RingMapping, wait_for_kernel};

/// A call to the driver: one variant an ioctl, with its structure of the ABI.
#[expect(
    missing_docs,
    reason = "each is the ioctl of that name in include/uapi/linux/perfmon.h"
)]
#[non_exhaustive]
pub enum Call<'a> {
    Setup2(&'a abi::pmc2),
    Start(&'a i32),
    Stop(&'a i32),
    Read(&'a mut abi::pmc_data),
    Reset(&'a i32),
    Timestamp(&'a mut abi::pmc_tstamp),
    Get2(&'a mut abi::pmc2),
    ReadCpu(&'a mut abi::pmc_cpu_data),
    Properties(&'a mut abi::perfmon_properties),
    Info(&'a mut abi::perfmon_info),
    DefineEvent(&'a abi::perfmon_event_definition),
    AllocTrace(&'a abi::perfmon_alloc),
    FreeTrace,
    GetAlloc(&'a mut abi::perfmon_alloc),
    StageConfig(&'a abi::perfmon_config),
    GetConfig(&'a mut abi::perfmon_config),
    StartTrace,
    StopTrace,
    GetOwner(&'a mut abi::perfmon_counter_owner),
}

/// The seam for all calls to the driver.
pub trait Driver: fmt::Debug + Send + Sync {
    /// Makes one call; the structure is changed only if it succeeds.
    ///
    /// # Errors
    /// The errors of the ioctl: the table in `include/uapi/linux/perfmon.h`.
    fn call(&self, call: Call<'_>) -> Result<(), Errno>;

    /// Asks for a buffer of the trace: the one ioctl that gives a descriptor.
    ///
    /// # Errors
    /// As [`call`](Self::call). A driver that has no buffers doesn't know the command.
    fn buffer_handle(&self, request: &abi::perfmon_buffer_handle_req) -> Result<OwnedFd, Errno> {
        let _ = request;
        Err(Errno::ENOTTY)
    }

    /// Maps the first `length` bytes of such a buffer.
    ///
    /// # Errors
    /// Those of mmap(2).
    fn map(&self, handle: BorrowedFd<'_>, length: NonZeroUsize) -> Result<Mapping, Errno> {
        Mapping::new(handle, length)
    }

    /// Opens an event, closed on exec if its flags say so.
    ///
    /// # Errors
    /// As [`call`](Self::call), and those of `perf_event_open(2)`; EINVAL also if there are fewer bytes than the
    /// attributes say. A driver that has no events doesn't know the command.
    fn open_event(&self, open: &mut EventOpen<'_>) -> Result<OwnedFd, Errno> {
        let _ = open;
        Err(Errno::ENOTTY)
    }

    /// Makes a call to an event.
    ///
    /// # Errors
    /// Those of the ioctls in `perf_event_open(2)`.
    fn call_event(&self, event: BorrowedFd<'_>, call: EventCall<'_>) -> Result<(), Errno> {
        call.call(event)
    }

    /// Reads an event: as many words as its format has, and returns their number.
    ///
    /// # Errors
    /// ENOSPC if the words are too few, EIO if events were missed.
    fn read_event(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
        event::read_event(event, words)
    }

    /// Returns how many tasks an event has left, since they executed a program that it must not count. A driver that
    /// does not tell has 0.
    ///
    /// # Errors
    /// The errors of reading the descriptor's file in /proc.
    fn tasks_left(&self, event: BorrowedFd<'_>) -> Result<u64, Errno> {
        event::tasks_left(event)
    }
}

/// Access of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Look: any number of descriptors at once.
    Read,
    /// Set counters up, too: one descriptor at a time.
    Write,
}

/// An open device node.
#[derive(Debug)]
pub struct Node(File);

impl Node {
    /// Opens the node at `path`, closed on exec.
    ///
    /// # Errors
    /// Those of open(2), and EBUSY for a second writer.
    pub fn open(path: &Path, access: Access) -> Result<Self, Errno> {
        OpenOptions::new()
            .read(true)
            .write(access == Access::Write)
            .open(path)
            .map(Self)
            .map_err(|error| error.raw_os_error().map_or(Errno::EINVAL, Errno::from_raw))
    }
}

impl Driver for Node {
    fn call(&self, call: Call<'_>) -> Result<(), Errno> {
        let fd = self.0.as_raw_fd();
        // SAFETY: The descriptor is open as long as `self.0` lives. Each number comes from the header
        // together with the structure that the driver reads or writes for it, the generated functions
        // take a pointer to exactly that structure, and the reference it is made from is valid for
        // the whole call. Every bit pattern is a value of these structures.
        let result = unsafe {
            match call {
                Call::Setup2(pmc) => ioctl::setup2(fd, pmc),
                Call::Start(number) => ioctl::start(fd, number),
                Call::Stop(number) => ioctl::stop(fd, number),
                Call::Read(data) => ioctl::read(fd, data),
                Call::Reset(number) => ioctl::reset(fd, number),
                Call::Timestamp(stamp) => ioctl::timestamp(fd, stamp),
                Call::Get2(pmc) => ioctl::get2(fd, pmc),
                Call::ReadCpu(data) => ioctl::read_cpu(fd, data),
                Call::Properties(properties) => ioctl::properties(fd, properties),
                Call::Info(info) => ioctl::info(fd, info),
                Call::DefineEvent(definition) => ioctl::define_event(fd, definition),
                Call::AllocTrace(alloc) => ioctl::alloc_trace(fd, alloc),
                Call::FreeTrace => ioctl::free_trace(fd),
                Call::GetAlloc(alloc) => ioctl::get_alloc(fd, alloc),
                Call::StageConfig(config) => ioctl::stage_config(fd, config),
                Call::GetConfig(config) => ioctl::get_config(fd, config),
                Call::StartTrace => ioctl::start_trace(fd),
                Call::StopTrace => ioctl::stop_trace(fd),
                Call::GetOwner(owner) => ioctl::get_owner(fd, owner),
            }
        };
        result.map(drop)
    }

    fn buffer_handle(&self, request: &abi::perfmon_buffer_handle_req) -> Result<OwnedFd, Errno> {
        // SAFETY: The descriptor is open as long as `self.0` lives. The driver reads the structure that the header has
        // for this number, and the reference to it is valid for the whole call.
        let fd = unsafe { ioctl::buffer_handle(self.0.as_raw_fd(), request) }?;
        // SAFETY: The driver has just made the descriptor for this call: nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn open_event(&self, open: &mut EventOpen<'_>) -> Result<OwnedFd, Errno> {
        open.open(self.0.as_fd())
    }
}

/// The ioctls. nix calls these macros "bad" because they take a whole number instead of its parts;
/// here the number is the header's own, so that there is nothing to keep in step.
mod ioctl {
    use nix::{ioctl_none_bad, ioctl_read_bad, ioctl_readwrite_bad, ioctl_write_ptr_bad};
    use perfmon_core::abi;

    ioctl_write_ptr_bad!(setup2, abi::PMIOSETUP2, abi::pmc2);
    ioctl_write_ptr_bad!(start, abi::PMIOSTART, i32);
    ioctl_write_ptr_bad!(stop, abi::PMIOSTOP, i32);
    ioctl_readwrite_bad!(read, abi::PMIOREAD, abi::pmc_data);
    ioctl_write_ptr_bad!(reset, abi::PMIORESET, i32);
    ioctl_read_bad!(timestamp, abi::PMIOTSTAMP, abi::pmc_tstamp);
    ioctl_readwrite_bad!(get2, abi::PMIOGET2, abi::pmc2);
    ioctl_readwrite_bad!(read_cpu, abi::PMIOREADCPU, abi::pmc_cpu_data);
    ioctl_read_bad!(
        properties,
        abi::IOCTL_PERFMON_GET_PROPERTIES,
        abi::perfmon_properties
    );
    ioctl_read_bad!(info, abi::PERFMON_GET_INFO, abi::perfmon_info);
    ioctl_write_ptr_bad!(
        define_event,
        abi::PERFMON_DEFINE_EVENT,
        abi::perfmon_event_definition
    );
    ioctl_write_ptr_bad!(
        alloc_trace,
        abi::IOCTL_PERFMON_ALLOC_TRACE,
        abi::perfmon_alloc
    );
    ioctl_none_bad!(free_trace, abi::IOCTL_PERFMON_FREE_TRACE);
    ioctl_read_bad!(get_alloc, abi::IOCTL_PERFMON_GET_ALLOC, abi::perfmon_alloc);
    ioctl_write_ptr_bad!(
        stage_config,
        abi::IOCTL_PERFMON_STAGE_CONFIG,
        abi::perfmon_config
    );
    ioctl_read_bad!(
        get_config,
        abi::IOCTL_PERFMON_GET_CONFIG,
        abi::perfmon_config
    );
    ioctl_write_ptr_bad!(
        buffer_handle,
        abi::IOCTL_PERFMON_GET_BUFFER_HANDLE,
        abi::perfmon_buffer_handle_req
    );
    ioctl_none_bad!(start_trace, abi::IOCTL_PERFMON_START);
    ioctl_none_bad!(stop_trace, abi::IOCTL_PERFMON_STOP);
    ioctl_readwrite_bad!(
        get_owner,
        abi::PERFMON_GET_OWNER,
        abi::perfmon_counter_owner
    );
}
