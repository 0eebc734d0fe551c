// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls to the kernel.
//!
//! The other modules call a [`Driver`]. The real driver is [`Node`], an open `/dev/perfmon`; a test
//! passes its own to [`Session::with_driver`](crate::Session::with_driver).

mod area;
mod event;
pub(crate) mod fork;
mod mapping;
mod ring;

use std::fmt;
use std::fs::{File, OpenOptions};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use perfmon_core::abi;

pub(crate) use area::Area;
pub use event::{EventCall, EventOpen, parse_tasks_not_followed};
pub use mapping::Mapping;
pub(crate) use ring::{RingMapping, wait_for_kernel};

/// An ioctl of the driver, with its structure of the ABI.
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

/// The interface to the driver. Tests can implement it without a driver.
///
/// # Safety
/// A descriptor that [`open_event`](Self::open_event) returns must be an event of the kernel, or a file whose first page
/// never has the bit `cap_user_rdpmc` of an event's page. The library executes RDPMC if it finds this bit, and the
/// instruction faults unless the kernel has enabled it.
pub unsafe trait Driver: fmt::Debug + Send + Sync {
    /// Executes one ioctl. The structure in `call` changes only if the ioctl succeeds.
    ///
    /// # Errors
    /// The errors of the ioctl: the table in `include/uapi/linux/perfmon.h`.
    fn call(&self, call: Call<'_>) -> Result<(), Errno>;

    /// Returns a descriptor of a buffer of the trace (`IOCTL_PERFMON_GET_BUFFER_HANDLE`).
    ///
    /// # Errors
    /// As [`call`](Self::call); ENOTTY from a driver without buffers.
    fn buffer_handle(&self, request: &abi::perfmon_buffer_handle_req) -> Result<OwnedFd, Errno> {
        let _ = request;
        Err(Errno::ENOTTY)
    }

    /// Maps the first `length` bytes of the buffer of a handle.
    ///
    /// # Errors
    /// The errors of mmap(2).
    fn map(&self, handle: BorrowedFd<'_>, length: NonZeroUsize) -> Result<Mapping, Errno> {
        Mapping::new(handle, length)
    }

    /// Opens an event. Its descriptor is closed on exec if the flags contain `PERF_FLAG_FD_CLOEXEC`.
    ///
    /// # Errors
    /// As [`call`](Self::call), and the errors of `perf_event_open(2)`; EINVAL also if `attr` has fewer bytes than its
    /// member `size` says; ENOTTY from a driver without events.
    fn open_event(&self, arguments: &mut EventOpen<'_>) -> Result<OwnedFd, Errno> {
        let _ = arguments;
        Err(Errno::ENOTTY)
    }

    /// Executes an ioctl of an event.
    ///
    /// # Errors
    /// The errors of the ioctls in `perf_event_open(2)`.
    fn call_event(&self, event: BorrowedFd<'_>, call: EventCall<'_>) -> Result<(), Errno> {
        call.call(event)
    }

    /// Reads the words of an event's read format into `words`, and returns the number of words
    /// read.
    ///
    /// # Errors
    /// ENOSPC if the words are too few, EIO if events were missed.
    fn read_event(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
        event::read_event(event, words)
    }

    /// Returns the number of tasks that an event has stopped counting, because they executed a program that it must not
    /// count; 0 from a driver that does not report it.
    ///
    /// # Errors
    /// The errors of reading the descriptor's file in /proc.
    fn tasks_not_followed(&self, event: BorrowedFd<'_>) -> Result<u64, Errno> {
        event::tasks_not_followed(event)
    }
}

/// The way in which a descriptor of the device is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Only for reading, by any number of descriptors at once.
    Read,
    /// For reading and for setting counters up, by one descriptor at a time.
    Write,
}

/// An open device node.
#[derive(Debug)]
pub struct Node(File);

impl Node {
    /// Opens the node at `path`, closed on exec.
    ///
    /// # Errors
    /// The errors of open(2), and EBUSY for a second writer.
    pub fn open(path: &Path, access: Access) -> Result<Self, Errno> {
        OpenOptions::new()
            .read(true)
            .write(access == Access::Write)
            .open(path)
            .map(Self)
            .map_err(|error| error.raw_os_error().map_or(Errno::EINVAL, Errno::from_raw))
    }
}

// SAFETY: `Driver` requires that the descriptors are events of the kernel: the ioctl of the node creates them.
unsafe impl Driver for Node {
    fn call(&self, call: Call<'_>) -> Result<(), Errno> {
        let fd = self.0.as_raw_fd();
        // SAFETY: The ioctls require an open descriptor and a pointer to the structure of their number. The descriptor
        // is open as long as `self.0` lives. Each ioctl number comes from the header together with the structure that
        // the driver reads or writes for it, and the generated function takes a pointer to exactly that structure,
        // which comes from a reference that is valid for the whole call. Every bit pattern that the driver writes is a
        // valid value of these structures.
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
        // SAFETY: The ioctl requires an open descriptor and a pointer to the structure of its number. The descriptor is
        // open as long as `self.0` lives. The driver only reads the structure that the header has for this ioctl
        // number, through a pointer from a reference that is valid for the whole call.
        let fd = unsafe { ioctl::buffer_handle(self.0.as_raw_fd(), request) }?;
        // SAFETY: `from_raw_fd` requires an open descriptor that nothing else owns: the driver has just created it for
        // this call.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn open_event(&self, arguments: &mut EventOpen<'_>) -> Result<OwnedFd, Errno> {
        arguments.open(self.0.as_fd())
    }
}

/// The ioctls. nix calls these macros "bad" because they take a whole ioctl number instead of its parts. Here the number
/// comes from the header, so it can't differ from the driver's.
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
