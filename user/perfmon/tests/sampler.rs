// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of samplers on rings that the tests write.
#![allow(clippy::unwrap_used, reason = "in a test, a panic is the report")]

use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::memfd::{MFdFlags, memfd_create};
use perfmon::event::Builder;
use perfmon::sampler::{Frame, Ready, Record, Sample, Task};
use perfmon::sys::{Call, Driver, EventCall, EventOpen};
use perfmon::{Cause, Device, Errno, Event, Sampler};
use proptest::prelude::*;

const PAGE: u64 = 4096;
/// Words of a ring of one page.
const RING_WORDS: u64 = PAGE / 8;

/// A driver whose events are files in memory, with the IDs 7, 8, ...
#[derive(Debug, Default)]
struct FileDriver {
    events: Mutex<Vec<File>>,
    calls: Mutex<Vec<String>>,
}

impl FileDriver {
    fn device(self: &Arc<Self>) -> Device {
        Device::with_driver(Arc::clone(self) as _).unwrap()
    }

    fn ring(&self) -> Ring {
        Ring {
            file: self.events.lock().unwrap()[0].try_clone().unwrap(),
            head: 0,
        }
    }
}

// SAFETY: `Driver` requires files without `cap_user_rdpmc` in their first page: the tests write only positions there.
unsafe impl Driver for FileDriver {
    fn call(&self, call: Call<'_>) -> Result<(), Errno> {
        if let Call::Properties(properties) = call {
            properties.api_version = 3;
        }
        Ok(())
    }

    fn open_event(&self, open: &mut EventOpen<'_>) -> Result<OwnedFd, Errno> {
        let word = |at: usize| u64::from_ne_bytes(open.attr[at..at + 8].try_into().unwrap());
        self.calls.lock().unwrap().push(format!(
            "period {} type {:#x} format {:#x} flags {:#x} wakeup {}",
            word(16),
            word(24),
            word(32),
            word(40),
            word(48),
        ));
        let file = File::from(memfd_create(c"ring", MFdFlags::empty()).unwrap());
        file.set_len(9 * PAGE).unwrap();
        self.events.lock().unwrap().push(file.try_clone().unwrap());
        Ok(file.into())
    }

    fn call_event(&self, _: BorrowedFd<'_>, call: EventCall<'_>) -> Result<(), Errno> {
        match call {
            EventCall::Id(id) => *id = 6 + self.events.lock().unwrap().len() as u64,
            EventCall::SetOutput(_) => self.calls.lock().unwrap().push("output".to_owned()),
            EventCall::Pause(paused) => {
                self.calls.lock().unwrap().push(format!("pause {paused}"));
            }
            _ => {}
        }
        Ok(())
    }

    fn read_event(&self, _: BorrowedFd<'_>, words: &mut [u64]) -> Result<usize, Errno> {
        words.copy_from_slice(&[100, 5000, 5000, 3][..words.len()]);
        Ok(words.len())
    }
}

/// The kernel's side of a ring of one page.
struct Ring {
    file: File,
    head: u64,
}

impl Ring {
    /// Moves the head to the position after `words` words.
    fn with_head(mut self, words: u64) -> Self {
        self.head = words * 8;
        self
    }

    /// Writes a record after the last one, and publishes it.
    fn put_record(&mut self, kind: u64, misc: u64, words: &[u64]) {
        let header = kind | misc << 32 | (words.len() as u64 + 1) * 8 << 48;
        for word in [&[header], words].concat() {
            let file_offset = PAGE + self.head % PAGE;
            self.file
                .write_all_at(&word.to_ne_bytes(), file_offset)
                .unwrap();
            self.head = self.head.wrapping_add(8);
        }
        self.publish(self.head);
    }

    /// Writes a record in front of the last one, as the kernel does in a ring that it overwrites, and publishes it.
    fn put_record_backward(&mut self, kind: u64, words: &[u64]) {
        let start = self.head.wrapping_sub((words.len() as u64 + 1) * 8);
        self.head = start;
        self.put_record(kind, 0, words);
        self.head = start;
        self.publish(start);
    }

    fn publish(&self, head: u64) {
        self.file.write_all_at(&head.to_ne_bytes(), 1024).unwrap();
    }

    fn tail(&self) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, 1032).unwrap();
        u64::from_ne_bytes(bytes)
    }
}

fn sampler(builder: Builder) -> (Sampler, Ring) {
    let driver = Arc::new(FileDriver::default());
    let sampler = builder.pages(1).sample_on(&driver.device()).unwrap();
    (sampler, driver.ring())
}

/// Returns the word that has `low` in its lower half and `high` in its upper half.
const fn word_of(low: u64, high: u64) -> u64 {
    high << 32 | low
}

/// The words of a sample without a call chain.
const SAMPLE: [u64; 6] = [7, 0x40_1000, word_of(42, 43), 1_000_000, 3, 97];
/// The words at the end of records other than samples.
const TRAILER: [u64; 4] = [word_of(42, 43), 1_000_001, 3, 7];

fn with_trailer(words: &[u64]) -> Vec<u64> {
    [words, &TRAILER].concat()
}

fn describe_open(builder: Builder) -> String {
    let driver = Arc::new(FileDriver::default());
    builder.pages(1).sample_on(&driver.device()).unwrap();
    driver.calls.lock().unwrap().remove(0)
}

#[test]
fn each_method_has_its_bits() {
    let event = || Event::cycles().period(97);
    let id_all = 1 << 18;
    let expected = |sample_type: u64, flags: u64| {
        let flags = flags | id_all;
        format!("period 97 type {sample_type:#x} format 0x13 flags {flags:#x} wakeup 0")
    };
    // IDENTIFIER, PERIOD, CPU, TIME, TID, IP.
    let usual_fields = 0x1_0187;
    assert_eq!(describe_open(event()), expected(usual_fields, 0));
    assert_eq!(
        describe_open(event().callchain()),
        expected(usual_fields | 1 << 5, 0)
    );
    assert_eq!(
        describe_open(Event::cycles().frequency(97)),
        expected(usual_fields, 1 << 10)
    );
    assert_eq!(
        describe_open(event().tasks()),
        expected(usual_fields, 1 << 9 | 1 << 13 | 1 << 24)
    );
    assert_eq!(
        describe_open(event().mappings()),
        expected(usual_fields, 1 << 8 | 1 << 23)
    );
    assert_eq!(
        describe_open(event().switches()),
        expected(usual_fields, 1 << 26)
    );
    assert_eq!(
        describe_open(event().no_kernel_callchain()),
        expected(usual_fields, 1 << 21)
    );
    assert_eq!(
        describe_open(event().no_user_callchain()),
        expected(usual_fields, 1 << 22)
    );
    assert_eq!(
        describe_open(event().branches(9)),
        expected(usual_fields | 1 << 11, 0)
    );
    assert_eq!(
        describe_open(event().user_stack(64, 1)),
        expected(usual_fields | 3 << 12, 0)
    );
    assert_eq!(
        describe_open(event().data_addresses().data_sources().weights()),
        expected(usual_fields | 1 << 3 | 1 << 15 | 1 << 24, 0)
    );
    assert_eq!(
        describe_open(event().data_mappings()),
        expected(usual_fields, 1 << 17)
    );
    assert!(describe_open(event().wake_after(5)).ends_with("wakeup 5"));
}

/// Writes a record of each type.
fn put_records_of_all_types(ring: &mut Ring) {
    ring.put_record(9, 2, &SAMPLE);
    ring.put_record(2, 0, &with_trailer(&[7, 12]));
    let name = |text: &[u8; 8]| u64::from_ne_bytes(*text);
    ring.put_record(
        3,
        0,
        &with_trailer(&[word_of(42, 43), name(b"short\0\0\0")]),
    );
    let words = [word_of(42, 43), name(b"not so s"), name(b"hort\0\0\0\0")];
    ring.put_record(3, 1 << 13, &with_trailer(&words));
    ring.put_record(7, 0, &with_trailer(&[word_of(50, 42), word_of(51, 43), 5]));
    ring.put_record(4, 0, &with_trailer(&[word_of(50, 1), word_of(51, 1), 6]));
    ring.put_record(14, 3 << 13, &TRAILER);
    ring.put_record(15, 0, &with_trailer(&[word_of(8, 9)]));
    ring.put_record(5, 0, &with_trailer(&[7, 7, 7]));
    ring.put_record(6, 0, &with_trailer(&[7, 7, 7]));
    let file = [word_of(8, 1), 99, 4, word_of(5, 2)];
    let path = [name(b"/bin/tru"), name(b"e\0\0\0\0\0\0\0")];
    let place = [word_of(42, 43), 0x1000, 0x2000, 0x3000];
    let words = [&place[..], &file, &path].concat();
    ring.put_record(10, 2, &with_trailer(&words));
    ring.put_record(77, 0, &[]);
}

#[test]
fn records_have_their_types() {
    let (mut sampler, mut ring) = sampler(Event::cycles().period(97));
    put_records_of_all_types(&mut ring);
    let task = Task { pid: 42, tid: 43 };
    let records = sampler.records();
    let mut records = records.iter().map(Result::unwrap);
    let mut next = || records.next().unwrap();
    let Record::Sample(sample) = next() else {
        panic!("it is a sample")
    };
    assert_eq!(
        (sample.ip, sample.period, sample.kernel),
        (0x40_1000, 97, false)
    );
    let stamp = sample.stamp;
    assert_eq!(
        (stamp.id, stamp.task, stamp.time, stamp.cpu),
        (7, task, 1_000_000, 3)
    );
    assert_eq!(sample.callchain().count(), 0);
    let lost_record = next();
    assert!(matches!(lost_record, Record::Lost { samples: 12, .. }));
    let stamp = lost_record.stamp().unwrap();
    assert_eq!(
        (stamp.id, stamp.task, stamp.time, stamp.cpu),
        (7, task, 1_000_001, 3)
    );
    for (expected, by_exec) in [("short", false), ("not so short", true)] {
        let Record::Comm { name, exec, .. } = next() else {
            panic!("it is a name")
        };
        assert_eq!((name.to_string().as_str(), exec), (expected, by_exec));
    }
    let Record::Fork { child, parent, .. } = next() else {
        panic!("it is a beginning")
    };
    assert_eq!((child, parent), (Task { pid: 50, tid: 51 }, task));
    assert!(matches!(
        next(),
        Record::Exit {
            task: Task { pid: 50, tid: 51 },
            ..
        }
    ));
    assert!(matches!(
        next(),
        Record::Switch {
            out: true,
            preempted: true,
            other: None,
            ..
        }
    ));
    assert!(matches!(
        next(),
        Record::Switch {
            out: false,
            other: Some(Task { pid: 8, tid: 9 }),
            ..
        }
    ));
    assert!(matches!(next(), Record::Throttle { .. }));
    assert!(matches!(next(), Record::Unthrottle { .. }));
    let Record::Map(mapping) = next() else {
        panic!("it is a mapping")
    };
    assert_eq!(mapping.name(), b"/bin/true");
    assert_eq!(
        (mapping.task, mapping.start, mapping.size, mapping.offset),
        (task, 0x1000, 0x2000, 0x3000)
    );
    assert_eq!(
        (mapping.device, mapping.inode, mapping.generation),
        ((8, 1), 99, 4)
    );
    assert_eq!((mapping.protection, mapping.flags), (5, 2));
    assert_eq!(mapping.stamp.time, 1_000_001);
    let other = next();
    assert!(matches!(&other, Record::Other(raw) if raw.kind() == 77 && raw.size() == 1));
    assert!(other.stamp().is_none());
    assert!(records.next().is_none());
}

#[test]
fn a_call_chain_is_read_over_the_end_of_the_ring() {
    for start in RING_WORDS - 14..=RING_WORDS {
        let (mut sampler, ring) = sampler(Event::cycles().period(97).callchain());
        let mut ring = ring.with_head(start);
        // Publishes the head again, to move the reader to the same position.
        ring.publish(ring.head);
        drop(sampler.records());
        assert_eq!(ring.tail(), start * 8);
        let (kernel, user) = (128_u64.wrapping_neg(), 512_u64.wrapping_neg());
        let chain = [5, kernel, u64::MAX << 32, user, 0x40_1000, 0x40_2000];
        ring.put_record(9, 1, &[&SAMPLE[..], &chain].concat());
        let records = sampler.records();
        let Some(Ok(Record::Sample(sample))) = records.iter().next() else {
            panic!("it is a sample")
        };
        let expected = [
            Frame::Kernel(u64::MAX << 32),
            Frame::User(0x40_1000),
            Frame::User(0x40_2000),
        ];
        assert_eq!(sample.callchain().collect::<Vec<_>>(), expected);
        assert!(sample.kernel);
        let mut bytes = Vec::new();
        records.raw().next().unwrap().unwrap().copy_to(&mut bytes);
        assert_eq!(bytes.len(), 13 * 8);
        assert_eq!(bytes[8..16], 7_u64.to_ne_bytes());
        assert_eq!(bytes[96..], 0x40_2000_u64.to_ne_bytes());
    }
}

#[test]
fn a_data_address_stands_before_cpu_and_period() {
    let event = Event::cycles().period(97).data_addresses().callchain();
    let (mut sampler, mut ring) = sampler(event);
    let [id, ip, task, time, cpu, period] = SAMPLE;
    let words = [id, ip, task, time, 0x7000, cpu, period, 1, 0x40_1000];
    ring.put_record(9, 2, &words);
    let records = sampler.records();
    let Some(Ok(Record::Sample(sample))) = records.iter().next() else {
        panic!("it is a sample")
    };
    assert_eq!(sample.data_address, Some(0x7000));
    assert_eq!((sample.stamp.cpu, sample.period), (3, 97));
    assert_eq!(
        sample.callchain().collect::<Vec<_>>(),
        [Frame::User(0x40_1000)]
    );
}

#[test]
fn dropping_records_frees_their_space() {
    let (mut sampler, mut ring) = sampler(Event::cycles().period(97));
    assert_eq!(
        sampler.wait(Some(Duration::ZERO)).unwrap(),
        Ready::Records,
        "a file can be read"
    );
    for round in 1..=1000 {
        ring.put_record(9, 2, &SAMPLE);
        let records = sampler.records();
        assert_eq!(records.bytes(), 56);
        assert_eq!((&records).into_iter().count(), 1);
        assert_eq!(ring.tail(), (round - 1) * 56);
        drop(records);
        assert_eq!(ring.tail(), round * 56);
    }
    assert_eq!(sampler.lost_samples().unwrap(), 3);
    let event = sampler.events().next().unwrap();
    assert_eq!(event.read().unwrap(), 100);
}

#[test]
fn events_share_a_ring() {
    let driver = Arc::new(FileDriver::default());
    let device = driver.device();
    let first = Event::cycles().period(97).callchain().pages(8);
    let mut sampler = first.sample_on(&device).unwrap();
    let second = Event::instructions().period(5).wake_after(1);
    assert_eq!(sampler.add_on(&second, &device).unwrap(), 1);
    let calls = driver.calls.lock().unwrap();
    assert!(calls[1].starts_with("period 5 type 0x101a7 "), "{calls:?}");
    assert_eq!(calls[2], "output");
    let numbers = [6, 7, 8, 9].map(|id| sampler.index_of(id));
    assert_eq!(numbers, [None, Some(0), Some(1), None]);
}

#[test]
fn only_sampled_events_get_the_data_addresses_of_their_ring() {
    let driver = Arc::new(FileDriver::default());
    let device = driver.device();
    let first = Event::cycles().period(97).data_addresses().pages(8);
    let mut sampler = first.sample_on(&device).unwrap();
    for (event, expected) in [
        (Event::instructions().period(5), "period 5 type 0x1018f "),
        (Event::dummy().tasks(), "period 0 type 0x10187 "),
    ] {
        driver.calls.lock().unwrap().clear();
        sampler.add_on(&event, &device).unwrap();
        let calls = driver.calls.lock().unwrap();
        assert!(calls[0].starts_with(expected), "{calls:?}");
    }
}

/// Returns the times of the samples, in their order.
fn record_times(sampler: &mut Sampler) -> Vec<u64> {
    let records = sampler.records();
    let time = |record: Result<Record<'_>, _>| record.unwrap().stamp().unwrap().time;
    records.iter().map(time).collect()
}

#[test]
fn an_overwritten_ring_has_the_newest_records() {
    let (mut sampler, mut ring) = sampler(Event::cycles().period(97).overwrite());
    let put_records = |ring: &mut Ring, times: std::ops::Range<u64>| {
        for time in times {
            let mut sample = SAMPLE;
            sample[3] = time;
            ring.put_record_backward(9, &sample);
        }
    };
    assert_eq!(record_times(&mut sampler), []);
    put_records(&mut ring, 0..3);
    assert_eq!(record_times(&mut sampler), [2, 1, 0]);
    assert_eq!(record_times(&mut sampler), [], "each is read once");
    assert_eq!(ring.tail(), 0, "the reader can't write there");
    // A page has room for 73 samples of 56 bytes, and 8 bytes are left.
    for (from, to) in [(3, 76), (76, 150), (150, 500), (500, 501)] {
        put_records(&mut ring, from..to);
        let oldest = from.max(to - 73);
        let newest_first: Vec<u64> = (oldest..to).rev().collect();
        assert_eq!(record_times(&mut sampler), newest_first);
    }
}

#[test]
fn a_ring_is_paused_and_resumed() {
    let driver = Arc::new(FileDriver::default());
    let device = driver.device();
    let first = Event::cycles().period(97).overwrite();
    let mut sampler = first.sample_on(&device).unwrap();
    let second = Event::instructions().period(5);
    sampler.add_on(&second, &device).unwrap();
    sampler.pause().unwrap();
    sampler.resume().unwrap();
    Sampler::pause_all([&sampler, &sampler]).unwrap();
    let calls = driver.calls.lock().unwrap();
    let backward = format!("flags {:#x} ", 1 << 18 | 1 << 27);
    assert!(calls[0].contains(&backward), "{calls:?}");
    assert!(calls[1].contains(&backward), "both in one direction");
    let pauses = ["pause true", "pause false", "pause true", "pause true"];
    assert_eq!(calls[3..], pauses);
}

#[test]
fn a_ring_has_a_power_of_two_pages() {
    let driver = Arc::new(FileDriver::default());
    let sample_with = |pages| {
        let builder = Event::cycles().period(97).pages(pages);
        builder
            .sample_on(&driver.device())
            .map(drop)
            .map_err(|e| e.cause)
    };
    for pages in [1, 2, 4, 8] {
        assert_eq!(sample_with(pages), Ok(()));
    }
    for pages in [0, 3, usize::MAX, 1 << 63] {
        assert_eq!(sample_with(pages), Err(Cause::RingSize));
    }
}

/// Returns the number of records before the first error, and the error's cause if there is one.
fn read(sampler: &mut Sampler) -> (usize, Option<Cause>) {
    let records = sampler.records();
    let mut number = 0;
    let mut cause = None;
    for record in &records {
        assert!(cause.is_none(), "nothing comes after an error");
        match record {
            Ok(record) => {
                number += 1;
                match &record {
                    Record::Sample(sample) => {
                        let frames = Sample::callchain(sample).count() as u64;
                        assert!(frames <= RING_WORDS);
                    }
                    Record::Map(mapping) => assert!(mapping.name().len() as u64 <= RING_WORDS * 8),
                    _ => {}
                }
            }
            Err(error) => cause = Some(error.cause),
        }
    }
    (number, cause)
}

#[test]
fn invalid_records_are_an_error_and_skipped() {
    let bad_ring = Some(Cause::BadRing);
    let (mut sampler, mut ring) = sampler(Event::cycles().period(97).callchain());
    // A sample without the call chain's length, samples with a call chain longer than the record, and two records that
    // are too short for their kind.
    for (kind, words) in [
        (9, &SAMPLE[..]),
        (9, &[7, 1, 2, 3, 4, 5, 1]),
        (9, &[7, 1, 2, 3, 4, 5, u64::MAX]),
        (2, &TRAILER),
        (10, &[0; 12]),
    ] {
        ring.put_record(9, 2, &[&SAMPLE[..], &[0]].concat());
        ring.put_record(kind, 0, words);
        ring.put_record(9, 2, &[&SAMPLE[..], &[0]].concat());
        assert_eq!(read(&mut sampler), (1, bad_ring.clone()));
        assert_eq!(ring.tail(), ring.head);
    }
    // Headers with a size of 0, of 4 bytes, and beyond the head.
    for size in [0, 4, 64] {
        ring.put_record(9, 2, &[&SAMPLE[..], &[0]].concat());
        let place = PAGE + (ring.head - 64) % PAGE;
        let header = (9 | (size + u64::from(size == 64) * 8) << 48).to_ne_bytes();
        ring.file.write_all_at(&header, place).unwrap();
        assert_eq!(read(&mut sampler), (0, bad_ring.clone()));
    }
    // Heads that are more than a ring's length ahead, or not a multiple of a word.
    for more in [PAGE + 8, 1, u64::MAX - 7, 1 << 63] {
        ring.publish(ring.head.wrapping_add(more));
        assert_eq!(read(&mut sampler), (0, bad_ring.clone()));
        ring.publish(ring.head);
        drop(sampler.records());
    }
    ring.put_record(9, 2, &[&SAMPLE[..], &[0]].concat());
    assert_eq!(read(&mut sampler), (1, None));
}

/// In a child of fork(2) the whole ring reads as zeros, also its head.
#[test]
fn a_ring_of_zeros_has_no_records() {
    for builder in [Event::cycles(), Event::cycles().overwrite()] {
        let (mut sampler, mut ring) = sampler(builder.period(97));
        ring = ring.with_head(1000 * RING_WORDS);
        ring.publish(ring.head);
        drop(sampler.records());
        ring.publish(0);
        assert_eq!(sampler.records().bytes(), 0);
        assert_eq!(read(&mut sampler), (0, None));
        ring.publish(ring.head);
        assert_eq!(read(&mut sampler), (0, None), "the position is kept");
    }
}

proptest! {
    #[test]
    fn any_ring_content_is_read_without_a_panic(
        words in prop::collection::vec(
            prop_oneof![any::<u64>(), (0_u64..20, 0_u64..4, 0_u64..40).prop_map(|(kind, misc, size)| {
                kind | misc << 32 | size * 8 << 48
            })],
            0..512,
        ),
        heads in prop::collection::vec(prop_oneof![any::<u64>(), (0..=RING_WORDS).prop_map(|n| n * 8)], 1..4),
        (has_chain, overwritten) in any::<(bool, bool)>(),
    ) {
        let builder = Event::cycles().period(97);
        let builder = if has_chain { builder.callchain() } else { builder };
        let builder = if overwritten { builder.overwrite() } else { builder };
        let (mut sampler, ring) = sampler(builder);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        ring.file.write_all_at(&bytes, PAGE).unwrap();
        let mut tail = 0;
        for head in heads {
            ring.publish(head);
            read(&mut sampler);
            // With a head of 0, as in a child of fork(2), the position is kept.
            if head != 0 {
                tail = head;
            }
            if !overwritten {
                prop_assert_eq!(ring.tail(), tail);
            }
        }
    }
}
