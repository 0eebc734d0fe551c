// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares the encodings of events with libpfm4's encodings, for all names that both have.
//!
//! The environment variable `LIBPFM4` names a folder with the output of `libpfm4/dump.c` in the file `events`;
//! `scripts/lint libpfm4` makes it. All differences are listed in `libpfm4/differences`, with the reason of each.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use perfmon_events::Event;

/// libpfm4's names of models, and ours.
const MODELS: [(&str, &str); 40] = [
    ("nhm", "nehalemep"),
    ("nhm_ex", "nehalemex"),
    ("wsm", "westmereep-sp"),
    ("wsm_dp", "westmereep-dp"),
    ("snb", "sandybridge"),
    ("snb_ep", "jaketown"),
    ("ivb", "ivybridge"),
    ("ivb_ep", "ivytown"),
    ("hsw", "haswell"),
    ("hsw_ep", "haswellx"),
    ("bdw", "broadwell"),
    ("bdw_ep", "broadwellx"),
    ("skl", "skylake"),
    ("skx", "skylakex"),
    ("clx", "cascadelakex"),
    ("icl", "icelake"),
    ("icx", "icelakex"),
    ("spr", "sapphirerapids"),
    ("emr", "emeraldrapids"),
    ("gnr", "graniterapids"),
    ("adl_glc", "alderlake-core"),
    ("adl_grt", "alderlake-atom"),
    ("tmt", "snowridgex"),
    ("glm", "goldmont"),
    ("slm", "silvermont"),
    ("knl", "knightslanding"),
    ("atom", "bonnell"),
    ("amd64_fam10h_barcelona", "amdfam10h-barcelona"),
    ("amd64_fam10h_shanghai", "amdfam10h-shanghai"),
    ("amd64_fam10h_istanbul", "amdfam10h-istanbul"),
    ("amd64_fam11h_turion", "amdfam11h"),
    ("amd64_fam12h_llano", "amdfam12h"),
    ("amd64_fam14h_bobcat", "amdfam14h"),
    ("amd64_fam15h_interlagos", "amdfam15h"),
    ("amd64_fam16h", "amdfam16h"),
    ("amd64_fam17h_zen1", "amdzen1"),
    ("amd64_fam17h_zen2", "amdzen2"),
    ("amd64_fam19h_zen3", "amdzen3"),
    ("amd64_fam19h_zen4", "amdzen4"),
    ("amd64_fam1ah_zen5", "amdzen5"),
];

/// The number of event names that both libpfm4 and our tables have, summed up over Intel's models
/// and AMD's from Zen on. Tables of AMD models before Zen are left out, because they are made from
/// libpfm4's tables.
const SHARED_NAMES: usize = 5939;

/// Returns an event's select and the value of its extra register, in the form of libpfm4.
fn registers(event: &Event) -> Vec<u64> {
    let (number, mask) = (u64::from(event.number), u64::from(event.unit_mask));
    let flag = |is_set: bool, bit: u32| u64::from(is_set) << bit;
    let select = number & 0xff
        | number >> 8 << 32
        | (mask & 0xff) << 8
        | mask >> 8 << 40
        | flag(event.edge, 18)
        | flag(event.any_thread, 21)
        | flag(event.invert, 23)
        | u64::from(event.counter_mask) << 24;
    std::iter::once(select)
        .chain(event.extra.map(|extra| extra.value))
        .collect()
}

fn to_text(registers: &[u64]) -> String {
    let texts: Vec<String> = registers.iter().map(|value| format!("{value:x}")).collect();
    texts.join("+")
}

/// Returns the known differences by `PMU NAME`, each as `OURS THEIRS`. In the file, each line begins with the word for the
/// reason.
fn known_differences() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libpfm4/differences");
    let text = fs::read_to_string(path).expect("it is there");
    let mut reasons = Vec::new();
    let mut differences = BTreeMap::new();
    for line in text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
    {
        if let Some(reason) = line.strip_prefix("reason ") {
            reasons.push(
                reason
                    .split(':')
                    .next()
                    .expect("a line has a part")
                    .to_owned(),
            );
            continue;
        }
        let [reason, pmu, name, ours, theirs] = line.split(' ').collect::<Vec<_>>()[..] else {
            panic!("a difference has five words: {line}")
        };
        assert!(
            reasons.iter().any(|known| known == reason),
            "no such reason: {line}"
        );
        differences.insert(format!("{pmu} {name}"), format!("{ours} {theirs}"));
    }
    differences
}

#[test]
#[ignore = "scripts/lint libpfm4 runs it, with libpfm4's events"]
fn the_encodings_are_those_of_libpfm4() {
    let folder =
        PathBuf::from(env::var_os("LIBPFM4").expect("LIBPFM4 is the folder with libpfm4's events"));
    let text = fs::read_to_string(folder.join("events")).expect("it can be read");
    let mut known_differences = known_differences();
    let mut new_differences = Vec::new();
    let mut shared_count = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let (pmu, name) = (words[0], words[1]);
        let Some((_, model)) = MODELS.iter().find(|(theirs, _)| *theirs == pmu) else {
            continue;
        };
        let model = perfmon_events::model(model).expect("it is a model");
        let Some(event) = model.event(name) else {
            continue;
        };
        if !model.name().starts_with("amdfam") {
            shared_count += 1;
        }
        let libpfm4_registers: Vec<u64> = words[2..]
            .iter()
            .map(|word| u64::from_str_radix(word, 16).expect("it is a number"))
            .collect();
        let our_registers = registers(&event);
        if our_registers == libpfm4_registers {
            continue;
        }
        let difference = format!(
            "{} {}",
            to_text(&our_registers),
            to_text(&libpfm4_registers)
        );
        if known_differences.remove(&format!("{pmu} {}", event.name)) != Some(difference.clone()) {
            new_differences.push(format!("{pmu} {} {difference}", event.name));
        }
    }
    assert!(
        new_differences.is_empty(),
        "not in tests/libpfm4/differences:\n{}",
        new_differences.join("\n")
    );
    assert!(
        known_differences.is_empty(),
        "in tests/libpfm4/differences, but equal: {:?}",
        known_differences.keys()
    );
    assert_eq!(shared_count, SHARED_NAMES, "names that both have");
}
