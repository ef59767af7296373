//! Solves instances of the ASPLOS/EuroSys 2025 contest on intra-operator parallelism (https://github.com/asplos-contest/2025)
//! and prints cost, bound, gap, wall-clock and CPU seconds.
//!
//! `contest SECONDS INSTANCE.json… [--best FILE.csv] [--walks N]`: the file has the costs of several solvers, one in a row, under a header
//! with the letters of the instances (the contest's results have this form); the least in a column is the best known. SECONDS
//! counts from before reading; 0 takes the contest's time for the instance's letter.

use std::collections::HashMap;
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use meshwork_planner::network::{Effort, Network, solve};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(seconds) = arguments.next().and_then(|text| text.parse::<u64>().ok()) else {
        eprintln!("contest SECONDS INSTANCE.json… [--best FILE.csv] [--walks N]");
        return ExitCode::FAILURE;
    };
    let (mut paths, mut best, mut walks) = (Vec::new(), HashMap::new(), 1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--best" => match arguments.next().map(|path| best_known(&path)) {
                Some(Ok(found)) => best = found,
                _ => return fail("--best: no readable table of costs"),
            },
            "--walks" => walks = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(1),
            _ => paths.push(argument),
        }
    }
    println!(
        "| instance | nodes | edges | left | cost | bound | gap | best known | above it | seconds | CPU s | rounds |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for path in &paths {
        if let Err(message) = instance(path, seconds, &best, walks) {
            return fail(&format!("{path}: {message}"));
        }
    }
    ExitCode::SUCCESS
}

fn fail(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::FAILURE
}

/// The contest's time for an instance: five letters a minute more.
fn allowed(letter: &str) -> u64 {
    letter.bytes().next().map_or(60, |byte| 60 * (1 + u64::from(byte.to_ascii_uppercase().saturating_sub(b'A')) / 5))
}

fn instance(path: &str, seconds: u64, best: &HashMap<String, f64>, walks: usize) -> Result<(), String> {
    let start = Instant::now();
    let before = cpu_seconds();
    let (name, network) = read(path)?;
    let letter = name.rsplit('-').next().unwrap_or_default();
    let end = start + Duration::from_secs(if seconds == 0 { allowed(letter) } else { seconds });
    let effort = Effort { rounds: usize::MAX, walks, ..Effort::default() };
    let found = solve(&network, &effort, &|| Instant::now() >= end).map_err(|error| error.to_string())?;
    let known = best.get(letter);
    let cost =
        if found.feasible() { format!("{}", found.cost) } else { format!("{} over by {}", found.cost, found.excess) };
    println!(
        "| {letter} | {} | {} | {} | {cost} | {:.0} | {:.2}% | {} | {} | {:.0} | {:.0} | {} |",
        network.len(),
        network.edges(),
        found.core,
        found.bound,
        100.0 * (found.cost - found.bound) / found.cost,
        known.map_or(String::new(), f64::to_string),
        known.map_or(String::new(), |known| format!("{:+.3}%", 100.0 * (found.cost / known - 1.0))),
        start.elapsed().as_secs_f64(),
        cpu_seconds() - before,
        found.rounds,
    );
    Ok(())
}

/// User and system time of this process so far, where /proc has it.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// The least cost in each column of a table.
fn best_known(path: &str) -> Result<HashMap<String, f64>, std::io::Error> {
    let text = fs::read_to_string(path)?;
    let mut lines = text.lines().map(|line| line.split(',').map(str::trim).collect::<Vec<_>>());
    let header = lines.next().unwrap_or_default();
    let mut best = HashMap::new();
    for line in lines {
        for (letter, cost) in header.iter().zip(line) {
            if let Ok(cost) = cost.parse::<f64>() {
                let least = best.entry((*letter).to_owned()).or_insert(cost);
                *least = cost.min(*least);
            }
        }
    }
    Ok(best)
}

/// The cost from which on the contest means that a choice is forbidden.
const FORBIDDEN: f64 = 1e17;

fn read(path: &str) -> Result<(String, Network), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let value = Json { text: text.as_bytes(), at: 0 }.value()?;
    let problem = value.get("problem")?;
    let limit = problem.get("usage_limit").ok().map(Value::number).transpose()?;
    let mut network = Network::new(limit.map(|limit| limit as u64));
    let nodes = problem.get("nodes")?;
    let (intervals, costs, usages) =
        (nodes.get("intervals")?.list()?, nodes.get("costs")?.list()?, nodes.get("usages")?.list()?);
    for ((interval, costs), usages) in intervals.iter().zip(costs).zip(usages) {
        let node = network.node(prices(costs.numbers()?)).map_err(|error| error.to_string())?;
        let interval = interval.numbers()?;
        let [start, end] = interval[..] else { return Err("an interval without two ends".to_owned()) };
        let usage = usages.numbers()?.iter().map(|usage| *usage as u64).collect();
        network.usage(node, start as usize..end as usize, usage).map_err(|error| error.to_string())?;
    }
    let edges = problem.get("edges")?;
    let mut shared: HashMap<&[i64], Arc<[f64]>> = HashMap::new();
    for (ends, costs) in edges.get("nodes")?.list()?.iter().zip(edges.get("costs")?.list()?) {
        let [a, b] = ends.numbers()?[..] else { return Err("an edge without two ends".to_owned()) };
        let costs = costs.numbers()?;
        let table = shared.entry(costs).or_insert_with(|| prices(costs).into()).clone();
        network.edge(a as usize, b as usize, table).map_err(|error| error.to_string())?;
    }
    Ok((problem.get("name")?.text()?.to_owned(), network))
}

fn prices(costs: &[i64]) -> Vec<f64> {
    costs.iter().map(|cost| *cost as f64).map(|cost| if cost >= FORBIDDEN { f64::INFINITY } else { cost }).collect()
}

/// As much of JSON as the instances have: objects, lists, plain texts and integers.
enum Value {
    Object(Vec<(String, Value)>),
    List(Vec<Value>),
    Numbers(Vec<i64>),
    Text(String),
    Number(i64),
}

impl Value {
    fn get(&self, key: &str) -> Result<&Value, String> {
        match self {
            Value::Object(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
        .ok_or_else(|| format!("no {key:?}"))
    }

    fn list(&self) -> Result<&[Value], String> {
        match self {
            Value::List(values) => Ok(values),
            Value::Numbers(numbers) if numbers.is_empty() => Ok(&[]),
            _ => Err("a list of lists was expected".to_owned()),
        }
    }

    fn numbers(&self) -> Result<&[i64], String> {
        if let Value::Numbers(numbers) = self { Ok(numbers) } else { Err("a list of integers was expected".to_owned()) }
    }

    fn number(&self) -> Result<i64, String> {
        if let Value::Number(number) = self { Ok(*number) } else { Err("an integer was expected".to_owned()) }
    }

    fn text(&self) -> Result<&str, String> {
        if let Value::Text(text) = self { Ok(text) } else { Err("a text was expected".to_owned()) }
    }
}

struct Json<'a> {
    text: &'a [u8],
    at: usize,
}

impl Json<'_> {
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.take(byte) { Ok(()) } else { Err(format!("{:?} was expected at byte {}", byte as char, self.at)) }
    }

    fn value(&mut self) -> Result<Value, String> {
        match self.peek() {
            Some(b'{') => self.object(),
            Some(b'[') => self.list(),
            Some(b'"') => Ok(Value::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => Ok(Value::Number(self.integer()?)),
            _ => Err(format!("a value was expected at byte {}", self.at)),
        }
    }

    fn object(&mut self) -> Result<Value, String> {
        self.expect(b'{')?;
        let mut entries = Vec::new();
        while !self.take(b'}') {
            let key = self.string()?;
            self.expect(b':')?;
            entries.push((key, self.value()?));
            self.take(b',');
        }
        Ok(Value::Object(entries))
    }

    fn list(&mut self) -> Result<Value, String> {
        self.expect(b'[')?;
        if matches!(self.peek(), Some(b'-' | b'0'..=b'9' | b']')) {
            let mut numbers = Vec::new();
            while !self.take(b']') {
                numbers.push(self.integer()?);
                self.take(b',');
            }
            return Ok(Value::Numbers(numbers));
        }
        let mut values = Vec::new();
        while !self.take(b']') {
            values.push(self.value()?);
            self.take(b',');
        }
        Ok(Value::List(values))
    }

    fn string(&mut self) -> Result<String, String> {
        self.expect(b'"')?;
        let start = self.at;
        while self.text.get(self.at).is_some_and(|byte| *byte != b'"') {
            self.at += 1;
        }
        let text = String::from_utf8_lossy(&self.text[start..self.at]).into_owned();
        self.expect(b'"')?;
        Ok(text)
    }

    fn integer(&mut self) -> Result<i64, String> {
        self.peek();
        let start = self.at;
        while matches!(self.text.get(self.at), Some(b'-' | b'0'..=b'9')) {
            self.at += 1;
        }
        let text = std::str::from_utf8(&self.text[start..self.at]).unwrap_or_default();
        text.parse().map_err(|_| format!("an integer was expected at byte {start}"))
    }
}
