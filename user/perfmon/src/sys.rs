// SPDX-License-Identifier: MIT OR Apache-2.0
//! The one place where this crate calls the kernel.
//!
//! Everything above speaks to a [`Driver`]. The real one is [`Node`], an open `/dev/perfmon`; a test
//! gives its own to [`Session::with_driver`](crate::Session::with_driver).

use std::fmt;
use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::errno::Errno;
use perfmon_core::abi;

/// A call to the driver: one variant an ioctl, with its structure of the ABI.
#[expect(
    missing_docs,
    reason = "each is the ioctl of that name in include/uapi/linux/perfmon.h"
)]
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
}

/// Who answers the calls.
pub trait Driver: fmt::Debug + Send + Sync {
    /// Makes one call; the structure is changed only if it succeeds.
    ///
    /// # Errors
    /// What the ioctl would give: the table in `include/uapi/linux/perfmon.h`.
    fn call(&self, call: Call<'_>) -> Result<(), Errno>;
}

/// What a descriptor may do.
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
            }
        };
        result.map(drop)
    }
}

/// The ioctls. nix calls these macros "bad" because they take a whole number instead of its parts;
/// here the number is the header's own, so that there is nothing to keep in step.
mod ioctl {
    use nix::{ioctl_read_bad, ioctl_readwrite_bad, ioctl_write_ptr_bad};
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
}
