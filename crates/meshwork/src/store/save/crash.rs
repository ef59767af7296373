//! Loss of power: what saves do to a disk is recorded, and replayed on a model of a disk that stops after each operation.
//!
//! In the model, a change of names lasts once the folder was synced after it, and written bytes once the file was. Of what
//! was not synced any part may be there after the crash, in any order: names without their bytes, later changes without
//! earlier ones, zeros or nothing in place of bytes. What a reader then finds is compared with what was confirmed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use super::disk::Change;
use super::ranks::Ranks;
use super::*;
use crate::Array;
use meshwork_testing::Folder;

/// What happened, in order.
#[derive(Clone, Debug)]
enum Event {
    MakeFolder(PathBuf),
    MakeFile(PathBuf),
    Write(PathBuf, Vec<u8>),
    SyncFile(PathBuf),
    SyncFolder(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    /// A rank was told that the save with this number is complete.
    Confirmed(usize),
}

/// Folders under which changes are recorded, with what was recorded.
static RECORDS: Mutex<Vec<(PathBuf, Vec<Event>)>> = Mutex::new(vec![]);

/// Does `work`, and notes it. Nothing else happens on a recorded disk meanwhile.
pub(super) fn recorded<R>(change: Change<'_>, work: impl FnOnce() -> io::Result<R>) -> io::Result<R> {
    let (path, event) = match change {
        Change::MakeFolder(path) => (path, Event::MakeFolder(path.into())),
        Change::MakeFile(path) => (path, Event::MakeFile(path.into())),
        Change::Write(path, bytes) => (path, Event::Write(path.into(), bytes.to_vec())),
        Change::SyncFile(path) => (path, Event::SyncFile(path.into())),
        Change::SyncFolder(path) => (path, Event::SyncFolder(path.into())),
        Change::Rename(from, to) => (from, Event::Rename(from.into(), to.into())),
        Change::RemoveFile(path) | Change::RemoveFolder(path) => (path, Event::Remove(path.into())),
    };
    let mut records = RECORDS.lock().unwrap();
    let Some(at) = records.iter().position(|(root, _)| path.starts_with(root)) else {
        drop(records);
        return work();
    };
    let done = work()?;
    records[at].1.push(event);
    Ok(done)
}

fn confirm(root: &Path, number: usize) {
    let mut records = RECORDS.lock().unwrap();
    let record = records.iter_mut().find(|(path, _)| path == root).unwrap();
    record.1.push(Event::Confirmed(number));
}

/// A disk: files and folders by number, of which 0 is the folder that everything is in.
struct Disk {
    root: PathBuf,
    nodes: Vec<Node>,
}

/// What a name stands for from then on, and the name that is gone.
type Renamed = (Option<(String, usize)>, Option<String>);

/// Of what is left after a crash: the names in a folder, or the bytes of a file.
type Left = (BTreeMap<String, usize>, Option<Vec<u8>>);

#[derive(Default)]
struct Node {
    /// Of a folder: the names in it, as programs see them and as they are on the disk.
    names: BTreeMap<String, usize>,
    lasting: BTreeMap<String, usize>,
    /// Changes of names since it was synced.
    renamed: Vec<Renamed>,
    /// Of a file: the bytes that are on the disk, and those written since it was synced.
    bytes: Option<Vec<u8>>,
    written: Vec<Vec<u8>>,
}

impl Disk {
    fn find(&self, path: &Path) -> usize {
        let inside = path.strip_prefix(&self.root).unwrap();
        inside.iter().fold(0, |at, name| self.nodes[at].names[name.to_str().unwrap()])
    }

    fn place(&self, path: &Path) -> (usize, String) {
        (self.find(path.parent().unwrap()), path.file_name().unwrap().to_str().unwrap().to_string())
    }

    fn link(&mut self, path: &Path, node: usize, from: Option<String>) {
        let (folder, name) = self.place(path);
        let folder = &mut self.nodes[folder];
        folder.names.retain(|name, _| Some(name) != from.as_ref());
        folder.names.insert(name.clone(), node);
        folder.renamed.push((Some((name, node)), from));
    }

    fn make(&mut self, path: &Path, bytes: Option<Vec<u8>>) {
        self.nodes.push(Node { bytes, ..Node::default() });
        self.link(path, self.nodes.len() - 1, None);
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::MakeFolder(path) => self.make(path, None),
            Event::MakeFile(path) => self.make(path, Some(vec![])),
            Event::Write(path, bytes) => {
                let node = self.find(path);
                self.nodes[node].written.push(bytes.clone());
            }
            Event::SyncFile(path) => {
                let node = self.find(path);
                let node = &mut self.nodes[node];
                let written = std::mem::take(&mut node.written).concat();
                node.bytes.as_mut().unwrap().extend(written);
            }
            Event::SyncFolder(path) => {
                let node = self.find(path);
                let node = &mut self.nodes[node];
                node.lasting = node.names.clone();
                node.renamed.clear();
            }
            Event::Rename(from, to) => {
                assert_eq!(from.parent(), to.parent(), "the model renames within a folder");
                let node = self.find(from);
                self.link(to, node, Some(self.place(from).1));
            }
            Event::Remove(path) => {
                let (folder, name) = self.place(path);
                self.nodes[folder].names.remove(&name);
                self.nodes[folder].renamed.push((None, Some(name)));
            }
            Event::Confirmed(_) => {}
        }
    }

    /// Changes that a crash may lose.
    fn pending(&self) -> usize {
        self.nodes.iter().map(|node| node.renamed.len() + node.written.len()).sum()
    }

    /// Writes what is left after a crash; `keeps` is asked about each change in turn.
    fn write_after_crash(&self, to: &Path, keeps: &mut dyn FnMut() -> bool) {
        let mut left: Vec<Left> = vec![];
        for node in &self.nodes {
            let mut names = node.lasting.clone();
            for (link, gone) in node.renamed.iter().filter(|_| keeps()) {
                names.retain(|name, _| Some(name) != gone.as_ref());
                names.extend(link.clone());
            }
            let mut bytes = node.bytes.clone();
            let mut end = bytes.as_ref().map_or(0, Vec::len);
            for written in &node.written {
                // Bytes that are lost are zeros if later ones are not.
                let is_kept = keeps();
                let kept = if is_kept { written.clone() } else { vec![0; written.len()] };
                bytes.iter_mut().for_each(|bytes| bytes.extend_from_slice(&kept));
                if is_kept {
                    end = bytes.as_ref().map_or(0, Vec::len);
                }
            }
            // The length of the file may be lost with its last bytes, or not.
            if !node.written.is_empty() && keeps() {
                bytes.iter_mut().for_each(|bytes| bytes.truncate(end));
            }
            left.push((names, bytes));
        }
        write(&left, 0, to);
    }
}

fn write(left: &[Left], node: usize, to: &Path) {
    match &left[node] {
        (_, Some(bytes)) => std::fs::write(to, bytes).unwrap(),
        (names, None) => {
            std::fs::create_dir_all(to).unwrap();
            names.iter().for_each(|(name, node)| write(left, *node, &to.join(name)));
        }
    }
}

/// A save: its step, and whether a new job makes it.
type Plan = (u64, bool);

fn tree(number: usize) -> Vec<Array> {
    let mesh = meshwork_mesh::Mesh::linear("x", 2).unwrap();
    let split = Array::full([6], number as f32 + 1.0).shard(&mesh, crate::P!["x"]).unwrap();
    vec![split, Array::scalar(number as i64 + 1)]
}

/// Makes the saves of `plan` on `size` ranks, and returns what that did to the disk.
fn record(root: &Path, size: usize, keep: usize, plan: &[Plan]) -> Vec<Event> {
    RECORDS.lock().unwrap().push((root.to_path_buf(), vec![]));
    let folder = root.join("runs/a");
    let open = || -> Vec<Checkpoints> {
        let token = Ranks::draw();
        let rank = |rank| Checkpoints::of(&folder, Ranks::new(rank, size, &token, Duration::from_secs(60))).keep(keep);
        (0..size).map(rank).collect()
    };
    let mut ranks = open();
    for (number, &(step, is_new_job)) in plan.iter().enumerate() {
        if is_new_job {
            ranks = open();
        }
        std::thread::scope(|scope| {
            for rank in &mut ranks {
                scope.spawn(move || {
                    rank.save(step, &tree(number), &[]).unwrap();
                    rank.wait().unwrap();
                    confirm(root, number);
                });
            }
        });
    }
    let mut records = RECORDS.lock().unwrap();
    let at = records.iter().position(|(path, _)| path == root).unwrap();
    records.swap_remove(at).1
}

/// The numbers of the saves that can be read, the last first. All that have a name must be whole.
fn found(folder: &Path) -> Vec<usize> {
    let number = |name: &folder::Name| {
        let found = Checkpoint::open(folder.join(name.to_string())).unwrap();
        found.verify().unwrap();
        let back = found.restore(&tree(0)).unwrap();
        let number = back[1].item::<i64>().unwrap() as usize - 1;
        assert!(back[0].to_vec::<f32>().unwrap().iter().all(|&x| x == number as f32 + 1.0));
        number
    };
    folder::list(folder).unwrap().iter().map(number).collect()
}

/// What was confirmed is there, as far as `keep` asks for it; the save after it may be there.
fn check(folder: &Path, plan: &[Plan], confirmed: usize, keep: usize) {
    let has = found(folder);
    assert!(has.is_sorted_by(|a, b| a > b), "not in the order of saving: {has:?}");
    assert!(has.iter().all(|&number| number <= confirmed), "{has:?} of {confirmed} confirmed saves and one more");
    let last = has.first().map_or(confirmed, |&number| confirmed.max(number + 1));
    // From the last on, of each step the last save.
    let mut wanted: Vec<usize> = vec![];
    for number in (0..last).rev() {
        if wanted.len() < keep && !wanted.iter().any(|&n| plan[n].0 == plan[number].0) {
            wanted.push(number);
        }
    }
    assert!(wanted.iter().all(|number| has.contains(number)), "found {has:?}, confirmed were {wanted:?}");
}

fn lose_power(name: &str, size: usize, keep: usize, plan: &[Plan]) {
    let root = Folder::new(&format!("crash_{name}"));
    let events = record(root.path(), size, keep, plan);
    replay(name, root.path(), &events, keep, plan);
}

/// Loses power after each of `events`, in many ways.
fn replay(name: &str, root: &Path, events: &[Event], keep: usize, plan: &[Plan]) {
    let after = Folder::new(&format!("crash_{name}_after"));
    let mut disk = Disk { root: root.to_path_buf(), nodes: vec![Node::default()] };
    let (mut confirmed, mut crashes, mut random) = (0, 0, 1u64);
    for (at, event) in events.iter().enumerate() {
        disk.apply(event);
        if let Event::Confirmed(number) = event {
            confirmed = confirmed.max(number + 1);
        }
        let pending = disk.pending();
        // All, none, each alone, all but each, and some at random.
        for variant in 0..2 * pending + 6 {
            let mut number = 0..;
            let mut keeps = || {
                let i = number.next().unwrap();
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                match variant {
                    0 => true,
                    1 => false,
                    _ if variant < 2 + pending => i == variant - 2,
                    _ if variant < 2 + 2 * pending => i != variant - 2 - pending,
                    _ => random >> 63 == 0,
                }
            };
            let folder = after.path().join(format!("{at}_{variant}"));
            disk.write_after_crash(&folder, &mut keeps);
            let runs = folder.join("runs/a");
            let checked = std::panic::catch_unwind(|| check(&runs, plan, confirmed, keep));
            assert!(checked.is_ok(), "{name}: event {at}, {event:?}, variant {variant}, {confirmed} confirmed");
            if variant < 2 {
                goes_on(&runs, keep);
            }
            std::fs::remove_dir_all(&folder).unwrap();
            crashes += 1;
        }
    }
    assert_eq!(confirmed, plan.len());
    assert!(crashes > 20 * plan.len(), "{crashes} crashes");
}

/// The next job saves there, and cleans up.
fn goes_on(folder: &Path, keep: usize) {
    let mut saves = Checkpoints::of(folder, Ranks::new(0, 1, &Ranks::draw(), Duration::from_secs(60))).keep(keep);
    let before = saves.latest().unwrap().map(|found| found.step());
    saves.save(7, &tree(99), &[]).unwrap();
    saves.wait().unwrap();
    let has = found(folder);
    assert_eq!(has[0], 99);
    assert!(has.len() <= keep && (has.len() > 1 || keep == 1 || before.is_none()), "{has:?} after {before:?}");
    let names = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let rest: Vec<String> = names.filter(|name| !name.starts_with("step-")).collect();
    assert!(rest.is_empty(), "{rest:?}");
}

#[test]
fn power_lost_after_any_operation_loses_nothing_that_was_confirmed() {
    lose_power("one_rank", 1, 2, &[(1, false), (2, false), (3, false), (4, true)]);
    lose_power("two_ranks", 2, 2, &[(1, false), (2, false), (3, false)]);
}

#[test]
fn power_lost_while_a_step_is_saved_again_leaves_the_old_or_the_new() {
    lose_power("again", 2, 1, &[(5, false), (5, false), (5, true)]);
}

#[test]
fn power_lost_after_going_back_to_an_earlier_step_leaves_what_was_saved_last() {
    lose_power("back", 1, 2, &[(8, false), (9, false), (3, true), (4, false), (9, false)]);
}

/// The model notices what is missing: without the requests to make changes last, saves are lost.
#[test]
fn without_syncing_files_or_folders_confirmed_saves_are_lost() {
    let (root, plan) = (Folder::new("crash_unsynced"), [(1, false), (2, false)]);
    let events = record(root.path(), 1, 2, &plan);
    let is_lost = |name: &str, is_left_out: fn(&Event) -> bool| {
        let events: Vec<Event> = events.iter().filter(|event| !is_left_out(event)).cloned().collect();
        std::panic::catch_unwind(|| replay(name, root.path(), &events, 2, &plan)).is_err()
    };
    assert!(!is_lost("unsynced_none", |_| false));
    assert!(is_lost("unsynced_files", |event| matches!(event, Event::SyncFile(_))));
    assert!(is_lost("unsynced_folders", |event| matches!(event, Event::SyncFolder(_))));
    assert!(is_lost("unsynced_last", |event| matches!(event, Event::SyncFolder(path) if path.ends_with("runs/a"))));
    assert!(is_lost("unsynced_first", |event| matches!(event, Event::SyncFolder(path) if path.ends_with("runs"))));
}
