// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of the calls that the library makes for events, and of how it converts the results.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use perfmon::event::{Builder, Cgroup, Encoding, OwnerKind};
use perfmon::sys::{Call, Driver, EventCall, EventOpen};
use perfmon::{Cause, CounterId, Device, Errno, Event, EventSelect, Group};

/// A driver that records the calls that it gets. Its events are open files of /dev/null, with counts 100, 101, ... in a
/// group, and 100 otherwise.
#[derive(Debug, Default)]
struct FakeDriver {
    calls: Mutex<Vec<String>>,
    /// The read format of each descriptor.
    formats: Mutex<BTreeMap<RawFd, u64>>,
    /// The time enabled and running in ns.
    time: Mutex<u64>,
    errno: Mutex<Option<Errno>>,
}

impl FakeDriver {
    fn device(self: &Arc<Self>) -> Device {
        Device::with_driver(Arc::clone(self) as _).unwrap()
    }

    fn failing_with(errno: Errno) -> Arc<Self> {
        let driver = Self::default();
        *driver.errno.lock().unwrap() = Some(errno);
        Arc::new(driver)
    }

    fn take_calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }

    fn record_call(&self, text: String) {
        self.calls.lock().unwrap().push(text);
    }

    fn result(&self) -> Result<(), Errno> {
        self.errno.lock().unwrap().map_or(Ok(()), Err)
    }
}

// SAFETY: `Driver` requires files without `cap_user_rdpmc` in their first page: /dev/null can't be mapped.
unsafe impl Driver for FakeDriver {
    fn call(&self, call: Call<'_>) -> Result<(), Errno> {
        match call {
            Call::Properties(properties) => {
                properties.api_version = 3;
                properties.max_num_programmable_events = 2;
                properties.max_num_fixed_events = 1;
            }
            // A program owns general counter 0, general counter 1 is free, and perf owns fixed
            // counter 0.
            Call::GetOwner(owner) => match owner.num {
                0 => {
                    owner.kind = 4;
                    owner.pid = 12;
                    owner.users = 3;
                    for (to, from) in owner.comm.iter_mut().zip(b"make") {
                        *to = i8::try_from(*from).unwrap();
                    }
                }
                1 => owner.kind = 0,
                _ => owner.kind = 1,
            },
            _ => unreachable!("tested in tests/counters.rs"),
        }
        Ok(())
    }

    fn open_event(&self, open: &mut EventOpen<'_>) -> Result<OwnedFd, Errno> {
        let word = |at: usize| u64::from_ne_bytes(open.attr[at..at + 8].try_into().unwrap());
        self.record_call(format!(
            "type {} size {} config {:#x} format {:#x} flags {:#x} of {} on {}{}",
            word(0) & 0xffff_ffff,
            word(0) >> 32,
            word(8),
            word(32),
            word(40),
            match open.flags & PID_IS_CGROUP {
                0 => open.pid.to_string(),
                _ => "a cgroup".to_owned(),
            },
            open.cpu,
            if open.group.is_some() {
                " in a group"
            } else {
                ""
            },
        ));
        assert_eq!(open.flags & !PID_IS_CGROUP, 8, "closed on exec");
        self.result()?;
        let file = File::open("/dev/null").unwrap();
        let mut formats = self.formats.lock().unwrap();
        formats.insert(file.as_raw_fd(), word(32));
        Ok(file.into())
    }

    fn call_event(&self, _: BorrowedFd<'_>, call: EventCall<'_>) -> Result<(), Errno> {
        self.record_call(format!("{call:?}"));
        match call {
            EventCall::Id(id) => *id = 7,
            EventCall::Enable { .. } => *self.time.lock().unwrap() += 5_000,
            _ => {}
        }
        self.result()
    }

    fn read_event(&self, event: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
        self.result()?;
        let time = *self.time.lock().unwrap();
        let formats = self.formats.lock().unwrap();
        let is_group = |format: &u64| format & FORMAT_GROUP != 0;
        let reading = if is_group(&formats[&event.as_raw_fd()]) {
            let number = formats.values().filter(|format| is_group(format)).count() as u64;
            [number, time, time].into_iter().chain(100..100 + number)
        } else {
            [100, time, time].into_iter().chain(0..0)
        };
        let reading: Vec<u64> = reading.collect();
        let target = words.get_mut(..reading.len()).ok_or(Errno::ENOSPC)?;
        target.copy_from_slice(&reading);
        Ok(reading.len())
    }
}

/// `PERF_FORMAT_GROUP`.
const FORMAT_GROUP: u64 = 8;
/// `PERF_FLAG_PID_CGROUP`.
const PID_IS_CGROUP: u32 = 4;

/// Returns a cgroup made from an open directory, which this driver does not check.
fn cgroup(path: &str) -> Cgroup {
    Cgroup::from_directory(File::open(path).unwrap().into(), Path::new("/cgroups/a"))
}

/// Opens the event of `builder`, and returns the recorded call.
fn describe_open(builder: &Builder) -> String {
    let driver = Arc::new(FakeDriver::default());
    builder.open_on(&driver.device()).unwrap();
    driver.take_calls().remove(0)
}

#[test]
fn each_method_has_its_bit() {
    let plain = "type 0 size 144 config 0x1 format 0x3 flags 0x0 of 0 on -1";
    assert_eq!(describe_open(&Event::instructions()), plain);
    assert_eq!(describe_open(&Event::instructions().this_thread()), plain);
    let flags = |builder: Builder| {
        let text = describe_open(&builder);
        let (_, rest) = text.split_once("flags ").unwrap();
        rest.to_owned()
    };
    let event = Event::instructions;
    assert_eq!(flags(event().disabled()), "0x1 of 0 on -1");
    assert_eq!(flags(event().inherit()), "0x2 of 0 on -1");
    assert_eq!(flags(event().pinned()), "0x4 of 0 on -1");
    assert_eq!(flags(event().exclusive()), "0x8 of 0 on -1");
    assert_eq!(flags(event().kernel()), "0x10 of 0 on -1");
    assert_eq!(flags(event().user()), "0x20 of 0 on -1");
    assert_eq!(flags(event().kernel().user()), "0x20 of 0 on -1");
    assert_eq!(flags(event().enable_on_exec()), "0x1000 of 0 on -1");
    assert_eq!(flags(event().pid(42)), "0x0 of 42 on -1");
    assert_eq!(flags(event().pid(42).cpu(3)), "0x0 of 42 on 3");
    assert_eq!(flags(event().all_tasks().cpu(3)), "0x0 of -1 on 3");
    let cgroup = cgroup("/");
    assert_eq!(flags(event().cgroup(&cgroup)), "0x0 of a cgroup on -1");
    assert_eq!(
        flags(event().cgroup(&cgroup).cpu(3)),
        "0x0 of a cgroup on 3"
    );
}

#[test]
fn a_group_counts_one_cgroup() {
    let driver = Arc::new(FakeDriver::default());
    let leader = Event::instructions().cgroup(&cgroup("/"));
    Group::of(leader)
        .and(Event::cycles())
        .open_on(&driver.device())
        .unwrap();
    let calls = driver.take_calls();
    assert_eq!(calls.len(), 2);
    for (call, end) in calls.iter().zip(["", " in a group"]) {
        let end = format!("of a cgroup on -1{end}");
        assert!(call.ends_with(&end), "{call}");
    }
}

#[test]
fn errors_of_cgroups_have_their_own_causes() {
    let error = |errno, cgroup: &Cgroup| {
        let driver = FakeDriver::failing_with(errno);
        let result = Event::cycles().cgroup(cgroup).open_on(&driver.device());
        result.unwrap_err()
    };
    let cause_of_directory = |errno| error(errno, &cgroup("/")).cause;
    assert_eq!(cause_of_directory(Errno::EBADF), Cause::NotACgroup);
    assert_eq!(cause_of_directory(Errno::EACCES), Cause::Forbidden);
    // A directory without the file `cgroup.procs` is taken for a removed cgroup.
    let error_of_removed = error(Errno::ENOENT, &cgroup("/"));
    assert_eq!(
        error_of_removed.to_string(),
        "can't count cycles of cgroup /cgroups/a: there is no such cgroup"
    );
    let directory = std::env::temp_dir().join(format!("perfmon-cgroup-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("cgroup.procs"), "").unwrap();
    let error_of_existing = error(Errno::ENOENT, &cgroup(directory.to_str().unwrap()));
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!(error_of_existing.cause, Cause::NoSuchEvent);
    // Without a cgroup the same errno has no special meaning.
    let driver = FakeDriver::failing_with(Errno::EBADF);
    let cause = Event::cycles().open_on(&driver.device()).unwrap_err().cause;
    assert_eq!(cause, Cause::Unexpected(Errno::EBADF));
}

#[test]
fn events_have_perfs_numbers() {
    let raw_event = Event::raw(EventSelect::new(0xc4, 0x20));
    assert!(describe_open(&raw_event).starts_with("type 4 size 144 config 0x20c4 "));
    let dummy = describe_open(&Event::dummy());
    assert!(dummy.starts_with("type 1 size 144 config 0x9 "), "{dummy}");
    let misses = Builder::new(Encoding::Hardware(5));
    assert!(describe_open(&misses).starts_with("type 0 size 144 config 0x5 "));
    let cache = Builder::new(Encoding::Cache(0x1_0000));
    assert!(describe_open(&cache).starts_with("type 3 size 144 config 0x10000 "));
}

#[test]
fn errors_name_the_event_by_its_label() {
    let driver = Arc::new(FakeDriver::default());
    let event = Builder::new(Encoding::Raw(EventSelect::new(0xc0, 0))).label("mine:u");
    let event = event.open_on(&driver.device()).unwrap();
    *driver.errno.lock().unwrap() = Some(Errno::EIO);
    let error = event.read().unwrap_err();
    assert!(
        error.to_string().starts_with("can't read mine:u: "),
        "{error}"
    );
    let error = Event::cycles()
        .label("cpu-cycles")
        .open_on(&driver.device());
    let text = error.unwrap_err().to_string();
    assert!(
        text.starts_with("can't count cpu-cycles of this thread: "),
        "{text}"
    );
}

#[test]
fn an_event_is_controlled_and_read() {
    let driver = Arc::new(FakeDriver::default());
    let event = Event::cycles().open_on(&driver.device()).unwrap();
    driver.take_calls();
    event.enable().unwrap();
    event.disable().unwrap();
    event.reset().unwrap();
    assert_eq!(event.id().unwrap(), 7);
    let calls = [
        "Enable { group: false }",
        "Disable { group: false }",
        "Reset { group: false }",
        "Id(0)",
    ];
    assert_eq!(driver.take_calls(), calls);
    assert_eq!(event.read().unwrap(), 100);
    let reading = event.read_with_times().unwrap();
    assert_eq!(reading.enabled, Duration::from_micros(5));
    assert_eq!(reading.running, reading.enabled);
}

#[test]
fn a_group_is_opened_controlled_and_read_as_one() {
    let driver = Arc::new(FakeDriver::default());
    let leader = Event::instructions().user().disabled().inherit().pid(42);
    let group = Group::of(leader)
        .and(Event::cycles().kernel().disabled().label("cycles:k"))
        .open_on(&driver.device())
        .unwrap();
    let expected_calls = [
        "type 0 size 144 config 0x1 format 0xb flags 0x23 of 42 on -1",
        "type 0 size 144 config 0x0 format 0xb flags 0x12 of 42 on -1 in a group",
    ];
    assert_eq!(driver.take_calls(), expected_calls);
    let (result, counts) = group.measure(|| "result").unwrap();
    let calls = [
        "Disable { group: true }",
        "Reset { group: true }",
        "Enable { group: true }",
        "Disable { group: true }",
    ];
    assert_eq!(driver.take_calls(), calls);
    assert_eq!(result, "result");
    assert_eq!((counts[0], counts[1]), (100, 101));
    assert_eq!(counts.get("cycles"), Some(101));
    assert_eq!(counts.get("cycles:k"), Some(101));
    let names: Vec<String> = counts.iter().map(|(label, _)| label.to_string()).collect();
    assert_eq!(names, ["instructions", "cycles:k"]);
    assert_eq!(counts.get("branches"), None);
    assert_eq!(counts.enabled, Duration::from_micros(5));
    let ((), again) = group.measure(|| ()).unwrap();
    assert_eq!(again.enabled, Duration::from_micros(5), "of this run alone");
    assert_eq!(again.running, Duration::from_micros(5));
}

#[test]
fn an_event_of_a_group_is_read_alone() {
    let driver = Arc::new(FakeDriver::default());
    let group = Group::of(Event::instructions())
        .and(Event::cycles())
        .and(Event::branches())
        .open_on(&driver.device())
        .unwrap();
    group.enable().unwrap();
    for (event, value) in group.events().iter().zip(100..) {
        let reading = event.read_with_times().unwrap();
        assert_eq!((event.read().unwrap(), reading.value), (value, value));
        assert_eq!(reading.enabled, Duration::from_micros(5));
        assert_eq!(reading.running, Duration::from_micros(5));
        assert_eq!(event.lost_samples().unwrap(), 0);
    }
}

#[test]
fn enodev_means_an_ended_task_or_an_offline_cpu() {
    let driver = FakeDriver::failing_with(Errno::ENODEV);
    let cause = |builder: Builder| builder.open_on(&driver.device()).unwrap_err().cause;
    assert_eq!(cause(Event::cycles().pid(42)), Cause::NoSuchTask);
    assert_eq!(cause(Event::cycles().cpu(1)), Cause::NoSuchCpu);
}

#[test]
fn einval_for_an_impossible_cpu_is_no_fault_of_the_event() {
    let driver = FakeDriver::failing_with(Errno::EINVAL);
    let cause = |cpu| Event::cycles().cpu(cpu).open_on(&driver.device());
    assert_eq!(cause(0).unwrap_err().cause, Cause::NoSuchEvent);
    // Linux has 8192 CPUs at most.
    assert_eq!(cause(9999).unwrap_err().cause, Cause::NoSuchCpu);
}

/// A driver that takes up to 4999 samples a second, and whose counters are in use.
#[derive(Debug)]
struct LimitedFrequency;

// SAFETY: `Driver` requires files without `cap_user_rdpmc` in their first page: this driver opens
// no files.
unsafe impl Driver for LimitedFrequency {
    fn call(&self, call: Call<'_>) -> Result<(), Errno> {
        match call {
            Call::Properties(properties) => {
                properties.api_version = 3;
                Ok(())
            }
            _ => Err(Errno::ENOTTY),
        }
    }

    fn open_event(&self, open: &mut EventOpen<'_>) -> Result<OwnedFd, Errno> {
        let frequency = u64::from_ne_bytes(open.attr[16..24].try_into().unwrap());
        Err(if frequency > 4999 {
            Errno::EINVAL
        } else {
            Errno::EBUSY
        })
    }
}

#[test]
fn einval_for_a_too_high_frequency_is_no_fault_of_the_event() {
    let device = Device::with_driver(Arc::new(LimitedFrequency)).unwrap();
    let cause = |builder: Builder| builder.sample_on(&device).unwrap_err().cause;
    let frequent = Event::cycles().frequency(5000);
    assert_eq!(cause(frequent), Cause::FrequencyTooHigh(5000));
    let less_frequent = cause(Event::cycles().frequency(4999));
    assert!(matches!(less_frequent, Cause::NoFreeCounter(_)));
    assert_eq!(cause(Event::cycles().period(5000)), Cause::NoSuchEvent);
}

#[test]
fn a_refusal_without_owners_has_its_own_message() {
    let driver = FakeDriver::failing_with(Errno::EBUSY);
    let mut error = Event::cycles().open_on(&driver.device()).unwrap_err();
    error.cause = Cause::NoFreeCounter(perfmon::event::Owners::default());
    assert!(error.to_string().contains("no program has one"), "{error}");
}

#[test]
fn a_refusal_names_the_owners_of_the_counters() {
    let driver = FakeDriver::failing_with(Errno::EBUSY);
    let error = Event::cycles().open_on(&driver.device()).unwrap_err();
    let Cause::NoFreeCounter(owners) = &error.cause else {
        panic!("{error}")
    };
    assert_eq!(owners.0.len(), 2, "the free one has no owner");
    assert_eq!(owners.0[0].0, CounterId::General(0));
    assert_eq!(owners.0[0].1.kind, OwnerKind::Tasks);
    assert_eq!(
        error.to_string(),
        "can't count cycles of this thread: no counter is free for this event: make (3 events of tasks, pid 12) has 1 counter, \
         Linux's perf or the NMI watchdog has 1 counter"
    );
    assert!(error.cause.help().is_some());
    assert_eq!(driver.device().owners(), *owners);
}

#[test]
fn errors_have_their_causes() {
    let cause = |errno| {
        let driver = FakeDriver::failing_with(errno);
        let result = Event::cycles().pid(42).open_on(&driver.device());
        result.unwrap_err().cause
    };
    assert_eq!(cause(Errno::ENOENT), Cause::NoSuchEvent);
    assert_eq!(cause(Errno::EINVAL), Cause::NoSuchEvent);
    assert_eq!(cause(Errno::EOPNOTSUPP), Cause::NotSupported);
    assert_eq!(cause(Errno::ESRCH), Cause::NoSuchTask);
    assert_eq!(cause(Errno::EACCES), Cause::Forbidden);
    assert_eq!(cause(Errno::EPERM), Cause::LockedDown);
    assert_eq!(cause(Errno::ENOTTY), Cause::UnknownCommand);

    let driver = Arc::new(FakeDriver::default());
    let event = Event::cycles().open_on(&driver.device()).unwrap();
    *driver.errno.lock().unwrap() = Some(Errno::EIO);
    assert_eq!(event.read().unwrap_err().cause, Cause::Missed);
}

#[test]
fn a_page_is_for_the_thread_that_is_counted() {
    let driver = Arc::new(FakeDriver::default());
    let cause = |builder: Builder| {
        let event = builder.open_on(&driver.device()).unwrap();
        event.user_page().map(drop).unwrap_err().cause
    };
    assert_eq!(cause(Event::cycles().pid(42)), Cause::OtherThread);
    assert_eq!(cause(Event::cycles().cpu(0)), Cause::OtherThread);
    let event = Event::cycles().open_on(&driver.device()).unwrap();
    let in_other_thread = std::thread::scope(|scope| {
        let page = scope.spawn(|| event.user_page().map(drop).unwrap_err().cause);
        page.join().unwrap()
    });
    assert_eq!(in_other_thread, Cause::OtherThread);
    // /dev/null can't be mapped.
    let cause = event.user_page().map(drop).unwrap_err().cause;
    assert_eq!(cause, Cause::Unexpected(Errno::ENODEV));
}
