// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes pprof's format, a gzip-compressed Protocol Buffers message. The numbers of its fields are documented in pprof's
//! profile.proto.

use std::collections::BTreeMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message;

use super::profile::{Interner, Profile, ProfileThread};

use crate::recording::file_text::path_of_text;
use crate::recording::symbols::hexadecimal;

/// The message `Profile`. Each text is stored as an index in `string_table`.
#[derive(Clone, PartialEq, Message)]
struct Pprof {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
    #[prost(int64, tag = "3")]
    number: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
#[expect(clippy::struct_excessive_bools, reason = "the format has them")]
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
    #[prost(bool, tag = "8")]
    has_filenames: bool,
    #[prost(bool, tag = "9")]
    has_line_numbers: bool,
    #[prost(bool, tag = "10")]
    has_inline_frames: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// The texts of a profile, numbered by their indices in `string_table`; the empty text has number 0.
struct StringTable(Interner<String>);

impl StringTable {
    fn new() -> Self {
        let mut table = Interner::default();
        table.intern(String::new());
        Self(table)
    }

    fn intern(&mut self, text: &str) -> i64 {
        to_signed(self.0.intern(text.to_owned()) as u64)
    }
}

/// Converts a number to the format's signed type. Numbers that are too large for it don't occur.
fn to_signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the identifier of the entry with this index. Identifiers begin at 1, since 0 stands for no entry.
const fn id_of_index(index: usize) -> u64 {
    index as u64 + 1
}

/// Writes the samples of these events. The values of a sample are the count of each event, and then the number of samples.
pub(super) fn write(profile: &Profile<'_>, events: &[usize], output: impl Write) -> io::Result<()> {
    let mut texts = StringTable::new();
    let mut sample_type: Vec<ValueType> = Vec::new();
    for event in events {
        sample_type.push(ValueType {
            kind: texts.intern(profile.event_name(*event)),
            unit: texts.intern(profile.unit(*event).0),
        });
    }
    sample_type.push(ValueType {
        kind: texts.intern("samples"),
        unit: texts.intern("count"),
    });
    let (location, sample) = samples(profile, events, &mut texts);
    let command = format!("recorded by pmctl: {}", profile.recording.notes.scope);
    let message = Pprof {
        period_type: Some(sample_type[0]),
        default_sample_type: sample_type[0].kind,
        sample_type,
        sample,
        mapping: mappings(profile, &mut texts),
        location,
        function: functions(profile, &mut texts),
        duration_nanos: to_signed(
            profile
                .timed_samples
                .last()
                .map_or(0, |timed_sample| timed_sample.time),
        ),
        period: to_signed(profile.unit(events[0]).1(period(profile, events[0]))),
        comment: vec![texts.intern(&command)],
        string_table: texts.0.values,
    };
    let mut output = GzEncoder::new(output, Compression::default());
    output.write_all(&message.encode_to_vec())?;
    output.finish()?.flush()
}

/// Returns the period of an event. If it was sampled with a frequency, this is the mean period of its samples, since Parca
/// shows the number of samples times the period.
fn period(profile: &Profile<'_>, event: usize) -> u64 {
    let attr = &profile.recording.events[event].attr;
    attr.fixed_period().unwrap_or_else(|| {
        let (mut sum, mut samples) = (0_u64, 0_u64);
        for timed_sample in profile.samples_of_event(event) {
            sum = sum.saturating_add(timed_sample.period);
            samples += 1;
        }
        sum.checked_div(samples).map_or(0, |mean| mean.max(1))
    })
}

/// Returns the locations, each with the functions that are inlined there, and a sample for each stack of each task.
fn samples(
    profile: &Profile<'_>,
    events: &[usize],
    texts: &mut StringTable,
) -> (Vec<Location>, Vec<Sample>) {
    let mut locations: Interner<Vec<usize>> = Interner::default();
    let mut values: BTreeMap<(usize, ProfileThread), Vec<u64>> = BTreeMap::new();
    for timed_sample in &profile.timed_samples {
        let Some(index) = events.iter().position(|event| *event == timed_sample.event) else {
            continue;
        };
        let sums = values.entry((timed_sample.stack, timed_sample.thread));
        let sums = sums.or_insert_with(|| vec![0; events.len() + 1]);
        sums[index] = sums[index].saturating_add(timed_sample.period);
        // Only samples of the first event count as samples: the counts of the other events are read at the same time.
        if index == 0 {
            let recording = profile.recording;
            let samples = recording.samples_in_period(timed_sample.event, timed_sample.period);
            sums[events.len()] = sums[events.len()].saturating_add(samples);
        }
    }
    let mut samples = Vec::new();
    for ((stack, thread), mut sums) in values {
        for (sum, event) in sums.iter_mut().zip(events) {
            *sum = profile.unit(*event).1(*sum);
        }
        let mut ids = Vec::new();
        let mut location_places = Vec::new();
        for place in profile.places_of_stack(stack) {
            location_places.push(place);
            if profile.places.values[place].depth == 0 {
                ids.push(id_of_index(
                    locations.intern(std::mem::take(&mut location_places)),
                ));
            }
        }
        samples.push(Sample {
            location_id: ids,
            value: sums.into_iter().map(to_signed).collect(),
            label: task_labels(profile, thread, texts),
        });
    }
    let locations = locations.values.iter().enumerate();
    let locations = locations.map(|(index, places)| location(profile, index, places));
    (locations.collect(), samples)
}

/// Returns the labels of a sample: the name and the numbers of its task.
fn task_labels(
    profile: &Profile<'_>,
    thread: ProfileThread,
    texts: &mut StringTable,
) -> Vec<Label> {
    let name = texts.intern(&profile.threads[&thread]);
    vec![
        Label {
            key: texts.intern("comm"),
            text: name,
            number: 0,
        },
        Label {
            key: texts.intern("pid"),
            text: 0,
            number: i64::from(thread.task.pid),
        },
        Label {
            key: texts.intern("tid"),
            text: 0,
            number: i64::from(thread.task.tid),
        },
    ]
}

/// Returns the location with this index. `places` has a place for each function that is inlined there, the innermost
/// first, and then the place of the function that contains them.
fn location(profile: &Profile<'_>, index: usize, places: &[usize]) -> Location {
    let outer_place = &profile.places.values[places[places.len() - 1]];
    let line = places.iter().map(|place| {
        let place = &profile.places.values[*place];
        Line {
            function_id: id_of_index(place.function),
            line: i64::from(place.line),
        }
    });
    Location {
        id: id_of_index(index),
        mapping_id: id_of_index(profile.functions.values[outer_place.function].object),
        address: outer_place.address,
        line: line.collect(),
    }
}

fn mappings(profile: &Profile<'_>, texts: &mut StringTable) -> Vec<Mapping> {
    let objects = profile.objects.values.iter().enumerate();
    objects
        .map(|(index, object)| {
            let build_id = profile.recording.build_id(&path_of_text(object));
            Mapping {
                id: id_of_index(index),
                memory_start: 0,
                memory_limit: u64::MAX,
                filename: texts.intern(object),
                build_id: texts.intern(&build_id.map(hexadecimal).unwrap_or_default()),
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
                has_inline_frames: true,
            }
        })
        .collect()
}

fn functions(profile: &Profile<'_>, texts: &mut StringTable) -> Vec<Function> {
    let functions = profile.functions.values.iter().enumerate();
    functions
        .map(|(index, function)| {
            let name = texts.intern(&function.name);
            Function {
                id: id_of_index(index),
                name,
                system_name: name,
                filename: texts.intern(function.source.as_deref().unwrap_or_default()),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::recording::perfdata::example::{example, value_attr};
    use crate::recording::perfdata::{Attr, Body, Record, Recording, Records, SampleParts};
    use perfmon::Modes;

    /// Writes the first event of a recording and reads it again.
    fn write_and_read(recording: &Recording) -> Pprof {
        let profile = Profile::new(recording, None).expect("it is whole");
        let mut bytes = Vec::new();
        write(&profile, &[0], &mut bytes).expect("a vector takes everything");
        let mut message = Vec::new();
        let result = GzDecoder::new(&bytes[..]).read_to_end(&mut message);
        result.expect("it is whole");
        Pprof::decode(&message[..]).expect("it is a message")
    }

    #[test]
    fn energy_has_a_unit() {
        let mut energy = with_periods(&[1 << 32, 1 << 31]);
        energy.events[0].attr = value_attr("energy-pkg");
        let profile = write_and_read(&energy);
        let unit = usize::try_from(profile.sample_type[0].unit).expect("it has a text");
        assert_eq!(profile.string_table[unit], "nanojoules");
        let sum: i64 = profile.sample.iter().map(|sample| sample.value[0]).sum();
        assert_eq!(sum, 1_500_000_000);
    }

    /// Returns the example recording, sampled with a frequency. Its samples have these periods.
    fn with_periods(periods: &[u64]) -> Recording {
        let mut recording = example(false);
        recording.events[0].attr = recording.events[0].attr.with_frequency();
        let records: Vec<Record> = recording.records.iter().flatten().collect();
        let is_of_first_event =
            |record: &Record| matches!(&record.body, Body::Sample(sample) if sample.event == 0);
        let sample = records.iter().find(|record| is_of_first_event(record));
        let sample = sample.expect("it has one").clone();
        let mut records: Vec<Record> = records
            .into_iter()
            .filter(|one| !is_of_first_event(one))
            .collect();
        for period in periods {
            let mut record = sample.clone();
            if let Body::Sample(sample) = &mut record.body {
                sample.period = *period;
            }
            records.push(record);
        }
        recording.records = Records::from(&records[..]);
        recording
    }

    #[test]
    fn merged_samples_count_as_many_samples() {
        let samples = |recording: &Recording| -> i64 {
            let profile = write_and_read(recording);
            profile.sample.iter().map(|sample| sample.value[1]).sum()
        };
        let mut recording = with_periods(&[7, 3]);
        assert_eq!(samples(&recording), 2);
        let kind = recording.events[0].attr.kind;
        let attr = Attr::sampled(kind, 1, Modes::User, SampleParts::default());
        recording.events[0].attr = attr.with_precision(2);
        assert_eq!(samples(&recording), 10);
    }

    #[test]
    fn the_period_is_fixed_or_the_mean() {
        assert_eq!(write_and_read(&example(false)).period, 1000);
        for (periods, mean) in [
            (&[1000, 3000, 3000][..], 2333),
            (&[0, 1], 1),
            (&[u64::MAX, 1], i64::MAX),
            (&[], 0),
        ] {
            let profile = write_and_read(&with_periods(periods));
            assert_eq!(profile.period, mean, "{periods:?}");
        }
    }
}
