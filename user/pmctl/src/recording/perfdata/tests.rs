// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that another reader and pmctl's own find what was written, and that no bytes make pmctl's reader panic.

use std::io::Cursor;
use std::path::Path;

use linux_perf_data::linux_perf_event_reader::EventRecord;
use linux_perf_data::{Feature, PerfFileReader, PerfFileRecord};
use proptest::prelude::*;

use super::example::example;
use super::header::{ENTRY_SIZE, HEADER_SIZE, MAGIC};
use super::read::read;
use super::sections::ReadError;
use super::write::CUT_DISTANCE;
use super::*;

fn encode(recording: &Recording) -> Vec<u8> {
    let file = write_recording(recording, Cursor::new(Vec::new()));
    file.expect("a vector takes everything").into_inner()
}

#[test]
fn a_written_recording_is_read_again() {
    for branches in [false, true] {
        let recording = example(branches);
        assert_eq!(read(encode(&recording)), Ok(recording));
    }
}

#[test]
fn another_reader_finds_the_same() {
    let recording = example(true);
    let bytes = encode(&recording);
    let PerfFileReader {
        mut record_iter,
        mut perf_file,
    } = PerfFileReader::parse_file(Cursor::new(&bytes)).expect("it is well formed");

    let names: Vec<_> = perf_file
        .event_attributes()
        .iter()
        .map(|event| event.name().unwrap_or("none").to_owned())
        .collect();
    assert_eq!(names, ["cycles:u", "r1c0"]);
    assert_eq!(perf_file.hostname().unwrap(), Some("here"));
    assert_eq!(perf_file.os_release().unwrap(), Some("7.3.0"));
    assert_eq!(perf_file.arch().unwrap(), Some("x86_64"));
    let words = perf_file.cmdline().unwrap().expect("it is there");
    assert_eq!(words, ["pmctl", "record"]);
    let cpus = perf_file.nr_cpus().unwrap().expect("it is there");
    let cpus = (cpus.nr_cpus_available, cpus.nr_cpus_online);
    assert_eq!(cpus, (4, 2));
    let times = perf_file.sample_time_range().unwrap().expect("it is there");
    assert_eq!((times.first_sample_time, times.last_sample_time), (6, 7));
    let ids = perf_file.build_ids().unwrap();
    let id = ids.values().next().expect("there is one");
    assert_eq!(
        (id.path.as_slice(), id.build_id.len()),
        (&b"/bin/true"[..], 20)
    );
    assert!(perf_file.features().has_feature(Feature::BRANCH_STACK));

    let mut samples = Vec::new();
    let mut other_records = Vec::new();
    while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
        let PerfFileRecord::EventRecord { attr_index, record } = record else {
            panic!("there is nothing else");
        };
        let stamp = record.common_data().expect("it is well formed");
        match record.parse().expect("it is well formed") {
            EventRecord::Sample(sample) => {
                assert_eq!((stamp.pid, stamp.tid), (Some(7), Some(8)));
                assert_eq!(stamp.cpu, Some(1));
                assert_eq!(sample.period, Some(1000));
                samples.push((attr_index, sample.timestamp, sample.ip));
            }
            EventRecord::Mmap2(map) => {
                assert_eq!(map.path.as_slice().as_ref(), b"/bin/true");
                assert_eq!(
                    (map.pid, map.address, map.length, map.page_offset),
                    (7, 0x40_0000, 0x1_0000, 0x1000)
                );
            }
            EventRecord::Comm(comm) => {
                assert!(comm.is_execve);
                assert_eq!(comm.name.as_slice().as_ref(), b"true");
            }
            EventRecord::Fork(fork) => assert_eq!((fork.pid, fork.tid, fork.ppid), (7, 8, 7)),
            EventRecord::Lost(lost) => assert_eq!(lost.count, 3),
            other => other_records.push(format!("{other:?}")),
        }
    }
    assert_eq!(
        samples,
        [
            (0, Some(6), Some(0x40_1234)),
            (1, Some(7), Some(u64::MAX - 0xff))
        ]
    );
    assert_eq!(other_records.len(), 4, "{other_records:?}");
}

#[test]
fn files_of_other_formats_have_errors_of_their_own() {
    assert_eq!(read(*b""), Err(ReadError::Empty));
    assert_eq!(read([0x7f; 200]), Err(ReadError::NotPerfData));
    let with_magic = |magic: &[u8; 8]| read([&magic[..], &[0; 200]].concat());
    assert_eq!(with_magic(b"2ELIFREP"), Err(ReadError::OtherByteOrder));
    assert_eq!(with_magic(b"PERFFILE"), Err(ReadError::FirstVersion));
    let mut newer = example(false);
    newer.notes.version = 2;
    assert_eq!(
        read(encode(&newer)),
        Err(ReadError::Version { found: 2, known: 1 })
    );
}

/// Returns the file with perf's name as the program that wrote it.
fn with_perf_as_writer(mut file: Vec<u8>) -> Vec<u8> {
    let name = file.windows(6).position(|bytes| bytes == b"pmctl ");
    file[name.expect("its writer is in it")..][..6].copy_from_slice(b"perf 7");
    file
}

#[test]
fn the_features_are_those_that_perf_knows() {
    let file = encode(&example(true));
    let highest_index = file[..HEADER_SIZE].iter().rposition(|byte| *byte != 0);
    // HEADER_LAST_FEATURE of perf 5.10 is 30: `perf inject` of 6.1 to 7.3 reads past its table for higher numbers.
    assert!(highest_index < Some(HEADER_SIZE - 32 + 30 / 8));
}

#[test]
fn recordings_of_earlier_versions_have_the_notes_as_a_feature() {
    let own_recording = example(true);
    let mut file = encode(&own_recording);
    // Adds an entry to the table of features, so that everything after it moves by the size of an entry.
    let word = |file: &[u8], at: usize| {
        u64::from_le_bytes(file[at..at + 8].try_into().expect("these are 8"))
    };
    let table = usize::try_from(word(&file, 40) + word(&file, 48)).expect("it is in memory");
    let number: u32 = file[HEADER_SIZE - 32..HEADER_SIZE]
        .iter()
        .map(|byte| byte.count_ones())
        .sum();
    for entry in 0..number as usize {
        let at = table + entry * 16;
        let moved_offset = word(&file, at) + 16;
        file[at..at + 8].copy_from_slice(&moved_offset.to_le_bytes());
    }
    let mark = file.windows(8).rposition(|bytes| bytes == b"pmctl\0\0\0");
    let mark = mark.expect("the notes are in it");
    file.drain(mark..mark + 16);
    let start = mark + 16;
    let length = file.len() - mark;
    let entry = [(start as u64).to_le_bytes(), (length as u64).to_le_bytes()].concat();
    let at = table + number as usize * 16;
    file.splice(at..at, entry);
    file[HEADER_SIZE - 1] |= 0x80;
    let read_recording = read(file).expect("it is whole");
    assert_eq!(read_recording.notes, own_recording.notes);
    assert!(!read_recording.is_from_perf);
}

#[test]
fn a_file_of_perf_has_the_same_samples() {
    let own_recording = example(false);
    let perfs = read(with_perf_as_writer(encode(&own_recording))).expect("it is whole");
    assert!(perfs.is_from_perf && !perfs.is_unfinished);
    assert_eq!(perfs.events, own_recording.events);
    assert!(perfs.samples().eq(own_recording.samples()));
    assert_eq!(perfs.notes.total(0), None);
}

#[test]
fn a_sample_of_an_unknown_event_is_left_out() {
    let own_recording = example(false);
    assert_eq!(own_recording.events.len(), 2);
    let mut file = with_perf_as_writer(encode(&own_recording));
    let word = |file: &[u8], at: usize| {
        let bytes = file[at..at + 8].try_into().expect("it has 8 bytes");
        usize::try_from(u64::from_le_bytes(bytes)).expect("it fits")
    };
    // The list of events has the offset of each event's numbers 16 bytes before the end of its entry.
    let (entry_size, entries) = (word(&file, 16), word(&file, 24));
    let ids = word(&file, entries + 2 * entry_size - 16);
    file[ids] ^= 0x80;
    let recording = read(file).expect("it is whole");
    let number_of = |recording: &Recording, event: usize| {
        let samples = recording.samples();
        samples.filter(|(_, sample)| sample.event == event).count()
    };
    assert_eq!(number_of(&recording, 0), number_of(&own_recording, 0));
    assert_eq!(number_of(&recording, 1), 0);
    let left_out = number_of(&own_recording, 1);
    let beginning = format!("{left_out} sample");
    let mut notes = recording.notes.degraded.iter();
    assert!(left_out > 0 && notes.any(|note| note.starts_with(&beginning)));
}

#[test]
fn samples_of_a_guest_keep_their_mode() {
    for guest_mode in [None, Some(GuestMode::Kernel), Some(GuestMode::User)] {
        let mut record = first_sample(true);
        if let Body::Sample(sample) = &mut record.body {
            sample.guest_mode = guest_mode;
        }
        let own_file = write_records(&[record.clone()]);
        for file in [with_perf_as_writer(own_file.clone()), own_file] {
            let recording = read(file).expect("it is whole");
            let mut modes = recording.samples().map(|(_, sample)| sample.guest_mode);
            assert_eq!(modes.next(), Some(guest_mode));
        }
    }
}

#[test]
fn mappings_of_a_file_of_perf_keep_their_build_ids() {
    let map = |pid, start: u64, file: &str, id: u8| {
        let body = Body::Map(Map {
            task: Task::leader(pid),
            is_kernel: is_kernel_address(start),
            start,
            length: 0x1000,
            offset: start,
            build_id: vec![id; 20],
            file: file.into(),
            ..Map::default()
        });
        let stamp = Stamp::default();
        Record { stamp, body }
    };
    let records = [
        map(1, 0x1000, "/lib/a.so", 1),
        map(2, 0x1000, "/lib/a.so", 2),
        map(u32::MAX, 1 << 63, "[kernel.kallsyms]_text", 3),
    ];
    let perfs = read(with_perf_as_writer(write_records(&records))).expect("it is whole");
    let read_records: Result<Vec<_>, _> = perfs.records.iter().collect();
    assert_eq!(read_records.as_deref(), Ok(&records[..]));
    assert_eq!(perfs.build_id(Path::new(KERNEL)), Some(&[3; 20][..]));
    // Several files may have the same path, so the build-id of a path is not known.
    assert_eq!(perfs.build_id(Path::new("/lib/a.so")), None);
}

#[test]
fn an_unfinished_file_of_perf_is_read_to_its_end() {
    let own_recording = example(false);
    let whole_file = with_perf_as_writer(encode(&own_recording));
    let word = |at: usize| {
        let word = u64::from_le_bytes(whole_file[at..at + 8].try_into().expect("these are 8"));
        usize::try_from(word).expect("it is in memory")
    };
    let (start, size) = (word(40), word(48));
    let killed = |records: usize| {
        let mut file = whole_file[..start + records].to_vec();
        file[48..56].fill(0);
        read(file).expect("it is as far as it goes")
    };
    let read_recording = killed(size);
    assert!(read_recording.is_from_perf && read_recording.is_unfinished);
    assert!(read_recording.samples().eq(own_recording.samples()));
    let words = read_recording.notes.degraded.join("; ");
    assert!(words.contains("perf record` was killed"), "{words}");
    let record_count = read_recording.records.iter().count();
    // The file ends within the last record, or before the first record.
    assert_eq!(killed(size - 9).records.iter().count(), record_count - 1);
    assert_eq!(killed(0).records.iter().count(), 0);
}

#[test]
fn a_record_of_impossible_size_ends_an_unfinished_file() {
    let own_recording = example(false);
    let whole_file = with_perf_as_writer(encode(&own_recording));
    let word =
        |at: usize| u64::from_le_bytes(whole_file[at..at + 8].try_into().expect("these are 8"));
    let end = usize::try_from(word(40) + word(48)).expect("it is in memory");
    let mut file = whole_file[..end].to_vec();
    file[48..56].fill(0);
    // PERF_RECORD_AUXTRACE: the header, and the number of bytes after the record.
    file.extend(71_u32.to_le_bytes());
    file.extend((16_u32 << 16).to_le_bytes());
    file.extend((u64::MAX - 100).to_le_bytes());
    let read_recording = read(file).expect("it is as far as it goes");
    assert!(read_recording.samples().eq(own_recording.samples()));
}

#[test]
fn a_recording_without_events_is_refused() {
    let mut recording = example(false);
    recording.events.clear();
    recording.records = Records::from(&[][..]);
    recording.notes.totals.clear();
    assert_eq!(
        read(encode(&recording)),
        Err(ReadError::Broken("list of events"))
    );
}

/// Returns the example as a file of perf, with `change` applied to the entry of its first event.
fn perfs_with(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut perfs = with_perf_as_writer(encode(&example(true)));
    let attrs = u64::from_le_bytes(perfs[24..32].try_into().expect("these are 8"));
    let attrs = usize::try_from(attrs).expect("it is in memory");
    change(&mut perfs[attrs..attrs + ENTRY_SIZE]);
    perfs
}

#[test]
fn event_ids_that_overlap_are_refused() {
    let size = encode(&example(true)).len() as u64;
    let perfs = perfs_with(|entry| {
        entry[attr::SIZE..attr::SIZE + 8].copy_from_slice(&0_u64.to_le_bytes());
        entry[attr::SIZE + 8..].copy_from_slice(&size.to_le_bytes());
    });
    assert_eq!(read(perfs), Err(ReadError::Broken("list of events")));
}

#[test]
fn a_file_of_perf_with_other_registers_has_a_note() {
    let has_note = |registers: u64| {
        let perfs = perfs_with(|entry| {
            // sample_regs_user
            entry[80..88].copy_from_slice(&registers.to_le_bytes());
        });
        let words = read(perfs).map(|perfs| perfs.notes.degraded);
        words.map(|words| words.iter().any(|words| words.contains("--user-regs")))
    };
    // DS takes the place of AX. The number of registers stays the same, since the samples have
    // parts behind the registers.
    assert_eq!(has_note(UserStack::REGISTER_MASK ^ 0x1001), Ok(true));
    assert_eq!(has_note(UserStack::REGISTER_MASK), Ok(false));
}

/// Finishes a file with the host, the build IDs and the notes of the example.
fn finish<F: io::Write + io::Seek>(
    writer: Writer<F>,
    has_all_parts: bool,
) -> io::Result<Finished<F>> {
    let Recording {
        host,
        build_ids,
        mut notes,
        ..
    } = example(has_all_parts);
    writer.finish(&host, &build_ids, &mut notes)
}

/// Returns a file of the example, with these records in this order.
fn write_records(records: &[Record]) -> Vec<u8> {
    let mut file = Cursor::new(Vec::new());
    let mut writer =
        Writer::new(&mut file, example(true).events).expect("a vector takes everything");
    for record in records {
        writer.append(record).expect("a vector takes everything");
    }
    finish(writer, true).expect("a vector takes everything");
    file.into_inner()
}

#[test]
fn a_recording_is_whole_before_its_first_record() {
    let mut file = Cursor::new(Vec::new());
    drop(Writer::new(&mut file, example(true).events).expect("a vector takes everything"));
    let recording = read(&file.into_inner()[..]).expect("it is whole as far as it goes");
    assert!(recording.is_unfinished);
    assert_eq!(recording.records.iter().count(), 0);
}

#[test]
fn the_header_of_an_unfinished_recording_covers_its_records() {
    let records = super::example::records(true);
    let mut file = Cursor::new(Vec::new());
    let mut writer =
        Writer::new(&mut file, example(true).events).expect("a vector takes everything");
    for record in &records {
        writer.append(record).expect("a vector takes everything");
    }
    writer.save().expect("a vector takes everything");
    drop(writer);
    let bytes = file.into_inner();
    let recording = read(&bytes[..]).expect("it is whole as far as it goes");
    assert!(recording.is_unfinished);
    assert_eq!(recording.records, Records::from(&records[..]));
    let names: Vec<&str> = recording.events.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["cycles:u", "r1c0"]);
    let PerfFileReader {
        mut record_iter,
        mut perf_file,
    } = PerfFileReader::parse_file(Cursor::new(&bytes)).expect("it is well formed");
    let mut event_records = 0;
    while let Some(record) = record_iter
        .next_record(&mut perf_file)
        .expect("it is well formed")
    {
        assert!(matches!(record, PerfFileRecord::EventRecord { .. }));
        event_records += 1;
    }
    assert_eq!(event_records, records.len());
}

/// A file on a disk that is full after `size` bytes.
struct Disk {
    file: Cursor<Vec<u8>>,
    size: usize,
}

impl io::Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let offset = usize::try_from(self.file.position()).expect("it is small");
        let room = self.size.saturating_sub(offset).min(bytes.len());
        if room == 0 && !bytes.is_empty() {
            return Err(io::Error::from_raw_os_error(nix::libc::ENOSPC));
        }
        self.file.write(&bytes[..room])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Seek for Disk {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

/// A file on a disk that has no room for the header when it is written the second time.
#[derive(Default)]
struct CopyingDisk {
    file: Cursor<Vec<u8>>,
    headers: u32,
}

impl io::Write for CopyingDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.file.position() == 0 {
            self.headers += 1;
            if self.headers == 2 {
                return Err(io::Error::from_raw_os_error(nix::libc::ENOSPC));
            }
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Seek for CopyingDisk {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[test]
fn a_header_without_room_is_noted_as_the_end() {
    let disk = CopyingDisk::default();
    let mut writer = Writer::new(disk, example(false).events).expect("there is room");
    writer.append(&first_sample(false)).expect("there is room");
    let error = writer.save().expect_err("the header does not fit");
    assert!(is_full(&error));
    let finished = finish(writer, false).expect("there is room again");
    let bytes = finished.output.file;
    let recording = read(bytes.into_inner()).expect("it is whole");
    assert_eq!(recording.samples().count(), 1);
    assert!(!recording.notes.is_whole(), "more was to be recorded");
}

/// Returns the first sample of the example's records.
fn first_sample(has_all_parts: bool) -> Record {
    let records = super::example::records(has_all_parts);
    let sample = records
        .into_iter()
        .find(|record| matches!(record.body, Body::Sample(_)));
    sample.expect("the example has samples")
}

/// Writes `samples` samples, or as many as fit on a disk of this size, and finishes the file.
fn write_until_full(size: usize, samples: usize) -> io::Result<Finished<Disk>> {
    let file = Cursor::new(Vec::new());
    let mut writer = Writer::new(Disk { file, size }, example(false).events)?;
    let mut sample = first_sample(false);
    for _ in 0..samples {
        sample.stamp.time += 1;
        match writer.append(&sample) {
            Err(error) if is_full(&error) => break,
            result => result?,
        }
    }
    finish(writer, false)
}

#[test]
fn a_full_disk_leaves_a_recording_of_what_fits() {
    // The disk fills up while records are written, or when only the end is to be written.
    for (size, samples) in [(300_000, 10_000), (300_000, 5_348), (560_500, 10_000)] {
        let result = write_until_full(size, samples).expect("there is room for some");
        let bytes = result.output.file.into_inner();
        assert!(result.size <= size as u64);
        let recording = read(bytes).expect("it is whole");
        assert_eq!(recording.samples().count() as u64, result.samples);
        let reason = recording.notes.cut.as_deref();
        assert_eq!(reason, Some("No space left on device"));
        // The dropped records take little more room than the end of the file and its slack.
        let room = size as u64 - result.size;
        assert!(room <= 4 * CUT_DISTANCE, "{room} bytes are left");
    }
    let whole_file = write_until_full(1_000_000, 10_000).expect("there is room");
    assert_eq!(whole_file.samples, 10_000);
    let recording = read(whole_file.output.file.into_inner()).expect("it is whole");
    assert!(recording.notes.is_whole());
    assert!(write_until_full(600, 10).is_err_and(|error| is_full(&error)));
}

#[test]
fn a_disk_without_room_for_the_end_leaves_an_unfinished_recording() {
    let Recording {
        events,
        host,
        build_ids,
        mut notes,
        ..
    } = example(false);
    notes.symbols = vec![SymbolTable::default(); 1000];
    let sample = first_sample(false);
    let mut disk = Disk {
        file: Cursor::new(Vec::new()),
        size: 10_000,
    };
    let mut writer = Writer::new(&mut disk, events).expect("there is room");
    for _ in 0..7 {
        for _ in 0..10 {
            writer.append(&sample).expect("there is room");
        }
        writer.save().expect("there is room");
    }
    let error = writer
        .finish(&host, &build_ids, &mut notes)
        .err()
        .expect("the end does not fit");
    assert!(is_full(&error));
    let message = error.to_string();
    assert!(
        message.contains("but it has 70 samples (4 KiB), which `pmctl report` reads: it looks"),
        "{message}"
    );
    let recording = read(disk.file.into_inner()).expect("it is readable");
    assert!(recording.is_unfinished);
    assert_eq!(recording.samples().count(), 70);
}

#[test]
fn records_written_late_are_sorted() {
    let recording = example(true);
    let mut records = super::example::records(true);
    records.reverse();
    assert_eq!(read(write_records(&records)), Ok(recording));
}

#[test]
fn a_file_is_read_in_blocks_like_memory() {
    let sample = first_sample(true);
    let mut records: Vec<_> = (0..20_000).map(|_| sample.clone()).collect();
    for (time, record) in (0..).zip(&mut records) {
        record.stamp.time = time;
    }
    for late in [false, true] {
        if late {
            records.swap(3, 15_000);
        }
        let bytes = write_records(&records);
        assert!(bytes.len() > 1 << 20, "it is more than a block");
        let mut file = tempfile::NamedTempFile::new().expect("a file can be made");
        file.write_all(&bytes).expect("there is room");
        let source = RecordingBytes::open(file.path()).expect("it is there");
        assert!(matches!(source, RecordingBytes::File(..)));
        let recording = read(source).expect("it is whole");
        assert_eq!(recording.samples().count(), records.len());
        assert_eq!(read(bytes), Ok(recording));
    }
}

#[test]
fn a_file_that_is_cut_off_is_refused() {
    let whole_file = encode(&example(true));
    for length in 0..whole_file.len() {
        let error = read(&whole_file[..length]).expect_err("it is not whole");
        let expected = if length < size_of_val(&MAGIC) {
            matches!(error, ReadError::Empty | ReadError::NotPerfData)
        } else if length < HEADER_SIZE {
            matches!(error, ReadError::Broken(_))
        } else {
            matches!(error, ReadError::CutOff { end, size, .. } if size == length as u64 && size < end)
        };
        assert!(expected, "{length}: {error:?}");
    }
}

fn task() -> impl Strategy<Value = Task> {
    any::<(u32, u32)>().prop_map(|(pid, tid)| Task { pid, tid })
}

fn map() -> impl Strategy<Value = Map> {
    let numbers = any::<(bool, bool, [u64; 3], [u32; 2])>();
    let inode = any::<((u32, u32), u64)>();
    let identity = prop_oneof![
        inode.prop_map(|(device, inode)| (device, inode, Vec::new())),
        prop::collection::vec(any::<u8>(), 1..=20).prop_map(|id| ((0, 0), 0, id)),
    ];
    let name = "[^\0]{0,40}";
    (task(), numbers, identity, name).prop_map(
        |(task, (is_kernel, is_data, long, short), (device, inode, build_id), file)| Map {
            task,
            is_kernel,
            is_data,
            start: long[0],
            length: long[1],
            offset: long[2],
            device,
            inode,
            build_id,
            protection: short[0],
            flags: short[1],
            file: file.into(),
        },
    )
}

/// Generates samples of two events, with call chains and branches.
fn sample() -> impl Strategy<Value = Sample> {
    let branch =
        any::<(u64, u64, Option<bool>, u16)>().prop_map(|(from, to, mispredicted, cycles)| {
            Branch {
                from,
                to,
                mispredicted,
                cycles,
            }
        });
    (
        0..2_usize,
        any::<[u64; 6]>(),
        prop::collection::vec(any::<u64>(), 0..130),
        prop::collection::vec(branch, 0..33),
        prop::option::of(user_stack()),
        prop::sample::select(vec![
            None,
            Some(GuestMode::Hypervisor),
            Some(GuestMode::Kernel),
            Some(GuestMode::User),
        ]),
    )
        .prop_map(
            |(
                event,
                [ip, period, cgroup, address, weight, source],
                chain,
                branches,
                user_stack,
                guest_mode,
            )| Sample {
                event,
                ip,
                period,
                chain,
                branches,
                user_stack: user_stack.map(Box::new),
                access: MemoryAccess {
                    address,
                    weight: Weight::from_struct_word(weight),
                    source: DataSource(source),
                },
                cgroup,
                guest_mode,
            },
        )
}

fn user_stack() -> impl Strategy<Value = UserStack> {
    let stack = prop::collection::vec(any::<u8>(), 0..90);
    let registers = any::<[u64; UserStack::REGISTERS]>();
    (any::<bool>(), registers, stack, 0..8_u64).prop_map(|(is_64_bit, registers, stack, more)| {
        UserStack {
            is_64_bit,
            registers,
            // A record is a multiple of 8 bytes.
            requested_bytes: (stack.len() as u64 + more * 8).next_multiple_of(8),
            stack,
        }
    })
}

fn body() -> impl Strategy<Value = Body> {
    let name = || "[^\0]{0,40}";
    prop_oneof![
        map().prop_map(Body::Map),
        (task(), name(), any::<bool>()).prop_map(|(task, name, exec)| Body::Comm {
            task,
            name,
            exec
        }),
        (task(), task()).prop_map(|(child, parent)| Body::Fork { child, parent }),
        (task(), task()).prop_map(|(task, parent)| Body::Exit { task, parent }),
        (any::<bool>(), task()).prop_map(|(out, other)| Body::Switch { out, other }),
        (any::<(u64, u32, u16, u16)>(), name()).prop_map(
            |((address, length, kind, flags), name)| {
                Body::Code {
                    address,
                    length,
                    kind,
                    flags,
                    name,
                }
            }
        ),
        (any::<u64>(), name()).prop_map(|(id, path)| Body::Cgroup { id, path }),
        any::<u64>().prop_map(Body::Lost),
        sample().prop_map(Body::Sample),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    (any::<u64>(), any::<u32>(), task(), body()).prop_map(|(time, cpu, task, body)| Record {
        stamp: Stamp { time, task, cpu },
        body,
    })
}

proptest! {
    #[test]
    fn any_records_are_read_as_they_were_written(mut records in prop::collection::vec(record(), 0..30)) {
        let read_recording = read(write_records(&records)).expect("it is whole");
        records.sort_by_key(|record| record.stamp.time);
        let decoded_records: Vec<_> = read_recording.records.iter().collect::<Result<_, _>>().expect("it is whole");
        prop_assert_eq!(decoded_records, records);
    }

    #[test]
    fn any_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes[..]);
        let _ = decode_record(&bytes, SampleParts::of(u64::MAX));
    }

    #[test]
    fn damage_does_not_panic(places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8)) {
        let mut bytes = encode(&example(true));
        for (place, value) in places {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let _ = read(&bytes[..]);
    }
}
