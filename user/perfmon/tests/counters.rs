// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the calls that the library makes for counters, and of how it converts the results.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::sync::{Arc, Mutex};

use perfmon::abi::PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH;
use perfmon::sys::{Call, Driver};
use perfmon::{Attempt, Cause, CounterId, Device, Errno, EventSelect, Modes, Session};

/// A driver that records the calls that it gets, and returns the results that the test sets.
#[derive(Debug)]
struct FakeDriver {
    calls: Mutex<Vec<String>>,
    /// Error of every call except `GET_PROPERTIES`.
    errno: Mutex<Option<Errno>>,
    value: Mutex<i64>,
    config: u64,
    version: u16,
}

impl FakeDriver {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            calls: Mutex::default(),
            errno: Mutex::default(),
            value: Mutex::default(),
            config: 0,
            version: 3,
        })
    }

    /// Returns the calls since the last call of this function.
    fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    fn fail_calls_with(&self, errno: Errno) {
        *self.errno.lock().unwrap() = Some(errno);
    }
}

// SAFETY: `Driver` requires that the descriptors of `open_event` are events of the kernel: this
// driver opens no events.
unsafe impl Driver for FakeDriver {
    fn call(&self, call: Call<'_>) -> Result<(), Errno> {
        if let Call::Properties(properties) = call {
            properties.api_version = self.version;
            properties.pm_version = 4;
            properties.max_num_fixed_events = 3;
            properties.max_fixed_counter_width = 48;
            properties.max_num_programmable_events = 8;
            properties.max_programmable_counter_width = 40;
            properties.max_num_misc_events = 1;
            properties.max_misc_counter_width = 32;
            properties.flags = PERFMON_PROPERTY_FLAG_HAS_LAST_BRANCH;
            return Ok(());
        }
        let text = match &call {
            Call::Setup2(pmc) => format!("setup {:#x} {:#010x}", pmc.pmc2_num, pmc.pmc2_select),
            Call::Start(number) => format!("start {number:#x}"),
            Call::Stop(number) => format!("stop {number:#x}"),
            Call::Reset(number) => format!("reset {number:#x}"),
            Call::Read(data) => format!("read {:#x}", data.pmcd_num),
            Call::Get2(pmc) => format!("get {:#x}", pmc.pmc2_num),
            Call::ReadCpu(data) => format!(
                "read {:#x} on {} from {}",
                data.pmcc_num, data.pmcc_count, data.pmcc_first_cpu
            ),
            Call::Timestamp(_) => "timestamp".to_owned(),
            Call::Properties(_) => unreachable!("answered above"),
            _ => unreachable!("tested in tests/trace"),
        };
        self.calls.lock().unwrap().push(text);
        if let Some(errno) = *self.errno.lock().unwrap() {
            return Err(errno);
        }
        match call {
            Call::Read(data) => data.pmcd_value = *self.value.lock().unwrap(),
            Call::Get2(pmc) => pmc.pmc2_select = self.config,
            Call::ReadCpu(data) => {
                data.pmcc_count = data.pmcc_count.min(CPUS - data.pmcc_first_cpu);
                for (cpu, value) in (data.pmcc_first_cpu..CPUS).zip(&mut data.pmcc_value) {
                    *value = i64::from(cpu) * 10;
                }
            }
            Call::Timestamp(stamp) => {
                stamp.pmct_rate = 2500;
                stamp.pmct_value = *self.value.lock().unwrap();
            }
            _ => {}
        }
        Ok(())
    }
}

/// Number of CPUs of the machine of [`FakeDriver`].
const CPUS: u32 = 100;

const INSTRUCTIONS: EventSelect = EventSelect::new(0xc0, 0x00);

fn session(driver: &Arc<FakeDriver>) -> Session {
    Session::with_driver(Arc::clone(driver) as _).unwrap()
}

#[test]
fn each_method_is_one_call_with_the_right_number() {
    let driver = FakeDriver::new();
    *driver.value.lock().unwrap() = 1 << 60;
    let session = session(&driver);
    let counter = session
        .counter(CounterId::General(5), INSTRUCTIONS.modes(Modes::User))
        .unwrap();
    counter.start().unwrap();
    counter.stop().unwrap();
    counter.reset().unwrap();
    assert_eq!(counter.read().unwrap(), 1 << 60);
    let calls = [
        "setup 0x5 0x000100c0",
        "start 0x5",
        "stop 0x5",
        "reset 0x5",
        "read 0x5",
    ];
    assert_eq!(driver.take_calls(), calls);
}

#[test]
fn all_bits_of_a_select_reach_the_driver() {
    let driver = FakeDriver::new();
    let session = session(&driver);
    let wide_select = EventSelect::new(0x1cd, 0x04).modes(Modes::User);
    session.counter(CounterId::General(0), wide_select).unwrap();
    assert_eq!(driver.take_calls()[0], "setup 0x0 0x1000104cd");
}

#[test]
fn values_on_cpus_are_read_in_as_few_calls_as_possible() {
    let driver = FakeDriver::new();
    let device = Device::with_driver(Arc::clone(&driver) as _).unwrap();
    let id = CounterId::General(2);
    assert_eq!(device.read_on(id, 3..5).unwrap(), [30, 40]);
    assert_eq!(driver.take_calls(), ["read 0x2 on 2 from 3"]);
    let values = device.read_on(id, 0..CPUS).unwrap();
    assert_eq!(values, (0..1000).step_by(10).collect::<Vec<u64>>());
    assert_eq!(
        driver.take_calls(),
        ["read 0x2 on 64 from 0", "read 0x2 on 36 from 64"]
    );
    assert_eq!(device.read_on(id, 5..5).unwrap(), []);
    assert!(driver.take_calls().is_empty());

    let error = device.read_on(id, 98..101).unwrap_err();
    assert_eq!(error.cause, Cause::NoSuchCpu);
    assert_eq!(
        error.to_string(),
        "can't read general counter 2 on CPUs 98 to 100: \
         the CPUs have no such counter, or there is no such CPU"
    );
}

#[test]
fn a_device_reads_the_counters_of_a_session() {
    let driver = FakeDriver::new();
    *driver.value.lock().unwrap() = 7;
    let device = Device::with_driver(Arc::clone(&driver) as _).unwrap();
    assert_eq!(device.read(CounterId::Fixed(0)).unwrap(), 7);
    assert!(!device.configuration(CounterId::Fixed(0)).unwrap().running);
    assert_eq!(driver.take_calls(), ["read 0x40000000", "get 0x40000000"]);
    driver.fail_calls_with(Errno::EBUSY);
    let error = device.read(CounterId::Fixed(0)).unwrap_err();
    assert_eq!(error.cause, Cause::NotSetUp);
}

#[test]
fn a_fixed_counter_has_the_number_of_rdpmc() {
    let driver = FakeDriver::new();
    let session = session(&driver);
    let counter = session
        .counter(CounterId::Fixed(1), EventSelect::fixed())
        .unwrap();
    counter.read().unwrap();
    assert_eq!(
        driver.take_calls(),
        ["setup 0x40000001 0x00030000", "read 0x40000001"]
    );
}

#[test]
fn a_dropped_counter_stops_and_can_be_set_up_again() {
    let driver = FakeDriver::new();
    let session = session(&driver);
    let first = session
        .counter(CounterId::General(0), INSTRUCTIONS)
        .unwrap();
    let error = session
        .counter(CounterId::General(0), INSTRUCTIONS)
        .unwrap_err();
    assert_eq!(error.cause, Cause::InUse);
    assert_eq!(
        driver.take_calls().len(),
        1,
        "the second counter must not reach the driver"
    );
    drop(first);
    assert_eq!(driver.take_calls(), ["stop 0x0"]);
    session
        .counter(CounterId::General(0), INSTRUCTIONS)
        .unwrap();
}

#[test]
fn a_refused_counter_is_not_in_use() {
    let driver = FakeDriver::new();
    let session = session(&driver);
    driver.fail_calls_with(Errno::EBUSY);
    for _ in 0..2 {
        let error = session
            .counter(CounterId::General(0), INSTRUCTIONS)
            .unwrap_err();
        assert_eq!(error.cause, Cause::HardwareBusy);
    }
}

#[test]
fn a_counter_keeps_the_device_open() {
    let driver = FakeDriver::new();
    let counter = session(&driver)
        .counter(CounterId::General(0), INSTRUCTIONS)
        .unwrap();
    counter.start().unwrap();
    assert_eq!(driver.take_calls().last().unwrap(), "start 0x0");
    assert!(Arc::strong_count(&driver) > 1);
    drop(counter);
    assert_eq!(Arc::strong_count(&driver), 1);
}

/// A call that may fail.
type FallibleCall<'a> = &'a dyn Fn() -> Option<perfmon::Error>;

/// Each errno has one meaning, except EBUSY and ENOTTY, which depend on the call: see the table of the header.
#[test]
fn errors_say_what_was_attempted_and_why_it_failed() {
    let driver = FakeDriver::new();
    let session = session(&driver);
    let id = CounterId::General(3);
    let counter = session.counter(id, INSTRUCTIONS).unwrap();
    let device = session.device();

    let other = CounterId::General(4);
    let setup: FallibleCall<'_> = &|| session.counter(other, INSTRUCTIONS).err();
    let start: FallibleCall<'_> = &|| counter.start().err();
    let stop: FallibleCall<'_> = &|| counter.stop().err();
    let reset: FallibleCall<'_> = &|| counter.reset().err();
    let read: FallibleCall<'_> = &|| counter.read().err();
    let get: FallibleCall<'_> = &|| counter.configuration().err();
    let read_on: FallibleCall<'_> = &|| counter.read_on(1..2).err();
    let stamp: FallibleCall<'_> = &|| device.timestamp().err();

    let table: &[(Errno, FallibleCall<'_>, Attempt, Cause)] = &[
        (
            Errno::EBUSY,
            setup,
            Attempt::Setup(other, INSTRUCTIONS),
            Cause::HardwareBusy,
        ),
        (Errno::EBUSY, start, Attempt::Start(id), Cause::NotSetUp),
        (Errno::EBUSY, stop, Attempt::Stop(id), Cause::NotSetUp),
        (Errno::EBUSY, reset, Attempt::Reset(id), Cause::NotSetUp),
        (Errno::EBUSY, read, Attempt::Read(id), Cause::NotSetUp),
        (
            Errno::EBUSY,
            get,
            Attempt::Configuration(id),
            Cause::NotSetUp,
        ),
        (Errno::ENOTTY, stamp, Attempt::Timestamp, Cause::NoFrequency),
        (
            Errno::ENOTTY,
            read,
            Attempt::Read(id),
            Cause::UnknownCommand,
        ),
        (
            Errno::EPERM,
            setup,
            Attempt::Setup(other, INSTRUCTIONS),
            Cause::LockedDown,
        ),
        (
            Errno::EACCES,
            setup,
            Attempt::Setup(other, INSTRUCTIONS),
            Cause::Forbidden,
        ),
        (
            Errno::EINVAL,
            setup,
            Attempt::Setup(other, INSTRUCTIONS),
            Cause::Invalid,
        ),
        (
            Errno::EOPNOTSUPP,
            setup,
            Attempt::Setup(other, INSTRUCTIONS),
            Cause::NotForCounters,
        ),
        (Errno::EIO, read, Attempt::Read(id), Cause::Untrusted),
        (
            Errno::EBUSY,
            read_on,
            Attempt::ReadOn(id, 1..2),
            Cause::NotSetUp,
        ),
        (
            Errno::EINVAL,
            read_on,
            Attempt::ReadOn(id, 1..2),
            Cause::NoSuchCpu,
        ),
        (
            Errno::EOPNOTSUPP,
            read_on,
            Attempt::ReadOn(id, 1..2),
            Cause::NotCounted,
        ),
        (
            Errno::EFAULT,
            stop,
            Attempt::Stop(id),
            Cause::Unexpected(Errno::EFAULT),
        ),
    ];
    for (errno, attempt, attempted, cause) in table {
        driver.fail_calls_with(*errno);
        let error = attempt().expect("the driver refused");
        assert_eq!(
            (&error.attempt, &error.cause),
            (attempted, cause),
            "{errno}"
        );
    }
}

#[test]
fn a_negative_value_is_an_error_and_not_a_huge_count() {
    let driver = FakeDriver::new();
    *driver.value.lock().unwrap() = -1;
    let session = session(&driver);
    let counter = session
        .counter(CounterId::General(0), INSTRUCTIONS)
        .unwrap();
    assert_eq!(
        counter.read().unwrap_err().cause,
        Cause::Unexpected(Errno::ERANGE)
    );
}

#[test]
fn each_property_has_its_member() {
    let device = Device::with_driver(FakeDriver::new()).unwrap();
    let properties = device.properties();
    assert_eq!(properties.pmu_version, 4);
    assert_eq!(
        (properties.general.number, properties.general.width),
        (8, 40)
    );
    assert_eq!((properties.fixed.number, properties.fixed.width), (3, 48));
    assert_eq!((properties.misc.number, properties.misc.width), (1, 32));
    assert!(properties.last_branch);
}

#[test]
fn another_version_of_the_interface_is_refused() {
    let mut driver = FakeDriver::new();
    Arc::get_mut(&mut driver).unwrap().version = 2;
    assert_eq!(
        Device::with_driver(driver).unwrap_err().cause,
        Cause::Version(2)
    );
}

#[test]
fn the_configuration_separates_the_enable_bit_from_the_select() {
    let mut driver = FakeDriver::new();
    Arc::get_mut(&mut driver).unwrap().config = 0x0041_00c0;
    let counter = session(&driver)
        .counter(CounterId::General(0), INSTRUCTIONS)
        .unwrap();
    let configuration = counter.configuration().unwrap();
    assert_eq!(configuration.select, INSTRUCTIONS.modes(Modes::User));
    assert!(configuration.running);
}

#[test]
fn an_impossible_configuration_is_an_error() {
    let mut driver = FakeDriver::new();
    Arc::get_mut(&mut driver).unwrap().config = 1 << 21;
    let counter = session(&driver)
        .counter(CounterId::General(0), INSTRUCTIONS)
        .unwrap();
    let error = counter.configuration().unwrap_err();
    assert_eq!(error.cause, Cause::Unexpected(Errno::ERANGE));
}

#[test]
fn the_timestamp_comes_with_its_frequency() {
    let driver = FakeDriver::new();
    *driver.value.lock().unwrap() = 12_345;
    let stamp = Device::with_driver(driver).unwrap().timestamp().unwrap();
    assert_eq!((stamp.mhz, stamp.ticks), (2500, 12_345));
}

/// Opens a real file that is not the perfmon device.
#[test]
fn a_node_of_another_device_is_an_error() {
    let error = Device::open_path("/dev/null").unwrap_err();
    assert_eq!(
        (error.attempt, error.cause),
        (Attempt::Properties, Cause::UnknownCommand)
    );
}

#[test]
fn common_causes_have_advice() {
    for cause in [
        Cause::Absent,
        Cause::HardwareBusy,
        Cause::Forbidden,
        Cause::AnotherWriter,
    ] {
        let help = cause.help().expect("there is something to do");
        assert!(help.ends_with('.') && help.len() > 20, "{help}");
    }
}
