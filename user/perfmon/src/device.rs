// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device: all calls that need no counter set up by the caller.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use nix::errno::Errno;
use perfmon_core::abi;

use crate::event::{Owner, Owners};
use crate::properties::{Configuration, Counters, Info, Properties, Timestamp};
use crate::sys::{Access, Call, Driver, Node};
use crate::{Attempt, Cause, CounterId, Error, EventSelect};

/// Path of the device.
pub const PATH: &str = "/dev/perfmon";

/// The driver, open for reading. Any number of programs may have it open for reading at once.
///
/// Every `Device`, in any process, can read the counters that a program has set up with its
/// [`Session`](crate::Session).
///
/// ```no_run
/// let device = perfmon::Device::open()?;
/// println!("{} general counters", device.properties().general.number);
/// # Ok::<(), perfmon::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Device {
    driver: Arc<dyn Driver>,
    properties: Properties,
}

impl Device {
    /// Opens `/dev/perfmon` for reading.
    ///
    /// # Errors
    /// - [`Cause::Absent`] if the module is not loaded;
    /// - [`Cause::NodeForbidden`] if the mode of the node forbids it;
    /// - [`Cause::Version`] if the driver isn't of this library's version.
    pub fn open() -> Result<Self, Error> {
        Self::open_path(PATH)
    }

    /// Opens a device node at another path.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_path(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::open_node(path.as_ref(), Access::Read)
    }

    pub(crate) fn open_node(path: &Path, access: Access) -> Result<Self, Error> {
        let node = Node::open(path, access)
            .map_err(|errno| Error::new(Attempt::Open(path.to_owned()), errno))?;
        Self::with_driver(Arc::new(node))
    }

    /// Creates a device on top of `driver`, for tests.
    ///
    /// # Errors
    /// [`Cause::Version`], and the errors of the driver's `IOCTL_PERFMON_GET_PROPERTIES`.
    pub fn with_driver(driver: Arc<dyn Driver>) -> Result<Self, Error> {
        let mut raw = abi::perfmon_properties {
            api_version: 0,
            pm_version: 0,
            max_num_events: 0,
            reserved: 0,
            max_num_fixed_events: 0,
            max_fixed_counter_width: 0,
            max_num_programmable_events: 0,
            max_programmable_counter_width: 0,
            max_num_misc_events: 0,
            max_misc_counter_width: 0,
            flags: 0,
        };
        let attempt = Attempt::Properties;
        if let Err(errno) = driver.call(Call::Properties(&mut raw)) {
            return Err(Error::new(attempt, errno));
        }
        if u32::from(raw.api_version) != abi::PERFMON_API_VERSION {
            return Err(Error {
                attempt,
                cause: Cause::Version(raw.api_version),
            });
        }
        let properties = Properties {
            pmu_version: raw.pm_version,
            general: Counters {
                number: raw.max_num_programmable_events,
                width: raw.max_programmable_counter_width,
            },
            fixed: Counters {
                number: raw.max_num_fixed_events,
                width: raw.max_fixed_counter_width,
            },
            misc: Counters {
                number: raw.max_num_misc_events,
                width: raw.max_misc_counter_width,
            },
            last_branch: raw.flags & abi::PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH != 0,
        };
        Ok(Self { driver, properties })
    }

    /// Returns the counters of the CPUs.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.properties
    }

    /// Returns the size of the machine, and the driver's optional features.
    ///
    /// ```no_run
    /// println!("{} CPU numbers", perfmon::Device::open()?.info()?.cpu_ids);
    /// # Ok::<(), perfmon::Error>(())
    /// ```
    ///
    /// # Errors
    /// None that are specific to this call.
    pub fn info(&self) -> Result<Info, Error> {
        let mut raw = abi::perfmon_info {
            nr_cpu_ids: 0,
            flags: 0,
            features: 0,
            misc_events: 0,
            reserved: [0; 5],
        };
        self.call(Call::Info(&mut raw), || Attempt::Info)?;
        Ok(Info {
            cpu_ids: raw.nr_cpu_ids,
            has_full_width_writes: raw.features & u64::from(abi::PERFMON_FEATURE_FULL_WIDTH_WRITES)
                != 0,
            has_place_holders: raw.features & u64::from(abi::PERFMON_FEATURE_PLACE_HOLDER) != 0,
            has_mappings: raw.features & u64::from(abi::PERFMON_FEATURE_MAPPINGS) != 0,
            misc_events: raw.misc_events,
        })
    }

    /// Returns the time-stamp counter, read by the kernel, and its frequency.
    ///
    /// # Errors
    /// [`Cause::NoFrequency`] if the kernel does not know the frequency.
    pub fn timestamp(&self) -> Result<Timestamp, Error> {
        let mut raw = abi::pmc_tstamp {
            pmct_rate: 0,
            reserved: 0,
            pmct_value: 0,
        };
        self.call(Call::Timestamp(&mut raw), || Attempt::Timestamp)?;
        Ok(Timestamp {
            mhz: to_unsigned(raw.pmct_rate, Attempt::Timestamp)?,
            ticks: to_unsigned(raw.pmct_value, Attempt::Timestamp)?,
        })
    }

    /// Returns how often a counter's event has happened since the counter was set up or reset: the sum over all CPUs,
    /// 64 bits wide. The counter may be running.
    ///
    /// # Errors
    /// [`Cause::NotSetUp`] if no program has set the counter up, [`Cause::Invalid`] if the CPUs have no such counter,
    /// [`Cause::Untrusted`] if something else changed the registers, [`Cause::Forbidden`] if the kernel's policy forbids it.
    pub fn read(&self, id: CounterId) -> Result<u64, Error> {
        let attempt = || Attempt::Read(id);
        let mut raw = abi::pmc_data {
            pmcd_num: id.number(),
            reserved: 0,
            pmcd_value: 0,
        };
        self.call(Call::Read(&mut raw), attempt)?;
        to_unsigned(raw.pmcd_value, attempt())
    }

    /// Returns the counter's value on each CPU of the range, in order. An offline CPU has its last value, and a CPU
    /// that was never online has 0.
    ///
    /// ```no_run
    /// use perfmon::{CounterId, Device};
    ///
    /// let device = Device::open()?;
    /// for (cpu, value) in (0..).zip(device.read_on(CounterId::General(0), 0..4)?) {
    ///     println!("CPU {cpu}: {value}");
    /// }
    /// # Ok::<(), perfmon::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`read`](Self::read), with two differences:
    /// - [`Cause::NoSuchCpu`] instead of [`Cause::Invalid`] if the CPUs have no such counter, or if the machine has no
    ///   such CPUs;
    /// - [`Cause::NotCounted`] if a CPU in the range is online, but the driver does not count on it.
    pub fn read_on(&self, id: CounterId, cpus: Range<u32>) -> Result<Vec<u64>, Error> {
        let mut values = Vec::new();
        let mut next = cpus.start;
        while next < cpus.end {
            let attempt = || Attempt::ReadOn(id, next..cpus.end);
            let mut raw = abi::pmc_cpu_data {
                pmcc_num: id.number(),
                pmcc_first_cpu: next,
                pmcc_count: (cpus.end - next).min(abi::PMC_CPU_MAX),
                reserved: 0,
                pmcc_value: [0; abi::PMC_CPU_MAX as usize],
            };
            let requested = raw.pmcc_count;
            self.call(Call::ReadCpu(&mut raw), attempt)?;
            if raw.pmcc_count != requested {
                return Err(Error {
                    attempt: attempt(),
                    cause: Cause::NoSuchCpu,
                });
            }
            for &value in &raw.pmcc_value[..requested as usize] {
                values.push(to_unsigned(value, attempt())?);
            }
            next += requested;
        }
        Ok(values)
    }

    /// Returns a counter's event select, and whether the counter runs.
    ///
    /// # Errors
    /// [`Cause::NotSetUp`] if no program has set it up, [`Cause::Invalid`] if the CPUs have no such counter.
    pub fn configuration(&self, id: CounterId) -> Result<Configuration, Error> {
        let attempt = || Attempt::Configuration(id);
        let mut raw = abi::pmc2 {
            pmc2_num: id.number(),
            pmc2_flags: 0,
            pmc2_select: 0,
            pmc2_extra: 0,
            pmc2_type: 0,
            reserved: 0,
        };
        self.call(Call::Get2(&mut raw), attempt)?;
        // The driver refuses an invalid select, so it never returns an invalid select.
        let select = EventSelect::from_bits(raw.pmc2_select).ok_or_else(|| Error {
            attempt: attempt(),
            cause: Cause::Unexpected(Errno::ERANGE),
        })?;
        Ok(Configuration {
            select,
            running: raw.pmc2_select & (u64::from(abi::PMCF_EN) << 16) != 0,
        })
    }

    /// Returns each counter that is not free, with its owner. Only counters that all CPUs have are considered.
    #[must_use]
    pub fn owners(&self) -> Owners {
        let numbers = |counters: u16| 0..u8::try_from(counters).unwrap_or(u8::MAX);
        let general = numbers(self.properties.general.number).map(CounterId::General);
        let fixed = numbers(self.properties.fixed.number).map(CounterId::Fixed);
        let owned_counters = general
            .chain(fixed)
            // Skips a counter if its owner can't be read, as for a number that no counter has.
            .filter_map(|id| Some((id, self.owner(id).ok()??)));
        Owners(owned_counters.collect())
    }

    /// Returns the owner of a counter; `None` if it is free.
    ///
    /// # Errors
    /// [`Cause::Invalid`] if the CPUs have no such counter.
    pub fn owner(&self, id: CounterId) -> Result<Option<Owner>, Error> {
        let mut raw = abi::perfmon_counter_owner {
            num: id.number(),
            kind: 0,
            pid: 0,
            users: 0,
            comm: [0; 16],
            reserved: [0; 2],
        };
        self.call(Call::GetOwner(&mut raw), || Attempt::Owner(id))?;
        Ok(Owner::from_raw(&raw))
    }

    /// Creates a device from a driver and its properties.
    pub(crate) fn with_properties(driver: Arc<dyn Driver>, properties: Properties) -> Self {
        Self { driver, properties }
    }

    pub(crate) fn shared_driver(&self) -> Arc<dyn Driver> {
        Arc::clone(&self.driver)
    }

    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.driver
    }

    pub(crate) fn call(&self, call: Call<'_>, attempt: impl Fn() -> Attempt) -> Result<(), Error> {
        self.driver
            .call(call)
            .map_err(|errno| Error::new(attempt(), errno))
    }
}

/// Converts a number that is signed in the ABI for FreeBSD's sake, but never negative.
fn to_unsigned<S, U: TryFrom<S>>(value: S, attempt: Attempt) -> Result<U, Error> {
    U::try_from(value).map_err(|_| Error {
        attempt,
        cause: Cause::Unexpected(Errno::ERANGE),
    })
}
