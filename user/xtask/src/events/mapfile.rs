// SPDX-License-Identifier: MIT OR Apache-2.0
//! perf's mapfile.csv, which assigns CPUs to lists of events.

use anyhow::{Context, Result, bail};

use super::regex::matches;

/// The events of some CPUs.
pub(super) struct Model {
    /// The name of the folder with the events.
    pub(super) name: String,
    /// The version of the vendor's list.
    pub(super) version: String,
    /// The CPUs that have the events.
    pub(super) cpus: Vec<Cpu>,
}

/// CPUs of one family with consecutive model numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cpu {
    pub(super) vendor: &'static str,
    pub(super) family: u32,
    /// The first and the last model.
    pub(super) models: (u32, u32),
    /// Bit n for stepping n.
    pub(super) steppings: u16,
}

const VENDORS: [&str; 2] = ["GenuineIntel", "AuthenticAMD"];

/// Hygon's CPUs of family 18h, which perf's table lacks. Their cores are first-generation Zen
/// cores.
const HYGON: (&str, Cpu) = (
    "amdzen1",
    Cpu {
        vendor: "HygonGenuine",
        family: 0x18,
        models: (0, 0xff),
        steppings: u16::MAX,
    },
);

/// Returns the models in the order of the file. A CPU belongs to the first line that it matches.
pub(super) fn models(map: &str) -> Result<Vec<Model>> {
    let mut models: Vec<Model> = Vec::new();
    let mut earlier_patterns: Vec<(&str, u32, &str)> = Vec::new();
    for line in map.lines().skip(1).filter(|line| !line.is_empty()) {
        let [pattern, version, name, "core"] = line.split(',').collect::<Vec<_>>()[..] else {
            bail!("mapfile.csv: a line has an unknown form: {line}")
        };
        let vendor = VENDORS
            .into_iter()
            .find(|vendor| pattern.starts_with(vendor));
        let vendor =
            vendor.with_context(|| format!("mapfile.csv: the vendor is unknown: {line}"))?;
        let pattern = &pattern[vendor.len() + 1..];
        let (family, _) = pattern
            .split_once('-')
            .context("mapfile.csv: a family is missing")?;
        let family: u32 = family
            .parse()
            .with_context(|| format!("mapfile.csv: {line}"))?;
        let mut cpus: Vec<Cpu> = Vec::new();
        for model in 0..=0xff {
            let mut steppings = matching_steppings(pattern, family, model)?;
            for (_, _, earlier) in earlier_patterns
                .iter()
                .filter(|(v, f, _)| (*v, *f) == (vendor, family))
            {
                steppings &= !matching_steppings(earlier, family, model)?;
            }
            match cpus.last_mut() {
                _ if steppings == 0 => {}
                Some(last) if last.models.1 + 1 == model && last.steppings == steppings => {
                    last.models.1 = model;
                }
                _ => cpus.push(Cpu {
                    vendor,
                    family,
                    models: (model, model),
                    steppings,
                }),
            }
        }
        earlier_patterns.push((vendor, family, pattern));
        if name == HYGON.0 {
            cpus.push(HYGON.1);
        }
        models.push(Model {
            name: name.to_owned(),
            version: version.to_owned(),
            cpus,
        });
    }
    Ok(models)
}

/// Returns the steppings of a CPU model that a pattern matches. A pattern without a stepping matches all.
fn matching_steppings(pattern: &str, family: u32, model: u32) -> Result<u16> {
    let cpu = format!("{family}-{model:X}");
    if matches(pattern, &cpu)? {
        return Ok(u16::MAX);
    }
    let mut steppings = 0;
    for stepping in 0..16 {
        if matches(pattern, &format!("{cpu}-{stepping:X}"))? {
            steppings |= 1 << stepping;
        }
    }
    Ok(steppings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(family: u32, models: (u32, u32), steppings: u16) -> Cpu {
        let vendor = if family == 6 { VENDORS[0] } else { VENDORS[1] };
        Cpu {
            vendor,
            family,
            models,
            steppings,
        }
    }

    #[test]
    fn models_and_steppings_are_those_that_match() {
        let map = "Family-model,Version,Filename,EventType\n\
                   GenuineIntel-6-55-[01234],v1,skylakex,core\n\
                   GenuineIntel-6-(4E|5E|5F),v2,skylake,core\n\
                   AuthenticAMD-23-([12][0-9A-F]|[0-9A-F]),v2,amdzen1,core\n\
                   AuthenticAMD-23-[[:xdigit:]]+,v1,amdzen2,core\n";
        let models = models(map).expect("it is understood");
        assert_eq!(models[0].cpus, [cpu(6, (0x55, 0x55), 0x1f)]);
        assert_eq!(
            models[1].cpus,
            [cpu(6, (0x4e, 0x4e), 0xffff), cpu(6, (0x5e, 0x5f), 0xffff)]
        );
        assert_eq!(models[2].cpus, [cpu(23, (0, 0x2f), 0xffff), HYGON.1]);
        assert_eq!(
            models[3].cpus,
            [cpu(23, (0x30, 0xff), 0xffff)],
            "the first that matches counts"
        );
    }
}
