//! Machines as text. docs/machines.md describes the lines; `Display` writes what `FromStr` reads.

use std::fmt;
use std::str::FromStr;

use meshwork_ir::ElementType;

use super::device::{Class, Curve, Device};
use super::host::{CollectiveRate, Host};
use super::level::{Level, Shape};
use super::link::{Link, Links};
use super::{Machine, known};
use crate::plan::KINDS;

/// A finite number in digits.
pub(super) fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|n| n.is_finite())
}

/// Lines of a machine file: `AXIS LATENCY_US GBPS` for the links of an axis, and settings such as `device=TFLOPS,GBPS`.
///
/// ```
/// # use meshwork_partition::plan::Machine;
/// let machine: Machine = "* 1 50\ndevice=20,1000".parse()?;
/// assert_eq!(machine.device.teraflops, 20.0);
/// let nodes: Machine = "level=node,8,switch,3,450\nlevel=cluster,*,switch,10,50".parse()?;
/// assert_eq!(nodes.links.levels[0].size, Some(8));
/// # Ok::<(), String>(())
/// ```
impl FromStr for Machine {
    type Err = String;

    fn from_str(text: &str) -> Result<Machine, String> {
        let mut machine = Machine::default();
        for (i, line) in text.lines().enumerate() {
            let content = line.split('#').next().unwrap_or("").trim();
            let read = match content.split_once('=') {
                Some((key, value)) => set(&mut machine, key.trim(), value.trim()),
                None => set_link(&mut machine.links, line, content),
            };
            read.map_err(|e| format!("line {}: {e}", i + 1))?;
        }
        if machine.links.levels.iter().rev().skip(1).any(|level| level.size.is_none()) {
            return Err("only the last level may have any size (*)".into());
        }
        if !machine.device.caches.is_sorted_by(|a, b| a.0 < b.0) {
            return Err("the sizes of caches must ascend".into());
        }
        Ok(machine)
    }
}

/// Lines of `AXIS LATENCY_US GBPS`; the axis `*` stands for all that are not named. `#` starts a comment.
///
/// ```
/// # use meshwork_partition::plan::Links;
/// let links: Links = "* 1 50  # within a machine\npod 20 5".parse()?;
/// assert_eq!(links.by_axis[0].1.gigabytes_per_second, 5.0);
/// # Ok::<(), String>(())
/// ```
impl FromStr for Links {
    type Err = String;

    fn from_str(text: &str) -> Result<Links, String> {
        let mut links = Links::default();
        for (i, line) in text.lines().enumerate() {
            let content = line.split('#').next().unwrap_or("").trim();
            set_link(&mut links, line, content).map_err(|e| format!("line {}: {e}", i + 1))?;
        }
        Ok(links)
    }
}

fn set_link(links: &mut Links, line: &str, content: &str) -> Result<(), String> {
    let words: Vec<&str> = content.split_whitespace().collect();
    match words[..] {
        [] => Ok(()),
        [axis, latency, speed] => {
            links.set((axis != "*").then_some(axis), Link::parse(latency, speed)?);
            Ok(())
        }
        _ => Err(format!("'{line}' is not AXIS LATENCY_US GBPS")),
    }
}

fn set(machine: &mut Machine, key: &str, value: &str) -> Result<(), String> {
    let device = &mut machine.device;
    match key.split_once('.').unwrap_or((key, "")) {
        ("name", "") => machine.name = value.into(),
        ("device", "") => {
            let (teraflops, speed) = value.split_once(',').unwrap_or((value, ""));
            let read = Device::parse(teraflops, speed)?;
            device.teraflops = read.teraflops;
            device.memory_gigabytes_per_second = read.memory_gigabytes_per_second;
        }
        ("peak", ty) => {
            let elem =
                ElementType::from_text(ty).ok_or_else(|| format!("'{ty}' is not an element type such as bf16"))?;
            let [peak] = numbers(value, "TFLOPS, a positive number", |n| n > 0.0)?;
            device.peaks.retain(|(known, _)| *known != elem);
            device.peaks.push((elem, peak));
        }
        ("capacity", "") => device.capacity = Some(bytes(value)?),
        ("cache", "") => {
            let (size, speed) = value.split_once(',').unwrap_or((value, ""));
            let [speed] = numbers(speed, "BYTES,GBPS, two positive numbers", |n| n > 0.0)?;
            device.caches.push((bytes(size)?, speed));
        }
        ("function", name) if !name.is_empty() => {
            let [weight] = numbers(value, "a positive number of element-wise operations", |n| n > 0.0)?;
            device.functions.retain(|(known, _)| known != name);
            device.functions.push((name.into(), weight));
        }
        ("crowding", "") => {
            [device.crowding] = numbers(value, "a share that is not negative", |n| n >= 0.0)?;
        }
        ("level", "") => machine.links.levels.push(level(value)?),
        ("host", "") => {
            let wanted =
                "THREADS,GRAIN_US,RUN_US,GBPS, four positive numbers, or * for as many threads as there are cores";
            let (threads, rest) = value.split_once(',').unwrap_or((value, ""));
            let [grain_us, run_us, speed] = numbers(rest, wanted, |n| n >= 0.0)?;
            let threads = match threads.trim() {
                "*" => std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64),
                digits => numbers::<1>(digits, wanted, |n| n >= 0.0)?[0],
            };
            let host = machine.host.get_or_insert_with(Host::default);
            (host.threads, host.grain_us, host.run_us) = (threads.max(1.0), grain_us.max(1e-3), run_us);
            host.memory_gigabytes_per_second = speed.max(1e-3);
        }
        ("collective", kind) if KINDS.contains(&kind) => {
            let wanted = "LATENCY_US,READ_GBPS,WRITE_GBPS, three positive numbers";
            let [microseconds, read, write] = positive(value, wanted)?;
            let host = machine.host.get_or_insert_with(Host::default);
            host.collectives.retain(|(known, _)| known != kind);
            host.collectives.push((kind.into(), CollectiveRate { microseconds, read, write }));
        }
        ("collective", kind) => return Err(format!("'{kind}' is not a kind of collective: {}", KINDS.join(", "))),
        (class, "") if Class::ALL.iter().any(|c| c.name() == class) => {
            let wanted = "EFFICIENCY,HALF_FLOPS,MICROSECONDS, the efficiency positive, the others not negative";
            let [efficiency, half_flops, microseconds] = numbers(value, wanted, |n| n >= 0.0)?;
            if efficiency == 0.0 {
                return Err(format!("'{value}' is not {wanted}"));
            }
            let class = Class::ALL.into_iter().find(|c| c.name() == class).unwrap_or(Class::Other);
            device.curves.retain(|(known, _)| *known != class);
            device.curves.push((class, Curve { efficiency, half_flops, microseconds }));
        }
        _ => {
            let classes: Vec<&str> = Class::ALL.iter().map(|c| c.name()).collect();
            return Err(format!(
                "'{key}' is not a setting: name, device, peak.TYPE, capacity, cache, function.NAME, crowding, level, host, collective.KIND, {}",
                classes.join(", ")
            ));
        }
    }
    Ok(())
}

/// So many numbers with commas between them, all of which `fit`.
fn numbers<const N: usize>(text: &str, wanted: &str, fit: fn(f64) -> bool) -> Result<[f64; N], String> {
    let all: Option<Vec<f64>> = text.split(',').map(|n| number(n).filter(|&n| fit(n))).collect();
    let all: Option<[f64; N]> = all.and_then(|all| all.try_into().ok());
    all.ok_or_else(|| format!("'{text}' is not {wanted}"))
}

/// Three numbers, the last two positive and the first at least zero.
fn positive(text: &str, wanted: &str) -> Result<[f64; 3], String> {
    let all = numbers(text, wanted, |n| n >= 0.0)?;
    if all[1..].iter().all(|&n| n > 0.0) { Ok(all) } else { Err(format!("'{text}' is not {wanted}")) }
}

/// Bytes in digits, with a unit or without one: `80GiB`.
fn bytes(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let units = [("KiB", 1024.0), ("MiB", 1048576.0), ("GiB", 1073741824.0), ("GB", 1e9), ("", 1.0)];
    let read =
        units.iter().find_map(|(unit, size)| text.strip_suffix(unit).map(|digits| number(digits).map(|n| n * size)));
    read.flatten().filter(|&n| n > 0.0).ok_or_else(|| format!("'{text}' is not a number of bytes such as 80GiB"))
}

fn level(text: &str) -> Result<Level, String> {
    let wrong =
        || format!("'{text}' is not NAME,SIZE,ring|switch|torus,LATENCY_US,GBPS[,shared=N][,lost=SHARE][,wrap=N]");
    let words: Vec<&str> = text.split(',').map(str::trim).collect();
    let [name, size, shape, latency, speed, options @ ..] = &words[..] else { return Err(wrong()) };
    let count = |text: &str| text.parse::<i64>().ok().filter(|&n| n > 0);
    let mut level = Level {
        name: (*name).into(),
        size: if *size == "*" { None } else { Some(count(size).ok_or_else(wrong)?) },
        shape: match *shape {
            "ring" => Shape::Ring,
            "switch" => Shape::Switch,
            "torus" => Shape::Torus { wrap: 0 },
            _ => return Err(wrong()),
        },
        link: Link::parse(latency, speed)?,
        shared: 1,
        lost: 0.0,
    };
    for option in options {
        match (option.split_once('=').ok_or_else(wrong)?, &mut level.shape) {
            (("shared", n), _) => level.shared = count(n).ok_or_else(wrong)?,
            (("lost", share), _) => {
                level.lost = number(share).filter(|s| (0.0..=1.0).contains(s)).ok_or_else(wrong)?;
            }
            (("wrap", n), Shape::Torus { wrap }) => *wrap = count(n).ok_or_else(wrong)?,
            _ => return Err(wrong()),
        }
    }
    Ok(level)
}

impl Machine {
    /// A machine by its name, one of [`NAMES`](super::NAMES), from public figures.
    ///
    /// ```
    /// # use meshwork_partition::plan::Machine;
    /// assert_eq!(Machine::named("h100").map(|m| m.device.memory_gigabytes_per_second), Some(3350.0));
    /// assert!(Machine::named("abacus").is_none());
    /// ```
    pub fn named(name: &str) -> Option<Machine> {
        // The test below reads them all.
        known::text(name).and_then(|text| text.parse().ok())
    }
}

/// The lines that [`FromStr`] reads.
impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (device, links) = (&self.device, &self.links);
        if !self.name.is_empty() {
            writeln!(f, "name={}", self.name)?;
        }
        writeln!(f, "device={},{}", device.teraflops, device.memory_gigabytes_per_second)?;
        for (elem, peak) in &device.peaks {
            writeln!(f, "peak.{}={peak}", elem.text())?;
        }
        if let Some(capacity) = device.capacity {
            writeln!(f, "capacity={capacity}")?;
        }
        for (size, speed) in &device.caches {
            writeln!(f, "cache={size},{speed}")?;
        }
        for (class, curve) in &device.curves {
            writeln!(f, "{}={},{},{}", class.name(), curve.efficiency, curve.half_flops, curve.microseconds)?;
        }
        for (name, weight) in &device.functions {
            writeln!(f, "function.{name}={weight}")?;
        }
        if device.crowding > 0.0 {
            writeln!(f, "crowding={}", device.crowding)?;
        }
        if let Some(host) = &self.host {
            let Host { threads, grain_us, run_us, memory_gigabytes_per_second, .. } = host;
            writeln!(f, "host={threads},{grain_us},{run_us},{memory_gigabytes_per_second}")?;
            for (kind, rate) in &host.collectives {
                writeln!(f, "collective.{kind}={},{},{}", rate.microseconds, rate.read, rate.write)?;
            }
        }
        let link = |f: &mut fmt::Formatter<'_>, axis: &str, link: &Link| {
            writeln!(f, "{axis} {} {}", link.latency_us, link.gigabytes_per_second)
        };
        link(f, "*", &links.default)?;
        for level in &links.levels {
            write_level(f, level)?;
        }
        links.by_axis.iter().try_for_each(|(axis, own)| link(f, axis, own))
    }
}

fn write_level(f: &mut fmt::Formatter<'_>, level: &Level) -> fmt::Result {
    let size = level.size.map_or("*".into(), |n| n.to_string());
    let (shape, wrap) = match level.shape {
        Shape::Ring => ("ring", 0),
        Shape::Switch => ("switch", 0),
        Shape::Torus { wrap } => ("torus", wrap),
    };
    let Link { latency_us, gigabytes_per_second } = level.link;
    write!(f, "level={},{size},{shape},{latency_us},{gigabytes_per_second}", level.name)?;
    if level.shared != 1 {
        write!(f, ",shared={}", level.shared)?;
    }
    if level.lost != 0.0 {
        write!(f, ",lost={}", level.lost)?;
    }
    if wrap != 0 {
        write!(f, ",wrap={wrap}")?;
    }
    writeln!(f)
}

#[cfg(test)]
mod tests {
    use meshwork_mesh::{AxisRef, Mesh};

    use super::*;

    #[test]
    fn links_from_text() {
        let slow = Link { latency_us: 20.0, gigabytes_per_second: 5.0 };
        let mesh = Mesh::new([("pod", 2), ("x", 2)]).unwrap();
        let links: Links = "# measured\n* 2 25\n\npod 20 5\n".parse().unwrap();
        assert_eq!(links.default, Link { latency_us: 2.0, gigabytes_per_second: 25.0 });
        assert_eq!(links.of(&AxisRef::full("pod"), &mesh), slow);
        assert_eq!(links.of(&AxisRef::full("x"), &mesh), links.default);
        let wrong = |text: &str| text.parse::<Links>().unwrap_err();
        assert_eq!(wrong("x 1"), "line 1: 'x 1' is not AXIS LATENCY_US GBPS");
        assert_eq!(wrong("\nx 1 0"), "line 2: '1,0' is not LATENCY_US,GBPS, two positive numbers");
        assert_eq!(wrong("x nan 1"), "line 1: 'nan,1' is not LATENCY_US,GBPS, two positive numbers");
    }

    #[test]
    fn a_machine_from_text() {
        let machine: Machine = "* 2 25\ndevice=20, 1000 # dense\npod 20 5".parse().unwrap();
        assert_eq!(machine.device, Device::new(20.0, 1000.0));
        assert_eq!(machine.links, "* 2 25\npod 20 5".parse().unwrap());
        let wrong = |text: &str| text.parse::<Machine>().unwrap_err();
        assert_eq!(wrong("\ndevice=1"), "line 2: '1,' is not TFLOPS,GBPS, two positive numbers");
        assert_eq!(wrong("device=1,1\nx 1"), "line 2: 'x 1' is not AXIS LATENCY_US GBPS");
        assert_eq!(wrong("peak.f3=1"), "line 1: 'f3' is not an element type such as bf16");
        assert_eq!(wrong("\n\ncapacity=much"), "line 3: 'much' is not a number of bytes such as 80GiB");
        assert!(wrong("speed=3").starts_with("line 1: 'speed' is not a setting: name, device, "));
        assert!(wrong("level=node,8").starts_with("line 1: 'node,8' is not NAME,SIZE,ring|switch|torus"));
        assert!(wrong("level=node,8,switch,1,50,wrap=4").starts_with("line 1: 'node,8,switch,1,50,wrap=4' is not"));
        assert!(wrong("product=0,1,1").contains("is not EFFICIENCY,HALF_FLOPS,MICROSECONDS"));
        assert_eq!(wrong("level=a,*,switch,1,50\nlevel=b,2,ring,1,5"), "only the last level may have any size (*)");
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut texts: Vec<String> = known::NAMES.iter().filter_map(|n| known::text(n)).map(String::from).collect();
        assert_eq!(texts.len(), known::NAMES.len());
        texts.push(
            "host=2,50,3,9\nfunction.tanh=12\ncollective.all-reduce=1,2,3\ncache=1KiB,9\ncache=1MiB,4\nx 1 2\n* 7 8"
                .into(),
        );
        texts.push("level=a,4,ring,1,2,shared=2,lost=0.15\nlevel=b,*,torus,1,2,wrap=16".into());
        for text in texts {
            let machine: Machine = text.parse().unwrap_or_else(|e| panic!("{e} in\n{text}"));
            assert_eq!(machine.to_string().parse::<Machine>(), Ok(machine), "{text}");
        }
    }
}
